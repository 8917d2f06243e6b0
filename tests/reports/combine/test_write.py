"""Several runs, combined with their origin by instance, or compared."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bench.attempts import choose
from core.errors import UserError
from reports.combine.combine import combine
from reports.compare import compare_command
from reports.data.rundata import read_predictions, read_run
from reports.data.verdicts import Verdict, VerdictStatus, save_verdict
from reports.report import report_command
from runs.progress.overview import overview
from runs.storage.store import RunStore
from tests.support import write_files
from tests.support.attempts import make_candidate
from tests.support.evaluated import report_settings
from tests.support.rundata import LABEL, OPUS, PATCH, old_prediction, write_run

EMPTY: dict[str, Any] = {"model_patch": "", "status": "empty", "edit_outcome": None}


def a_result(
    name: str,
    patch: str = PATCH,
    **changes: Any,
) -> dict[str, Any]:
    """Return a prediction of one attempt, plausible by default."""
    values = {
        "instance_id": name,
        "model_name_or_path": "me",
        "model_patch": patch,
        "model": "m",
        "try": 1,
        "attempt": 1,
        "status": "plausible",
        "reason": "attempt 1 is plausible",
        "edit_outcome": True,
        "lint_outcome": True,
        "test_outcome": True,
        "cost": 0.1,
    }
    result = {**values, **changes}
    status = "tests_failed"
    if result["status"] == "plausible":
        status = "plausible"
    return {**result, "all_results": [{**result, "status": status}]}


def patch(number: int) -> str:
    return PATCH.replace("one = 2", f"one = {number}")


def fallback(name: str, number: int, **outcomes: Any) -> dict[str, Any]:
    return a_result(name, patch(number), status="fallback", **outcomes)


def runs(root: Path, *contents: list[dict[str, Any]]) -> list[RunStore]:
    folders = []
    for number, files in enumerate(contents, 1):
        folders.append(write_run(root / "predictions" / f"r{number}", files))
    return [RunStore.of_folder(folder) for folder in folders]


def quiet(_: str) -> None:
    pass


def test_the_first_plausible_else_the_least_bad_over_all(tmp_path: Path) -> None:
    stores = runs(
        tmp_path,
        [
            fallback("a__a-1", 1, lint_outcome=False),
            a_result("a__a-2", patch(1)),
            fallback("a__a-3", 1, edit_outcome=False),
            fallback("a__a-4", 1, test_outcome=False),
            a_result("a__a-5", **EMPTY),
            a_result("a__a-6", **EMPTY),
        ],
        [
            a_result("a__a-1", patch(2)),
            a_result("a__a-2", patch(2)),
            fallback("a__a-3", 2, test_outcome=False),
            fallback("a__a-4", 2, test_outcome=False),
            fallback("a__a-5", 2, edit_outcome=False, lint_outcome=False),
            a_result("a__a-6", **EMPTY),
            a_result("a__a-7", patch(2)),
        ],
    )
    run = read_run(combine(stores, "", quiet))
    assert run.name == "r1+r2"
    origins = {i.instance_id[-1]: (i.origin, i.patch) for i in run.instances}
    assert origins == {
        "1": ("r2", patch(2)),
        "2": ("r1", patch(1)),
        "3": ("r2", patch(2)),
        "4": ("r1", patch(1)),
        "5": ("r2", patch(2)),
        "6": ("r1", ""),
        "7": ("r2", patch(2)),
    }
    assert run.instances[0].reason.startswith(
        "r2 is the first run with a plausible prediction"
    )
    assert "r1 is the least bad" in run.instances[3].reason
    # The later run's one attempt is the second of the whole.
    assert [i.attempt for i in run.instances] == [2, 1, 2, 1, 2, 1, 2]
    assert [len(i.attempts) for i in run.instances] == [2] * 6 + [1]


def test_what_edits_test_configuration_goes_after_what_does_not(tmp_path: Path) -> None:
    marked = a_result("a__a-1", patch(1), edits_test_configuration=True)
    poor = fallback("a__a-2", 1, test_outcome=False, edits_test_configuration=True)
    stores = runs(
        tmp_path,
        [marked, poor],
        [a_result("a__a-1", patch(2)), fallback("a__a-2", 2, edit_outcome=False)],
    )
    one, two = read_run(combine(stores, "", quiet)).instances
    assert (one.origin, one.edits_test_configuration, two.origin) == ("r2", False, "r2")
    assert "the first run with a plausible prediction that leaves test" in one.reason


@pytest.mark.parametrize("first", [True, None, False])
@pytest.mark.parametrize("second", [True, None, False])
def test_the_ranking_is_the_harness_own(
    tmp_path: Path, first: bool | None, second: bool | None
) -> None:
    stores = runs(
        tmp_path,
        [fallback("a__a-1", 1, edit_outcome=False, test_outcome=first)],
        [fallback("a__a-1", 2, edit_outcome=False, test_outcome=second)],
    )
    harness = choose(
        [
            make_candidate(1, False, True, first),
            make_candidate(2, False, True, second),
        ]
    )
    assert harness.winner is not None
    (chosen,) = read_run(combine(stores, "both", quiet)).instances
    assert chosen.patch == patch(harness.winner.attempt)


def test_money_and_attempts_are_of_all_runs(tmp_path: Path) -> None:
    stores = runs(
        tmp_path,
        [
            old_prediction("a__a-1", 4, resolved=False),
            old_prediction("a__a-2", 1, resolved=True),
        ],
        [a_result("a__a-1"), a_result("a__a-2", cost=None, model=OPUS)],
    )
    run = read_run(combine(stores, "both", quiet))
    first, second = run.instances
    assert float(first.cost or 0) == pytest.approx(4 * 0.5 + 0.1)
    assert (second.cost, run.cost) == (None, None)
    assert [a.attempt for a in first.attempts] == [1, 2, 3, 4, 5]
    assert [(a.attempt, a.try_) for a in second.attempts] == [(1, 1), (5, 3)]
    assert (first.resolved, second.resolved) == (False, True)
    assert run.model_name_or_path == "combined--gpt-4o--claude-3-opus--m"


def test_trajectories_ledgers_and_verdicts_come_along(tmp_path: Path) -> None:
    stores = runs(
        tmp_path, [fallback("a__a-1", 1, test_outcome=False)], [a_result("a__a-1")]
    )
    for store in stores:
        trajectory = {"attempts": [{"attempt": 1, "model": "m", "edit_format": "diff"}]}
        store.trajectory("a__a-1").parent.mkdir()
        store.trajectory("a__a-1").write_text(json.dumps(trajectory))
        (store.folder / "a__a-1.md").write_text(f"said in {store.run}\n")
        line = {
            "call": "c",
            "kind": "answered",
            "instance_id": "a__a-1",
            "attempt": 1,
            "model": "m",
        }
        store.ledger.write_text(json.dumps({**line, "cost": "0.2"}) + "\n")
    (prediction,) = read_predictions(stores[1])
    verdict = Verdict(
        instance_id="a__a-1",
        status=VerdictStatus.RESOLVED,
        evaluator="docker",
        log="passed",
        report={"a": 1},
    )
    save_verdict(stores[1], prediction, verdict, None)
    target = combine(stores, "both", quiet)
    run = read_run(target)
    (instance,) = run.instances
    assert (run.cost, instance.resolved, instance.origin) == (
        Decimal("0.4"),
        True,
        "r2",
    )
    written = json.loads(target.trajectory("a__a-1").read_text())
    assert [(a["attempt"], a["origin"]["run"]) for a in written["attempts"]] == [
        (1, "r1"),
        (2, "r2"),
    ]
    assert (written["winner"], len(instance.attempts)) == (2, 2)
    transcript = (target.folder / "a__a-1.md").read_text()
    assert transcript.index("said in r1") < transcript.index("said in r2")
    assert (target.logs / "a__a-1.combined--m.eval.log").read_text() == "passed"
    # Made again, it is the same to the byte.
    before = {p: p.read_bytes() for p in target.folder.rglob("*") if p.is_file()}
    combine(stores, "both", quiet)
    assert {
        p: p.read_bytes() for p in target.folder.rglob("*") if p.is_file()
    } == before


def test_a_verdict_on_another_patch_stays_behind(tmp_path: Path) -> None:
    stores = runs(tmp_path, [a_result("a__a-1", patch(1))], [a_result("a__a-2")])
    (prediction,) = read_predictions(stores[0])
    save_verdict(
        stores[0],
        prediction,
        Verdict(
            instance_id="a__a-1", status=VerdictStatus.RESOLVED, evaluator="docker"
        ),
        None,
    )
    write_run(stores[0].folder, [a_result("a__a-1", patch(3))])
    target = combine(stores, "both", quiet)
    assert read_run(target).instances[0].resolved is None
    assert not target.verdict("a__a-1").exists()


def test_a_ledger_of_one_run_is_not_the_money_of_both(tmp_path: Path) -> None:
    first, second = runs(tmp_path, [a_result("a__a-1")], [a_result("a__a-1")])
    line = {
        "call": "c",
        "kind": "answered",
        "instance_id": "a__a-1",
        "attempt": 1,
        "model": "m",
    }
    first.ledger.write_text(json.dumps({**line, "cost": "0.2"}) + "\n")
    assert float(
        read_run(combine([first, second], "both", quiet)).cost or 0
    ) == pytest.approx(0.3)


def test_predictions_that_are_no_longer_offered_go(tmp_path: Path) -> None:
    stores = runs(
        tmp_path, [a_result("a__a-1"), a_result("a__a-2")], [a_result("a__a-1")]
    )
    target = combine(stores, "both", quiet)
    stores[0].prediction("a__a-2").unlink()
    assert [
        i.instance_id for i in read_run(combine(stores, "both", quiet)).instances
    ] == ["a__a-1"]
    assert not target.prediction("a__a-2").exists()


def test_a_report_on_a_combination(tmp_path: Path) -> None:
    first, second = runs(
        tmp_path,
        [old_prediction("a__a-1", 1, resolved=True)],
        [old_prediction("a__a-2", 2, resolved=False)],
    )
    said: list[str] = []
    shown: list[str] = []
    target = combine([first, second], "both", said.append).folder
    settings = report_settings(tmp_path)
    assert (
        report_command([target], settings, said.append, shown.append, "markdown") == 0
    )
    assert said == [f"combined 2 runs: {target}"]
    assert "| Total |  | 2 | 100.0 % | 1 | 100.0 % | 50.0 % |" in shown
    rows = []
    for line in (target / "all_preds.jsonl").read_text().splitlines():
        rows.append(json.loads(line))
    assert [row["instance_id"] for row in rows] == ["a__a-1", "a__a-2"]
    stats = json.loads((target / "stats.json").read_text())
    assert [group["name"] for group in stats["by_origin"]] == ["r1", "r2"]
    assert not (first.folder / "all_preds.jsonl").exists()


def test_a_comparison_in_words_and_as_json(tmp_path: Path) -> None:
    names = [f"a__a-{n}" for n in range(10)]
    first, second = runs(
        tmp_path,
        [old_prediction(n, 1, resolved=n < "a__a-8") for n in names],
        [old_prediction(n, 1, resolved=n == "a__a-9") for n in names],
    )
    said: list[str] = []
    notes: list[str] = []
    write_files(first.folder, {"report/report.html": ""})
    assert compare_command([first, second], notes.append, said.append) == 0
    page = tmp_path / "comparisons" / "r1--vs--r2" / "report.html"
    assert notes == [f"page           {page}"]
    text = "\n".join(said)
    assert "| resolved by r1 | 0 | 8 |\n| not by r1 | 1 | 1 |" in text
    assert "McNemar's exact test: p = 0.03906" in text
    assert "- Difference: -70.0 percentage points (95 % bootstrap interval" in text
    assert "- Only r2: a__a-9" in text
    said.clear()
    compare_command([first, second], print, said.append, as_json=True)
    found = json.loads("\n".join(said))
    assert [run["run"] for run in found["runs"]] == ["r1", "r2"]
    assert found["comparisons"][0]["only_b"] == ["a__a-9"]
    assert "../../predictions/r1/report/report.html#a__a-0" in page.read_text()


def test_runs_of_the_same_name_get_different_names(tmp_path: Path) -> None:
    (one,) = runs(tmp_path / "x", [a_result("a__a-1")])
    (other,) = runs(tmp_path / "y", [a_result("a__a-2")])
    found = read_run(combine([one, other], "both", quiet))
    assert [i.origin for i in found.instances] == [str(one.folder), str(other.folder)]


def test_bad_input(tmp_path: Path) -> None:
    first, second = runs(tmp_path, [a_result("a__a-1")], [a_result("a__a-1")])
    for store, digest in ((first, "1"), (second, "2")):
        described = {"dataset": {"name": f"d{digest}", "sha256": digest}}
        (store.folder / "run.json").write_text(json.dumps(described))
    with pytest.raises(UserError, match=r"different datasets \(d1, d2\)"):
        combine([first, second], "", quiet)
    for store in (first, second):
        (store.folder / "run.json").unlink()
    with pytest.raises(UserError, match="choose another --name"):
        combine([first, second], "r2", quiet)
    assert (
        json.loads(second.prediction("a__a-1").read_text())["model_name_or_path"]
        == "me"
    )
    with pytest.raises(UserError, match="letters, digits"):
        combine([first, second], "../x", quiet)
    with pytest.raises(UserError, match="given twice"):
        report_command([first.folder] * 2, report_settings(tmp_path), quiet)


def test_the_label_of_old_runs_is_not_needed(tmp_path: Path) -> None:
    content = old_prediction("a__a-1", 2, resolved=True)
    del content["all_results"]
    (first,) = runs(tmp_path, [content])
    other = RunStore.of_folder(write_run(tmp_path / "predictions" / LABEL, [content]))
    (instance,) = read_run(combine([first, other], "both", quiet)).instances
    assert (instance.attempt, [a.attempt for a in instance.attempts]) == (2, [2, 4])


@pytest.mark.parametrize("cost", [True, False])
def test_true_and_false_are_not_costs(tmp_path: Path, cache: Path, cost: bool) -> None:
    first = [a_result("a__b-1", cost=cost), a_result("a__b-2")]
    stores = runs(tmp_path, first, [fallback("a__b-1", 5), fallback("a__b-2", 6)])
    assert [i.cost for i in read_run(stores[0]).instances] == [None, Decimal("0.1")]
    assert overview(stores[0], {}).total.dollars is None
    written = combine(stores, "both", quiet)
    assert json.loads(written.prediction("a__b-1").read_text())["cost"] is None
    assert [i.cost for i in read_run(written).instances] == [None, Decimal("0.2")]
    said: list[str] = []
    report_command([written.folder], report_settings(cache), said.append)
    (line,) = (line for line in said if line.startswith("cost "))
    assert line.removeprefix("cost ").lstrip().startswith("unknown, "), line
