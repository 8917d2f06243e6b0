"""Each task set: recognized by its columns, hides what it must, and says what a row lacks."""

from __future__ import annotations

from typing import Any

import pytest

from bench.instances.adapters import ADAPTERS, adapter_of
from bench.instances.adapters.base import date_of
from bench.instances.instance import (
    ImageLayout,
    Instance,
    instance_id_of,
    reverse_patch,
    split_row,
)
from core.errors import UserError
from tests.support.task_sets import BASE, GOLD, PATCH, PRO, ROWS, SMITH, STATEMENT

CONDA = ("source /opt/miniconda3/bin/activate", "conda activate testbed")
LOOKS = {
    "classic": "SWE-bench",
    "multimodal": "SWE-bench",
    "live": "SWE-bench Live",
    "multilang": "SWE-bench Live",
    "rebench": "SWE-rebench",
    "rebench-v2": "SWE-rebench V2",
    "gym": "SWE-Gym",
    "smith": "SWE-smith",
    "pro": "SWE-bench Pro",
    "multi": "Multi-SWE-bench",
    "own": "one's own repository",
}
IMAGES = {
    "classic": "own/thing:latest",
    "live": "starryzhang/sweb.eval.x86_64.own_1776_thing-1",
    "rebench": "swerebench/sweb.eval.x86_64.own_1776_thing-1",
    "rebench-v2": "docker.io/swerebenchv2/own-thing-c:1-aaaaaaa",
    "gym": "xingyaoww/sweb.eval.x86_64.project-monai_s_monai-1",
    "smith": "jyangballin/swesmith.x86_64.own_1776_thing.1fd52536",
    "pro": f"jefzda/sweap-images:own.thing-Own__Thing-{GOLD}",
    "multi": "mswebench/own_m_thing:pr-12",
}
COMMANDS = {
    "classic": (("cd /testbed",), "python -m pytest -rA", ()),
    "live": ((), "pytest -rA", ()),
    "multilang": (("cargo build",), "cd sub ; cargo test > out.log", ("cat out.log",)),
    "rebench": (("pip install -e .[dev]",), "pytest --no-header -rA", ()),
    "rebench-v2": ((), "make ; make check", ()),
    "gym": ((), "pytest -rA", ()),
    "smith": ((), "pytest --disable-warnings --color=no --tb=no --verbose", ()),
    "pro": ((), "python -m pytest -rA", ()),
    "multi": ((), "bash /home/run.sh", ()),
}
PLACES = {
    "classic": ImageLayout(),
    "live": ImageLayout(keeps_home=True, one_commit=True),
    "rebench": ImageLayout(activation=CONDA, one_commit=True),
    "rebench-v2": ImageLayout("/Thing-C", keeps_home=True, one_commit=True),
    "gym": ImageLayout(activation=CONDA, one_commit=True),
    "smith": ImageLayout(activation=CONDA, one_commit=True, fresh_tree=True),
    "pro": ImageLayout("/app", keeps_home=True, one_commit=True, fresh_tree=True),
}


def seen(instance: Instance) -> str:
    """Return everything of an instance that is printed, sent or named after it."""
    shown = {}
    for name, value in vars(instance).items():
        if name not in ("bug", "image"):
            shown[name] = value
    return f"{shown} {instance.shown_image}"


@pytest.mark.parametrize("name", list(ROWS))
def test_nothing_hidden_is_in_the_harness_half_and_all_of_it_in_the_other(
    name: str,
) -> None:
    adapter = adapter_of(ROWS[name])
    assert adapter is not None and adapter.name == LOOKS[name]
    instance, evaluation = split_row(ROWS[name])
    text = seen(instance)
    assert "ZQHIDDEN" not in text
    assert GOLD not in text
    assert "ZQHIDDEN_GOLD" in evaluation.patch
    assert any("ZQHIDDEN" in test for test in evaluation.fail_to_pass)
    assert any("ZQHIDDEN_P2P" in test for test in evaluation.pass_to_pass)
    assert evaluation.row == ROWS[name]


def test_the_sentinels_would_be_seen() -> None:
    """A column that an adapter may see and uses does arrive."""
    row = {**ROWS["classic"], "version": "ZQHIDDEN"}
    assert "ZQHIDDEN" in seen(split_row(row)[0])


@pytest.mark.parametrize("name", list(ROWS))
def test_statements_are_composed_as_the_set_does(name: str) -> None:
    expected = STATEMENT
    if name == "pro":
        expected += "\n\nRequirements:\n- Add.\n\nNew interfaces introduced:\nNone."
    assert split_row(ROWS[name])[0].problem_statement == expected


@pytest.mark.parametrize("name", list(COMMANDS))
def test_images_and_commands(name: str) -> None:
    instance, _ = split_row(ROWS[name])
    setup = instance.test_setup
    assert setup is not None
    assert (setup.setup, setup.command, setup.show) == COMMANDS[name]
    if name in IMAGES:
        assert instance.image == IMAGES[name]
    if name in PLACES:
        assert instance.layout == PLACES[name]


def test_ids_repositories_and_commits_of_every_set() -> None:
    ids = {name: instance_id_of(row) for name, row in ROWS.items()}
    assert ids["multi"] == "Own__thing-12"
    assert ids["gym"] == "Project-MONAI__MONAI-1"
    for name, row in ROWS.items():
        instance, _ = split_row(row)
        assert instance.instance_id == ids[name]
        assert instance.base_commit == BASE
    assert split_row(ROWS["multi"])[0].repo == "Own/thing"


def test_pro_has_a_neutral_id_that_maps_back() -> None:
    instance, evaluation = split_row(PRO)
    assert instance.instance_id.startswith("Own__Thing-")
    assert len(instance.instance_id) == len("Own__Thing-") + 10
    assert evaluation.instance_id == PRO["instance_id"]
    other, _ = split_row(
        {**PRO, "patch": "", "instance_id": "instance_Own__Thing-b", "x": 1}
    )
    assert other.instance_id == instance.instance_id, "made of visible columns alone"
    another, _ = split_row({**PRO, "problem_statement": "Another."})
    assert another.instance_id != instance.instance_id


@pytest.mark.parametrize(
    ("name", "repo", "tag"),
    [
        (
            "instance_NodeBB__NodeBB-00c7-vnan",
            "NodeBB/NodeBB",
            "nodebb.nodebb-NodeBB__NodeBB-00c7",
        ),
        (
            "instance_element-hq__element-web-1-vnan",
            "element-hq/element-web",
            "element-hq.element-element-hq__element-web-1",
        ),
        (
            "instance_element-hq__element-web-ec0f940ef0e8e3b61078f145f34dc40d1938e6c5-vnan",
            "element-hq/element-web",
            "element-hq.element-web-element-hq__element-web-"
            "ec0f940ef0e8e3b61078f145f34dc40d1938e6c5-vnan",
        ),
    ],
)
def test_pro_images_without_a_tag(name: str, repo: str, tag: str) -> None:
    row = {**PRO, "instance_id": name, "repo": repo, "dockerhub_tag": None}
    assert split_row(row)[0].image == f"jefzda/sweap-images:{tag}"


def test_pictures_of_the_issue_alone() -> None:
    assert split_row(ROWS["multimodal"])[0].image_urls == ("https://example.org/a.png",)
    text = {
        **ROWS["multimodal"],
        "image_assets": '{"problem_statement": ["https://b/c.png"]}',
    }
    assert split_row(text)[0].image_urls == ("https://b/c.png",)


def test_live_parsers_are_named_or_kept_as_source() -> None:
    assert split_row(ROWS["live"])[0].log_parser == "parse_log_pytest"
    multilang, _ = split_row(ROWS["multilang"])
    assert multilang.parser_source.startswith("def parser(log)")
    assert "def parser" not in repr(multilang)


def test_smith_without_a_commit_uses_the_original_repository() -> None:
    instance, evaluation = split_row({**SMITH, "base_commit": None})
    assert (instance.repo, instance.base_commit) == ("own/thing", "1fd52536")
    assert "ZQHIDDEN_GOLD" not in repr(instance)
    assert "+ZQHIDDEN_GOLD\n" in evaluation.patch


@pytest.mark.parametrize("name", list(ROWS))
def test_a_row_that_lacks_something_says_what_and_which_set_it_looks_like(
    name: str,
) -> None:
    adapter = adapter_of(ROWS[name])
    assert adapter is not None
    for key in adapter.required:
        row = {}
        for other, value in ROWS[name].items():
            if other not in key.split("|"):
                row[other] = value
        with pytest.raises(UserError) as caught:
            split_row(row)
        words = str(caught.value)
        assert "\n" not in words
        assert f"`{key}` is missing" in words
        assert f"looks like {adapter.name})" in words


DAMAGED: list[tuple[str, dict[str, Any], str]] = [
    ("live", {"test_cmds": 5}, "`test_cmds` is not a list of texts"),
    ("rebench", {"install_config": "{"}, "`install_config` is not an object"),
    ("rebench", {"install_config": {"python": "3"}}, "has no `test_cmd`"),
    ("rebench-v2", {"image_name": ""}, "`image_name` is missing"),
    ("smith", {"instance_id": "own__thing-1"}, "owner__name.commit.bug"),
    ("pro", {"fail_to_pass": "__import__('os')"}, "`fail_to_pass` is not a list"),
    ("multi", {"base": {"ref": "main"}}, "`base` has no `sha`"),
    ("multi", {"number": "../x"}, "`number` is not the number of a pull request"),
    ("multi", {"resolved_issues": "x"}, "`resolved_issues` is not a list of issues"),
    ("multi", {"fix_patch": 5}, "`fix_patch` is not a text"),
    ("multimodal", {"image_assets": "["}, "`image_assets` is not an object"),
]


@pytest.mark.parametrize(("name", "change", "words"), DAMAGED)
def test_damaged_rows_are_one_clear_line(
    name: str,
    change: dict[str, Any],
    words: str,
) -> None:
    with pytest.raises(UserError) as caught:
        split_row({**ROWS[name], **change})
    assert words in str(caught.value)
    assert LOOKS[name] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rows_of_no_known_set_name_their_columns() -> None:
    with pytest.raises(
        UserError, match=r"no known set: it has the columns prompt, task_id; known"
    ):
        split_row({"task_id": 1, "prompt": "x"})


def test_every_adapter_has_a_row_here() -> None:
    assert {adapter.name for adapter in ADAPTERS} == set(LOOKS.values())


def test_a_reversed_patch_undoes_it() -> None:
    once = reverse_patch(PATCH)
    assert "-ZQHIDDEN_GOLD\n+old\n" in once
    assert reverse_patch(once) == PATCH
    new = (
        "diff --git a/x b/x\nnew file mode 100644\nindex 0000000..1111111\n--- /dev/null\n"
        "+++ b/x\n@@ -0,0 +1,2 @@\n+one\n+--- two\n\\ No newline at end of file\n"
    )
    assert reverse_patch(new) == (
        "diff --git a/x b/x\ndeleted file mode 100644\nindex 1111111..0000000\n--- a/x\n"
        "+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n---- two\n\\ No newline at end of file\n"
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2024-05-23T12:00:00Z", "2024-05-23T12:00:00Z"),
        ("2024-05-23 12:00:00", "2024-05-23T12:00:00"),
        ("2024-05", "2024-05"),
        (1609298073000, "2020-12-30T03:14:33+00:00"),
        (1609298073, "2020-12-30T03:14:33+00:00"),
        (None, ""),
        ("soon", ""),
    ],
)
def test_dates(value: object, expected: str) -> None:
    assert date_of(value) == expected
