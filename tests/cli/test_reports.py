"""From predictions to verdicts and counts, in both layouts of prediction files."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from swe_retry.cli.report import main
from swe_retry.core.errors import UserError
from swe_retry.report.evaluation.evaluation_settings import EvaluatorKind
from swe_retry.report.report import report_command
from swe_retry.results.predictions import Prediction
from swe_retry.results.verdicts import Verdict, VerdictStatus, leaderboard_lists
from tests.support import read_json, write_json
from tests.support.evaluated import (
    BANK,
    IDS,
    ROWS,
    TEXTKIT,
    UNITS,
    change_json,
    make_run,
    on_disk,
    report_settings,
)
from tests.support.reported import report_run

GOLD = {row["instance_id"]: row["patch"] for row in ROWS}
WRONG = (
    "diff --git a/textkit/slug.py b/textkit/slug.py\n--- a/textkit/slug.py\n+++ b/textkit/slug.py\n"
    '@@ -1 +1 @@\n-"""Names for addresses."""\n+"""Names."""\n'
)
LOCAL = EvaluatorKind.LOCAL
DOCKER = pytest.param(EvaluatorKind.DOCKER, marks=pytest.mark.docker)
LONG_LOCAL = pytest.param(LOCAL, marks=pytest.mark.long)
LONG_DOCKER = pytest.param(
    EvaluatorKind.DOCKER,
    marks=[pytest.mark.docker, pytest.mark.long],
)


def run_of(out: Path, patches: Mapping[str, str]) -> Path:
    """Write a run that selected all instances, and return its folder."""
    folder = make_run(out, patches).folder
    update_run(folder, selected=IDS)
    return folder


def update_run(folder: Path, **changes: Any) -> None:
    """Change values in ``run.json``."""
    change_json(folder / "run.json", lambda run: run.update(changes))


def rows_file(folder: Path, **changes: Any) -> str:
    """Write a dataset of the first instance with other values, and return its path."""
    row = {**ROWS[0], **changes}
    return str(write_json(folder / "rows.json", [row]))


# Four of the six are evaluated by the test below, the others locally by later ones.
@pytest.mark.long
@pytest.mark.parametrize("kind", [LOCAL, DOCKER])
def test_all_six_gold_patches_are_resolved(
    kind: EvaluatorKind, tmp_path: Path, cache: Path
) -> None:
    folder = run_of(tmp_path, GOLD)
    assert report_run(folder, cache, kind).code == 0
    assert read_json(folder / "results.json")["resolved"] == IDS


@pytest.mark.parametrize("kind", [LONG_LOCAL, DOCKER])
def test_gold_patches_are_resolved_and_others_are_not(
    kind: EvaluatorKind, tmp_path: Path, cache: Path
) -> None:
    folder = run_of(tmp_path, {**GOLD, TEXTKIT: WRONG})
    change_json(folder / f"{BANK}.json", lambda data: data.update(model_patch=None))
    printed = report_run(folder, cache, kind)
    assert printed.code == 0
    assert read_json(folder / "results.json") == {
        "no_generation": [BANK],
        "no_logs": [],
        "resolved": sorted(set(IDS) - {TEXTKIT, BANK}),
    }
    verdict = read_json(folder / f"verdicts/{UNITS}.json")
    assert verdict["gold_files"] == ["units/parse.py"]
    assert verdict["official"] is (kind is EvaluatorKind.DOCKER)
    assert "66.7 % of the selected" in printed.text
    assert ("UNOFFICIAL" in printed.text) is (kind is EvaluatorKind.LOCAL)
    assert (tmp_path / f"logs/r/{UNITS}.me__too.eval.log").exists()
    report = read_json(tmp_path / f"logs/r/{UNITS}.report.json")
    assert report[UNITS]["resolved"] is True


def test_all_preds_has_three_keys_and_no_tests(tmp_path: Path, cache: Path) -> None:
    edited_test = WRONG.replace("textkit/slug.py", "tests/test_slug.py")
    patches = {"demo__units-2": "", TEXTKIT: WRONG + edited_test}
    folder = run_of(tmp_path, patches)
    report_run(folder, cache)
    lines = (folder / "all_preds.jsonl").read_text().splitlines()
    label = {"model_name_or_path": "me/too"}
    assert [json.loads(line) for line in lines] == [
        {"instance_id": TEXTKIT, "model_patch": WRONG, **label},
        {"instance_id": "demo__units-2", "model_patch": "", **label},
    ]


def test_verdicts_that_are_there_are_used_for_the_same_patch_only(
    tmp_path: Path, cache: Path
) -> None:
    folder = run_of(tmp_path, {TEXTKIT: GOLD[TEXTKIT]})
    report_run(folder, cache, LOCAL)
    printed = report_run(folder, cache)
    (line,) = printed.starting(TEXTKIT)
    assert "resolved (local)" in line
    run_of(tmp_path, {TEXTKIT: WRONG})
    printed = report_run(folder, cache)
    assert not printed.starting(TEXTKIT)
    assert printed.containing("resolved", "not evaluated")


def test_an_unfinished_run_names_what_is_left_and_how_it_goes_on(
    tmp_path: Path, cache: Path
) -> None:
    folder = run_of(tmp_path, {TEXTKIT: GOLD[TEXTKIT]})
    update_run(folder, versions={})
    name, *others = sorted(set(IDS) - {TEXTKIT})
    unfinished = {"status": "interrupted", "attempts": []}
    write_json(tmp_path / f"logs/r/{name}.unfinished.json", unfinished)
    printed = report_run(folder, cache, page=True)
    assert f"unfinished         1  {name}" in printed.lines
    assert f"not started        4  {', '.join(others)}" in printed.lines
    command = f"python harness.py --continue {folder}"
    assert f"continue       {command}" in printed.lines
    assert command in (folder / "report/report.html").read_text()
    # Without any prediction.
    (folder / f"{TEXTKIT}.json").unlink()
    with pytest.raises(UserError, match=f"no predictions; go on with {command}"):
        report_run(folder, cache)


@pytest.mark.parametrize(
    ("kind", "heading"),
    [
        ("replayed", "Recorded"),
        ("answered", "Cost"),
    ],
)
def test_what_a_replay_repeats_is_no_cost(
    tmp_path: Path, cache: Path, kind: str, heading: str
) -> None:
    folder = run_of(tmp_path, GOLD)
    line = {
        "call": "1",
        "instance_id": TEXTKIT,
        "attempt": 1,
        "model": "m",
        "kind": kind,
        "cost": "4.51",
        "usage": None,
    }
    (folder / "ledger.jsonl").write_text(json.dumps(line) + "\n")
    printed = report_run(folder, cache, page=True)
    assert f"{heading.lower():14} $4.51" in printed.lines
    card = f"<li>{heading}<strong>$4.51</strong>"
    assert card in (folder / "report/report.html").read_text()


def test_a_finished_run_names_no_command(tmp_path: Path, cache: Path) -> None:
    folder = run_of(tmp_path, GOLD)
    update_run(folder, versions={})
    assert not report_run(folder, cache).containing("--continue")


def test_what_cannot_be_evaluated_is_named(tmp_path: Path, cache: Path) -> None:
    spec = {**ROWS[0]["spec"], "python": "2.9"}
    dataset = rows_file(tmp_path, spec=spec)
    folder = run_of(tmp_path, {BANK: GOLD[BANK]})
    repos = cache / "demo-mirrors"
    printed = report_run(
        folder,
        cache,
        LOCAL,
        dataset=dataset,
        repos=repos,
    )
    assert printed.code == 1
    assert printed.containing("not evaluated", "Python 2.9")
    assert read_json(folder / "results.json")["no_logs"] == [BANK]


@pytest.mark.docker
def test_a_missing_image_is_not_evaluated_and_never_unresolved(
    tmp_path: Path, cache: Path
) -> None:
    dataset = rows_file(tmp_path, image="127.0.0.1:9/no/such:image")
    store = make_run(tmp_path, {BANK: GOLD[BANK]})
    printed = report_run(store.folder, cache, "docker", dataset=dataset)
    assert printed.code == 1
    assert on_disk(store, BANK)["status"] == "not_evaluated"


@pytest.mark.parametrize("kind", [LOCAL, LONG_DOCKER])
def test_a_patch_that_does_not_apply_or_hangs_is_unresolved(
    kind: EvaluatorKind, tmp_path: Path, cache: Path
) -> None:
    hang = WRONG.replace('+"""Names."""', "+while True: pass")
    assert hang != WRONG
    stale = WRONG.replace("Names for addresses", "Something else")
    stale = stale.replace("textkit/slug", "bank/account")
    store = make_run(tmp_path, {TEXTKIT: hang, BANK: stale})
    printed = report_run(store.folder, cache, kind, timeout=5.0)
    assert printed.code == 0
    for name in (TEXTKIT, BANK):
        verdict = on_disk(store, name)
        assert verdict["status"] == "unresolved", name
        assert verdict["reason"], name


def test_the_older_layout_is_read_with_its_verdicts(
    tmp_path: Path, cache: Path
) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    base = {
        "model_name_or_path": "old",
        "model_patch": WRONG,
        "cost": 1.5,
        "edit_outcome": True,
        "lint_outcome": True,
    }
    changes: dict[str, dict[str, Any]] = {
        "a__b-1": {"resolved": True, "test_outcome": True},
        "a__b-2": {"resolved": False, "test_outcome": False},
        "a__b-3": {"model_patch": None},
    }
    for name, values in changes.items():
        content = {**base, "instance_id": name, **values}
        write_json(folder / f"{name}.json", content)
    printed = report_run(folder, cache)
    for line in (
        "generated          2",
        "no generation      1",
        "plausible          1",
        "resolved           1  33.3 %",
        "$4.50",
    ):
        assert line in printed.text


def test_the_leaderboards_lists() -> None:
    predictions = [
        Prediction("a", "m", "p"),
        Prediction("b", "m", ""),
        Prediction("c", "m", "p"),
    ]
    statuses = {
        "a": VerdictStatus.RESOLVED,
        "b": VerdictStatus.EMPTY,
        "c": VerdictStatus.NOT_EVALUATED,
    }
    verdicts = {}
    for name, status in statuses.items():
        verdicts[name] = Verdict(
            instance_id=name,
            status=status,
            evaluator="docker",
        )
    assert leaderboard_lists(predictions, verdicts) == {
        "no_generation": ["b"],
        "no_logs": ["c"],
        "resolved": ["a"],
    }


def test_bad_input_is_refused_before_anything_is_written(
    tmp_path: Path, cache: Path
) -> None:
    folder = run_of(tmp_path, {"x__y-1": WRONG})
    for runs, problem in (
        ([Path("/nowhere")], "there is no run /nowhere"),
        ([tmp_path], "no predictions"),
        ([folder, folder / "typo"], "there is no run"),
    ):
        with pytest.raises(UserError, match=problem):
            report_command(runs, report_settings(cache, LOCAL), print)
    assert not (folder / "all_preds.jsonl").exists()
    with pytest.raises(UserError, match="not in the dataset"):
        report_run(folder, cache, LOCAL)


@pytest.mark.docker
def test_a_dataset_without_what_the_evaluator_needs(
    tmp_path: Path, cache: Path
) -> None:
    dataset = rows_file(tmp_path)
    change_json(Path(dataset), lambda rows: rows[0].pop("eval_script"))
    folder = run_of(tmp_path, {BANK: WRONG})
    with pytest.raises(UserError, match="lacks eval_script"):
        report_run(folder, cache, "docker", dataset=dataset)


def test_no_engine_is_named_with_exit_code_1(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = run_of(tmp_path, {BANK: WRONG})
    arguments = ["report.py", str(folder), "--evaluator", "docker"]
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    monkeypatch.setenv("COLUMNS", "80")
    assert main() == 1
    printed = capsys.readouterr()
    assert "not evaluated (docker) no Docker engine answers: start one" in printed.out
    assert not printed.err
    lists = {
        "no_generation": [],
        "no_logs": [BANK],
        "resolved": [],
    }
    assert read_json(folder / "results.json") == lists


def test_an_official_verdict_is_not_written_over(tmp_path: Path, cache: Path) -> None:
    store = make_run(tmp_path, {BANK: GOLD[BANK]})
    report_run(store.folder, cache, LOCAL)
    assert on_disk(store, BANK)["status"] == "resolved"
    change_json(store.verdict(BANK), lambda data: data.update(evaluator="docker"))
    printed = report_run(store.folder, cache, LOCAL)
    assert not printed.starting("evaluating")
    assert on_disk(store, BANK)["evaluator"] == "docker"


@pytest.mark.parametrize("content", ["[]", "5", "{"])
def test_a_broken_verdict_file_is_named(
    tmp_path: Path, cache: Path, content: str
) -> None:
    store = make_run(tmp_path, {BANK: WRONG})
    store.verdict(BANK).parent.mkdir()
    store.verdict(BANK).write_text(content)
    with pytest.raises(UserError, match=r"demo__bank-1\.json"):
        report_run(store.folder, cache)
