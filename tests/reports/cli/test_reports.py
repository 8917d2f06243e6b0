"""From predictions to verdicts and counts, in both layouts of prediction files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.instances.dataset import load_dataset
from core.errors import UserError
from reports.data.predictions import Prediction
from reports.data.verdicts import Verdict, VerdictStatus, leaderboard_lists
from reports.evaluation.settings import EvaluatorKind
from reports.report import report_command
from tests.support import read_json, run_script
from tests.support.evaluated import report_settings

ALL = [
    "demo__bank-1",
    "demo__bank-2",
    "demo__textkit-1",
    "demo__textkit-2",
    "demo__units-1",
    "demo__units-2",
]
MakeRun = Callable[[dict[str, str | None]], Path]


def gold() -> dict[str, str]:
    return {
        row["instance_id"]: row["patch"] for row in load_dataset("demo", "test").rows
    }


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Make a run folder with the given patches by instance id."""

    def make(patches: dict[str, str | None]) -> Path:
        folder = tmp_path / "predictions" / "r"
        folder.mkdir(parents=True)
        dataset = {"name": "demo", "split": "test"}
        (folder / "run.json").write_text(
            json.dumps({"dataset": dataset, "selected": ALL})
        )
        for name, patch in patches.items():
            content = {
                "instance_id": name,
                "model_name_or_path": "me/too",
                "model_patch": patch,
            }
            (folder / f"{name}.json").write_text(json.dumps({**content, "cost": 0.25}))
        return folder

    return make


WRONG = (
    "diff --git a/textkit/slug.py b/textkit/slug.py\n--- a/textkit/slug.py\n+++ b/textkit/slug.py\n"
    '@@ -1 +1 @@\n-"""Names for addresses."""\n+"""Names."""\n'
)


KINDS = [
    EvaluatorKind.LOCAL,
    pytest.param(EvaluatorKind.DOCKER, marks=pytest.mark.docker),
]


# Four of the six are evaluated by the test below, the others locally by later ones.
@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_all_six_gold_patches_are_resolved(
    kind: EvaluatorKind, make_run: MakeRun, cache: Path
) -> None:
    folder = make_run(dict(gold()))
    assert report_command([folder], report_settings(cache, kind), lambda _: None) == 0
    assert json.loads((folder / "results.json").read_text())["resolved"] == ALL


@pytest.mark.parametrize(
    "kind", [pytest.param(KINDS[0], marks=pytest.mark.long), *KINDS[1:]]
)
def test_gold_patches_are_resolved_and_others_are_not(
    kind: EvaluatorKind, make_run: MakeRun, cache: Path
) -> None:
    patches: dict[str, str | None] = {
        **gold(),
        "demo__textkit-1": WRONG,
        "demo__bank-1": None,
    }
    folder = make_run(patches)
    said: list[str] = []
    assert report_command([folder], report_settings(cache, kind), said.append) == 0
    resolved = sorted(set(ALL) - {"demo__textkit-1", "demo__bank-1"})
    assert json.loads((folder / "results.json").read_text()) == {
        "no_generation": ["demo__bank-1"],
        "no_logs": [],
        "resolved": resolved,
    }
    assert read_json(folder / "verdicts/demo__units-1.json")["gold_files"] == [
        "units/parse.py"
    ]
    assert read_json(folder / "verdicts/demo__units-1.json")["official"] is (
        kind is EvaluatorKind.DOCKER
    )
    text = "\n".join(said)
    assert "66.7 % of the selected" in text
    assert ("UNOFFICIAL" in text) is (kind is EvaluatorKind.LOCAL)
    assert (folder.parent.parent / "logs/r/demo__units-1.me__too.eval.log").exists()
    report = json.loads(
        (folder.parent.parent / "logs/r/demo__units-1.report.json").read_text()
    )
    assert report["demo__units-1"]["resolved"] is True


def test_all_preds_has_three_keys_and_no_tests(make_run: MakeRun, cache: Path) -> None:
    test = WRONG.replace("textkit/slug.py", "tests/test_slug.py")
    folder = make_run({"demo__units-2": "", "demo__textkit-1": WRONG + test})
    report_command([folder], report_settings(cache, EvaluatorKind.NONE), lambda _: None)
    lines = (folder / "all_preds.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["instance_id"] for row in rows] == ["demo__textkit-1", "demo__units-2"]
    assert all(
        set(r) == {"instance_id", "model_name_or_path", "model_patch"} for r in rows
    )
    assert rows[0]["model_patch"] == WRONG


def test_verdicts_that_are_there_are_used_for_the_same_patch_only(
    make_run: MakeRun, cache: Path
) -> None:
    folder = make_run({"demo__textkit-1": gold()["demo__textkit-1"]})
    report_command(
        [folder], report_settings(cache, EvaluatorKind.LOCAL), lambda _: None
    )
    said: list[str] = []
    report_command([folder], report_settings(cache, EvaluatorKind.NONE), said.append)
    assert any(
        line.startswith("demo__textkit-1") and "resolved (local)" in line
        for line in said
    )
    path = folder / "demo__textkit-1.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_patch": WRONG}))
    said.clear()
    report_command([folder], report_settings(cache, EvaluatorKind.NONE), said.append)
    assert any("not evaluated" in line and "demo__textkit-1" in line for line in said)


def test_what_cannot_be_evaluated_is_told_apart(
    make_run: MakeRun, cache: Path, tmp_path: Path
) -> None:
    row = dict(load_dataset("demo", "test").rows[0])
    row["spec"] = {**row["spec"], "python": "2.9"}
    (tmp_path / "rows.json").write_text(json.dumps([row]))
    folder = make_run({"demo__bank-1": gold()["demo__bank-1"]})
    said: list[str] = []
    chosen = report_settings(
        cache,
        EvaluatorKind.LOCAL,
        dataset=str(tmp_path / "rows.json"),
        repos=cache / "demo-mirrors",
    )
    assert report_command([folder], chosen, said.append) == 1
    assert any("not evaluated" in line and "Python 2.9" in line for line in said)
    assert json.loads((folder / "results.json").read_text())["no_logs"] == [
        "demo__bank-1"
    ]


@pytest.mark.docker
def test_a_missing_image_is_not_evaluated_and_never_unresolved(
    make_run: MakeRun, cache: Path, tmp_path: Path
) -> None:
    rows = [dict(r) for r in load_dataset("demo", "test").rows][:1]
    rows[0]["image"] = "127.0.0.1:9/no/such:image"
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    folder = make_run({"demo__bank-1": gold()["demo__bank-1"]})
    chosen = report_settings(
        cache, EvaluatorKind.DOCKER, dataset=str(tmp_path / "rows.json")
    )
    assert report_command([folder], chosen, lambda _: None) == 1
    assert read_json(folder / "verdicts/demo__bank-1.json")["status"] == "not_evaluated"


@pytest.mark.parametrize(
    "kind",
    [
        KINDS[0],
        pytest.param(
            EvaluatorKind.DOCKER, marks=[pytest.mark.docker, pytest.mark.long]
        ),
    ],
)
def test_a_patch_that_does_not_apply_or_hangs_is_unresolved(
    kind: EvaluatorKind, make_run: MakeRun, cache: Path
) -> None:
    hang = WRONG.replace('+"""Names."""', "+while True: pass")
    assert hang != WRONG
    stale = WRONG.replace("Names for addresses", "Something else")
    folder = make_run(
        {
            "demo__textkit-1": hang,
            "demo__bank-1": stale.replace("textkit/slug", "bank/account"),
        }
    )
    assert (
        report_command(
            [folder], report_settings(cache, kind, timeout=5.0), lambda _: None
        )
        == 0
    )
    for name in ("demo__textkit-1", "demo__bank-1"):
        assert read_json(folder / f"verdicts/{name}.json")["status"] == "unresolved", (
            name
        )
        assert read_json(folder / f"verdicts/{name}.json")["reason"], name


def test_the_older_layout_is_read_with_its_verdicts(
    tmp_path: Path, cache: Path
) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    base = {
        "model_name_or_path": "old",
        "cost": 1.5,
        "edit_outcome": True,
        "lint_outcome": True,
    }
    content: list[dict[str, Any]] = [
        {
            "instance_id": "a__b-1",
            "model_patch": WRONG,
            "resolved": True,
            "test_outcome": True,
        },
        {
            "instance_id": "a__b-2",
            "model_patch": WRONG,
            "resolved": False,
            "test_outcome": False,
        },
        {"instance_id": "a__b-3", "model_patch": None},
    ]
    for values in content:
        (folder / f"{values['instance_id']}.json").write_text(
            json.dumps({**base, **values})
        )
    said: list[str] = []
    report_command([folder], report_settings(cache, EvaluatorKind.NONE), said.append)
    text = "\n".join(said)
    for line in (
        "generated          2",
        "no generation      1",
        "plausible          1",
    ):
        assert line in text
    assert "resolved           1  33.3 %" in text
    assert "$4.50" in text


def test_the_leaderboards_lists() -> None:
    patches = {"a": "p", "b": "", "c": "p"}
    predictions = [Prediction(name, "m", patches[name]) for name in patches]
    verdicts = {
        "a": Verdict(
            instance_id="a", status=VerdictStatus.RESOLVED, evaluator="docker"
        ),
        "b": Verdict(instance_id="b", status=VerdictStatus.EMPTY, evaluator="none"),
        "c": Verdict(
            instance_id="c", status=VerdictStatus.NOT_EVALUATED, evaluator="docker"
        ),
    }
    assert leaderboard_lists(predictions, verdicts) == {
        "no_generation": ["b"],
        "no_logs": ["c"],
        "resolved": ["a"],
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [(["/nowhere"], "there is no run /nowhere"), ([], "no predictions")],
)
def test_bad_input(
    tmp_path: Path,
    cache: Path,
    words: list[str],
    said: str,
) -> None:
    with pytest.raises(UserError, match=said):
        report_command(
            [Path(w) for w in words] or [tmp_path],
            report_settings(cache, EvaluatorKind.NONE),
            print,
        )


def test_ids_that_are_not_in_the_dataset(make_run: MakeRun, cache: Path) -> None:
    with pytest.raises(UserError, match="not in the dataset"):
        report_command(
            [make_run({"x__y-1": WRONG})],
            report_settings(cache, EvaluatorKind.LOCAL),
            print,
        )


@pytest.mark.docker
def test_a_dataset_without_what_the_evaluator_needs(
    make_run: MakeRun, cache: Path, tmp_path: Path
) -> None:
    row = dict(load_dataset("demo", "test").rows[0])
    row.pop("eval_script")
    (tmp_path / "rows.json").write_text(json.dumps([row]))
    chosen = report_settings(
        cache, EvaluatorKind.DOCKER, dataset=str(tmp_path / "rows.json")
    )
    with pytest.raises(UserError, match="lacks eval_script"):
        report_command([make_run({row["instance_id"]: WRONG})], chosen, print)


def test_no_engine_is_told_and_exit_code_1(make_run: MakeRun, cache: Path) -> None:
    folder = make_run({"demo__bank-1": WRONG})
    nowhere = "tcp://127.0.0.1:9"
    result = run_script(
        folder, "--evaluator", "docker", script="report.py", DOCKER_HOST=nowhere
    )
    assert result.returncode == 1
    assert "not evaluated (docker) no Docker engine answers: start one" in result.stdout
    assert not result.stderr


def test_an_official_verdict_is_not_written_over(
    make_run: MakeRun, cache: Path
) -> None:
    folder = make_run({"demo__bank-1": gold()["demo__bank-1"]})
    report_command(
        [folder], report_settings(cache, EvaluatorKind.LOCAL), lambda _: None
    )
    path = folder / "verdicts/demo__bank-1.json"
    assert read_json(path)["status"] == "resolved"
    path.write_text(json.dumps({**read_json(path), "evaluator": "docker"}))
    said: list[str] = []
    report_command([folder], report_settings(cache, EvaluatorKind.LOCAL), said.append)
    assert not any(line.startswith("evaluating") for line in said)
    assert read_json(folder / "verdicts/demo__bank-1.json")["evaluator"] == "docker"


@pytest.mark.parametrize("content", ["[]", "5", "{"])
def test_a_broken_verdict_file_is_named(
    make_run: MakeRun, cache: Path, content: str
) -> None:
    folder = make_run({"demo__bank-1": WRONG})
    (folder / "verdicts").mkdir()
    (folder / "verdicts/demo__bank-1.json").write_text(content)
    with pytest.raises(UserError, match=r"demo__bank-1\.json"):
        report_command([folder], report_settings(cache, EvaluatorKind.NONE), print)


def test_all_runs_are_looked_at_before_the_first_is_evaluated(
    make_run: MakeRun, cache: Path
) -> None:
    folder = make_run({"demo__bank-1": WRONG})
    with pytest.raises(UserError, match="there is no run"):
        report_command(
            [folder, folder / "typo"], report_settings(cache, EvaluatorKind.NONE), print
        )
    assert not (folder / "all_preds.jsonl").exists()
