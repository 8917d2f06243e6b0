"""Each task set: recognized by its columns, hides what it must, and says what a row lacks."""

from __future__ import annotations

from typing import Any

import pytest

from swe_retry.core.errors import UserError
from swe_retry.instances.adapters import ADAPTERS, adapter_of
from swe_retry.instances.adapters.adapter import date_of
from swe_retry.instances.instance import ImageLayout, Instance
from swe_retry.instances.split import instance_id_of, reverse_patch, split_row
from tests.support.task_sets import (
    BASE,
    GOLD,
    PATCH,
    PRO,
    ROWS,
    SMITH,
    STATEMENT,
)

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
    "classic": "python -m pytest -rA",
    "live": "pytest -rA",
    "multilang": "cd sub ; cargo test > out.log",
    "rebench": "pytest --no-header -rA",
    "rebench-v2": "make ; make check",
    "gym": "pytest -rA",
    "smith": "pytest --disable-warnings --color=no --tb=no --verbose",
    "pro": "python -m pytest -rA",
    "multi": "bash /home/run.sh",
}
# What comes before and after the command; nothing for other sets.
SETUPS = {
    "classic": ("cd /testbed",),
    "multilang": ("cargo build",),
    "rebench": ("pip install -e .[dev]",),
}
SHOWS = {"multilang": ("cat out.log",)}
LAYOUTS = {
    "classic": ImageLayout(),
    "live": ImageLayout(keeps_home=True, one_commit=True),
    "rebench": ImageLayout(activation=CONDA, one_commit=True),
    "rebench-v2": ImageLayout("/Thing-C", keeps_home=True, one_commit=True),
    "gym": ImageLayout(activation=CONDA, one_commit=True),
    "smith": ImageLayout(activation=CONDA, one_commit=True, fresh_tree=True),
    "pro": ImageLayout("/app", keeps_home=True, one_commit=True, fresh_tree=True),
}


def visible_text(instance: Instance) -> str:
    """Return everything of an instance that is printed, sent or named after it."""
    visible = {}
    for name, value in vars(instance).items():
        if name not in ("bug", "image"):
            visible[name] = value
    return f"{visible} {instance.shown_image}"


@pytest.mark.parametrize("name", ROWS)
def test_nothing_hidden_is_in_the_harness_half_and_all_of_it_in_the_other(
    name: str,
) -> None:
    adapter = adapter_of(ROWS[name])
    assert adapter is not None
    assert adapter.name == LOOKS[name]
    instance, evaluation = split_row(ROWS[name])
    text = visible_text(instance)
    assert "ZQHIDDEN" not in text
    assert GOLD not in text
    assert "ZQHIDDEN_GOLD" in evaluation.patch
    assert any("ZQHIDDEN" in test for test in evaluation.fail_to_pass)
    assert any("ZQHIDDEN_P2P" in test for test in evaluation.pass_to_pass)
    assert evaluation.row == ROWS[name]


def test_the_sentinels_would_be_seen() -> None:
    """A column that an adapter may see and uses does arrive."""
    instance, _ = split_row({**ROWS["classic"], "version": "ZQHIDDEN"})
    assert "ZQHIDDEN" in visible_text(instance)


INSTANCES = {name: split_row(row)[0] for name, row in ROWS.items()}


def test_statements_are_composed_as_the_set_does() -> None:
    pro = f"{STATEMENT}\n\nRequirements:\n- Add.\n\nNew interfaces introduced:\nNone."
    statements = dict.fromkeys(ROWS, STATEMENT)
    statements["pro"] = pro
    for name, instance in INSTANCES.items():
        assert instance.problem_statement == statements[name], name


def test_images_and_commands() -> None:
    for name, command in COMMANDS.items():
        setup = INSTANCES[name].test_setup
        assert setup is not None
        assert setup.command == command, name
        assert setup.setup == SETUPS.get(name, ()), name
        assert setup.show == SHOWS.get(name, ()), name
    for name, image in IMAGES.items():
        assert INSTANCES[name].image == image, name
    for name, layout in LAYOUTS.items():
        assert INSTANCES[name].layout == layout, name


def test_ids_repositories_and_commits_of_every_set() -> None:
    for name, instance in INSTANCES.items():
        assert instance.instance_id == instance_id_of(ROWS[name])
        assert instance.base_commit == BASE
    assert INSTANCES["multi"].instance_id == "Own__thing-12"
    assert INSTANCES["gym"].instance_id == "Project-MONAI__MONAI-1"
    assert INSTANCES["multi"].repo == "Own/thing"


def test_pro_has_a_neutral_id_that_maps_back() -> None:
    instance, evaluation = split_row(PRO)
    assert instance.instance_id.startswith("Own__Thing-")
    assert len(instance.instance_id) == len("Own__Thing-") + 10
    assert evaluation.instance_id == PRO["instance_id"]
    hidden = {"patch": "", "instance_id": "instance_Own__Thing-b", "x": 1}
    other, _ = split_row({**PRO, **hidden})
    assert other.instance_id == instance.instance_id, "made of visible columns alone"
    another, _ = split_row({**PRO, "problem_statement": "Another."})
    assert another.instance_id != instance.instance_id


WEB = "element-hq__element-web"
LONG = "ec0f940ef0e8e3b61078f145f34dc40d1938e6c5-vnan"
PRO_TAGS = [
    ("NodeBB/NodeBB", "NodeBB__NodeBB-00c7-vnan", "nodebb.nodebb-NodeBB__NodeBB-00c7"),
    ("element-hq/element-web", f"{WEB}-1-vnan", f"element-hq.element-{WEB}-1"),
    ("element-hq/element-web", f"{WEB}-{LONG}", f"element-hq.element-web-{WEB}-{LONG}"),
]


def test_pro_images_without_a_tag() -> None:
    for repo, name, tag in PRO_TAGS:
        row = {
            **PRO,
            "instance_id": f"instance_{name}",
            "repo": repo,
            "dockerhub_tag": None,
        }
        instance, _ = split_row(row)
        assert instance.image == f"jefzda/sweap-images:{tag}"


def test_pictures_of_the_issue_alone() -> None:
    assert INSTANCES["multimodal"].image_urls == ("https://example.org/a.png",)
    assets = '{"problem_statement": ["https://b/c.png"]}'
    instance, _ = split_row({**ROWS["multimodal"], "image_assets": assets})
    assert instance.image_urls == ("https://b/c.png",)


def test_live_parsers_are_named_or_kept_as_source() -> None:
    assert INSTANCES["live"].log_parser == "parse_log_pytest"
    multilang = INSTANCES["multilang"]
    assert multilang.parser_source.startswith("def parser(log)")
    assert "def parser" not in repr(multilang)


def test_smith_without_a_commit_uses_the_original_repository() -> None:
    instance, evaluation = split_row({**SMITH, "base_commit": None})
    assert instance.repo == "own/thing"
    assert instance.base_commit == "1fd52536"
    assert "ZQHIDDEN_GOLD" not in repr(instance)
    assert "+ZQHIDDEN_GOLD\n" in evaluation.patch


def refusal_of(row: dict[str, Any]) -> str:
    """Return the one line by which a row is refused."""
    with pytest.raises(UserError) as caught:
        split_row(row)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", ROWS)
def test_a_row_that_lacks_something_says_what_and_which_set_it_looks_like(
    name: str,
) -> None:
    adapter = adapter_of(ROWS[name])
    assert adapter is not None
    for key in adapter.required:
        row = dict(ROWS[name])
        for column in key.split("|"):
            row.pop(column, None)
        message = refusal_of(row)
        assert f"`{key}` is missing" in message
        assert f"looks like {adapter.name})" in message


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


def test_damaged_rows_are_one_clear_line() -> None:
    for name, change, message in DAMAGED:
        line = refusal_of({**ROWS[name], **change})
        assert message in line
        assert LOOKS[name] in line


def test_rows_of_no_known_set_name_their_columns() -> None:
    line = refusal_of({"task_id": 1, "prompt": "x"})
    assert "no known set: it has the columns prompt, task_id; known" in line


def test_every_adapter_has_a_row_here() -> None:
    names = {adapter.name for adapter in ADAPTERS}
    assert names == set(LOOKS.values())


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


DATES: dict[Any, str] = {
    "2024-05-23T12:00:00Z": "2024-05-23T12:00:00Z",
    "2024-05-23 12:00:00": "2024-05-23T12:00:00",
    "2024-05": "2024-05",
    1609298073000: "2020-12-30T03:14:33+00:00",
    1609298073: "2020-12-30T03:14:33+00:00",
    None: "",
    "soon": "",
}


def test_dates() -> None:
    for value, date in DATES.items():
        assert date_of(value) == date, value
