"""Several runs, combined with their origin by instance, or compared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts.choose import choose
from swe_retry.core.errors import UserError
from swe_retry.record.store import RunStore
from swe_retry.report.combine.combine import combine
from swe_retry.report.report import report_command
from swe_retry.results.read import read_predictions, read_run
from swe_retry.results.rundata import RunData
from swe_retry.results.verdicts import Verdict, VerdictStatus, save_verdict
from swe_retry.runner.progress.overview import overview
from tests.support import contents_below, read_json, write_files, write_json
from tests.support.attempts import make_candidate
from tests.support.evaluated import report_settings
from tests.support.reported import report_run
from tests.support.reporting import compare
from tests.support.rundata import LABEL, OPUS, PATCH, old_prediction, write_run

Result = dict[str, Any]
EMPTY: Result = {
    "model_patch": "",
    "status": "empty",
    "edit_outcome": None,
}


def a_result(
    name: str = "a__a-1",
    patch: str = PATCH,
    **changes: Any,
) -> Result:
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
    attempt = {**result, "status": status}
    return {**result, "all_results": [attempt]}


def patch(number: int) -> str:
    return PATCH.replace("one = 2", f"one = {number}")


def fallback(
    name: str,
    number: int,
    **outcomes: Any,
) -> Result:
    return a_result(
        name,
        patch(number),
        status="fallback",
        **outcomes,
    )


def write_runs(root: Path, *contents: list[Result]) -> list[RunStore]:
    """Write the runs ``r1``, ``r2`` and so on."""
    stores = []
    for number, files in enumerate(contents, 1):
        folder = write_run(root / "predictions" / f"r{number}", files)
        stores.append(RunStore.of_folder(folder))
    return stores


def combine_quietly(stores: Sequence[RunStore], name: str = "both") -> RunStore:
    return combine(stores, name, lambda _: None)


def combined_run(
    root: Path,
    *contents: list[Result],
    name: str = "both",
) -> RunData:
    return read_run(combine_quietly(write_runs(root, *contents), name))


def write_verdict(store: RunStore, **files: Any) -> None:
    """Write that the only prediction of a run is resolved."""
    (prediction,) = read_predictions(store)
    verdict = Verdict(
        instance_id="a__a-1",
        status=VerdictStatus.RESOLVED,
        evaluator="docker",
        **files,
    )
    save_verdict(store, prediction, verdict, None)


def write_ledger(store: RunStore) -> None:
    line = {
        "call": "c",
        "kind": "answered",
        "instance_id": "a__a-1",
        "attempt": 1,
        "model": "m",
        "cost": "0.2",
    }
    store.ledger.write_text(json.dumps(line) + "\n")


def test_the_first_plausible_else_the_least_bad_over_all(tmp_path: Path) -> None:
    first = [
        fallback("a__a-1", 1, lint_outcome=False),
        a_result("a__a-2", patch(1)),
        fallback("a__a-3", 1, edit_outcome=False),
        fallback("a__a-4", 1, test_outcome=False),
        a_result("a__a-5", **EMPTY),
        a_result("a__a-6", **EMPTY),
    ]
    second = [
        a_result("a__a-1", patch(2)),
        a_result("a__a-2", patch(2)),
        fallback("a__a-3", 2, test_outcome=False),
        fallback("a__a-4", 2, test_outcome=False),
        fallback("a__a-5", 2, edit_outcome=False, lint_outcome=False),
        a_result("a__a-6", **EMPTY),
        a_result("a__a-7", patch(2)),
    ]
    run = combined_run(tmp_path, first, second, name="")
    assert run.name == "r1+r2"
    # The later run's one attempt is the second of the whole.
    expected = {
        "a__a-1": ("r2", patch(2), 2, 2),
        "a__a-2": ("r1", patch(1), 1, 2),
        "a__a-3": ("r2", patch(2), 2, 2),
        "a__a-4": ("r1", patch(1), 1, 2),
        "a__a-5": ("r2", patch(2), 2, 2),
        "a__a-6": ("r1", "", 1, 2),
        "a__a-7": ("r2", patch(2), 2, 1),
    }
    for instance in run.instances:
        choice = (
            instance.origin,
            instance.patch,
            instance.attempt,
            len(instance.attempts),
        )
        assert choice == expected.pop(instance.instance_id)
    assert not expected
    reason = run.instances[0].reason
    assert reason.startswith("r2 is the first run with a plausible prediction")
    assert "r1 is the least bad" in run.instances[3].reason


def test_what_edits_test_configuration_goes_after_what_does_not(tmp_path: Path) -> None:
    marked = a_result("a__a-1", patch(1), edits_test_configuration=True)
    poor = fallback(
        "a__a-2",
        1,
        test_outcome=False,
        edits_test_configuration=True,
    )
    others = [
        a_result("a__a-1", patch(2)),
        fallback("a__a-2", 2, edit_outcome=False),
    ]
    run = combined_run(tmp_path, [marked, poor], others)
    first, second = run.instances
    assert first.origin == "r2"
    assert second.origin == "r2"
    assert first.edits_test_configuration is False
    assert "the first run with a plausible prediction that leaves tests" in first.reason


@pytest.mark.parametrize("first", [True, None, False])
@pytest.mark.parametrize("second", [True, None, False])
def test_the_ranking_is_the_harness_own(
    tmp_path: Path, first: bool | None, second: bool | None
) -> None:
    contents = []
    candidates = []
    for number, outcome in enumerate((first, second), 1):
        result = fallback(
            "a__a-1",
            number,
            edit_outcome=False,
            test_outcome=outcome,
        )
        contents.append([result])
        candidates.append(make_candidate(number, False, True, outcome))
    winner = choose(candidates).winner
    assert winner is not None
    (chosen,) = combined_run(tmp_path, *contents).instances
    assert chosen.patch == patch(winner.attempt)


def test_money_and_attempts_are_of_all_runs(tmp_path: Path) -> None:
    files = [
        old_prediction("a__a-1", 4, resolved=False),
        old_prediction("a__a-2", 1, resolved=True),
    ]
    others = [
        a_result("a__a-1"),
        a_result("a__a-2", cost=None, model=OPUS),
    ]
    run = combined_run(tmp_path, files, others)
    first, second = run.instances
    assert float(first.cost or 0) == pytest.approx(4 * 0.5 + 0.1)
    assert second.cost is None
    assert run.cost is None
    numbers = [attempt.attempt for attempt in first.attempts]
    assert numbers == [1, 2, 3, 4, 5]
    of_first, of_second = second.attempts
    assert of_first.attempt == 1
    assert of_first.try_ == 1
    assert of_second.attempt == 5
    assert of_second.try_ == 3
    assert first.resolved is False
    assert second.resolved is True
    assert run.model_name_or_path == "combined--gpt-4o--claude-3-opus--m"


def test_trajectories_ledgers_and_verdicts_come_along(tmp_path: Path) -> None:
    poor = fallback("a__a-1", 1, test_outcome=False)
    stores = write_runs(tmp_path, [poor], [a_result()])
    attempt = {"attempt": 1, "model": "m", "edit_format": "diff"}
    for store in stores:
        files = {
            "trajectories/a__a-1.json": json.dumps({"attempts": [attempt]}),
            "a__a-1.md": f"said in {store.run}\n",
        }
        write_files(store.folder, files)
        write_ledger(store)
    write_verdict(stores[1], log="passed", report={"a": 1})
    target = combine_quietly(stores)
    run = read_run(target)
    (instance,) = run.instances
    assert run.cost == Decimal("0.4")
    assert instance.resolved is True
    assert instance.origin == "r2"
    assert len(instance.attempts) == 2
    trajectory = read_json(target.trajectory("a__a-1"))
    of_first, of_second = trajectory["attempts"]
    assert of_first["attempt"] == 1
    assert of_first["origin"]["run"] == "r1"
    assert of_second["attempt"] == 2
    assert of_second["origin"]["run"] == "r2"
    assert trajectory["winner"] == 2
    transcript = (target.folder / "a__a-1.md").read_text()
    assert transcript.index("said in r1") < transcript.index("said in r2")
    assert (target.logs / "a__a-1.combined--m.eval.log").read_text() == "passed"
    # Made again, it is the same to the byte.
    before = contents_below(target.folder)
    combine_quietly(stores)
    assert contents_below(target.folder) == before


def test_a_verdict_on_another_patch_stays_behind(tmp_path: Path) -> None:
    stores = write_runs(tmp_path, [a_result()], [a_result("a__a-2")])
    write_verdict(stores[0])
    other = a_result("a__a-1", patch(3))
    write_run(stores[0].folder, [other])
    target = combine_quietly(stores)
    assert read_run(target).instances[0].resolved is None
    assert not target.verdict("a__a-1").exists()


def test_a_ledger_of_one_run_is_not_the_money_of_both(tmp_path: Path) -> None:
    stores = write_runs(tmp_path, [a_result()], [a_result()])
    write_ledger(stores[0])
    run = read_run(combine_quietly(stores))
    assert float(run.cost or 0) == pytest.approx(0.3)


def test_predictions_that_are_no_longer_offered_go(tmp_path: Path) -> None:
    two = [a_result(), a_result("a__a-2")]
    stores = write_runs(tmp_path, two, [a_result()])
    target = combine_quietly(stores)
    assert target.prediction("a__a-2").exists()
    stores[0].prediction("a__a-2").unlink()
    (instance,) = read_run(combine_quietly(stores)).instances
    assert instance.instance_id == "a__a-1"
    assert not target.prediction("a__a-2").exists()


def test_a_report_on_a_combination(tmp_path: Path) -> None:
    stores = write_runs(
        tmp_path,
        [old_prediction("a__a-1", 1, resolved=True)],
        [old_prediction("a__a-2", 2, resolved=False)],
    )
    notes: list[str] = []
    target = combine(stores, "both", notes.append).folder
    assert notes == [f"combined 2 runs: {target}"]
    printed = report_run(target, tmp_path, format="markdown")
    assert printed.code == 0
    assert "| Total |  | 2 | 100.0 % | 1 | 100.0 % | 50.0 % |" in printed.lines
    lines = (target / "all_preds.jsonl").read_text().splitlines()
    names = [json.loads(line)["instance_id"] for line in lines]
    assert names == ["a__a-1", "a__a-2"]
    groups = read_json(target / "stats.json")["by_origin"]
    runs = [group["name"] for group in groups]
    assert runs == ["r1", "r2"]
    assert not (stores[0].folder / "all_preds.jsonl").exists()


def test_a_comparison_in_words_and_as_json(tmp_path: Path) -> None:
    first = []
    second = []
    for number in range(10):
        name = f"a__a-{number}"
        of_first = old_prediction(name, 1, resolved=number < 8)
        of_second = old_prediction(name, 1, resolved=number == 9)
        first.append(of_first)
        second.append(of_second)
    stores = write_runs(tmp_path, first, second)
    folders = [store.folder for store in stores]
    write_files(folders[0], {"report/report.html": ""})
    lines = compare(*folders)
    page = tmp_path / "comparisons/r1--vs--r2/report.html"
    assert lines[-1] == f"page           {page}"
    text = "\n".join(lines)
    for part in (
        "| resolved by r1 | 0 | 8 |\n| not by r1 | 1 | 1 |",
        "McNemar's exact test: p = 0.03906",
        "- Difference: -70.0 percentage points (95 % interval",
        "- Only r2: a__a-9",
    ):
        assert part in text
    printed = compare(*folders, as_json=True)
    content = json.loads(printed[0])
    names = [run["run"] for run in content["runs"]]
    assert names == ["r1", "r2"]
    assert content["comparisons"][0]["only_b"] == ["a__a-9"]
    assert "../../predictions/r1/report/report.html#a__a-0" in page.read_text()


def test_runs_of_the_same_name_get_different_names(tmp_path: Path) -> None:
    stores = write_runs(tmp_path / "x", [a_result("a__a-1")])
    stores += write_runs(tmp_path / "y", [a_result("a__a-2")])
    instances = read_run(combine_quietly(stores)).instances
    folders = [str(store.folder) for store in stores]
    assert [instance.origin for instance in instances] == folders


def test_bad_input(tmp_path: Path) -> None:
    stores = write_runs(tmp_path, [a_result()], [a_result()])
    for digest, store in zip("12", stores, strict=True):
        dataset = {"name": f"d{digest}", "sha256": digest}
        write_json(store.folder / "run.json", {"dataset": dataset})
    with pytest.raises(UserError, match=r"different datasets \(d1, d2\)"):
        combine_quietly(stores, "")
    for store in stores:
        (store.folder / "run.json").unlink()
    with pytest.raises(UserError, match="choose another --name"):
        combine_quietly(stores, "r2")
    prediction = read_json(stores[1].prediction("a__a-1"))
    assert prediction["model_name_or_path"] == "me"
    with pytest.raises(UserError, match="letters, digits"):
        combine_quietly(stores, "../x")
    twice = [stores[0].folder, stores[0].folder]
    with pytest.raises(UserError, match="given twice"):
        report_command(twice, report_settings(tmp_path), print)


def test_the_label_of_old_runs_is_not_needed(tmp_path: Path) -> None:
    content = old_prediction("a__a-1", 2, resolved=True)
    del content["all_results"]
    stores = write_runs(tmp_path, [content])
    folder = write_run(tmp_path / "predictions" / LABEL, [content])
    stores.append(RunStore.of_folder(folder))
    (instance,) = read_run(combine_quietly(stores)).instances
    assert instance.attempt == 2
    numbers = [attempt.attempt for attempt in instance.attempts]
    assert numbers == [2, 4]


@pytest.mark.parametrize("cost", [True, False])
def test_true_and_false_are_not_costs(
    tmp_path: Path,
    cache: Path,
    cost: bool,
) -> None:
    first = [
        a_result("a__b-1", cost=cost),
        a_result("a__b-2"),
    ]
    second = [
        fallback("a__b-1", 5),
        fallback("a__b-2", 6),
    ]
    stores = write_runs(tmp_path, first, second)
    unpriced, priced = read_run(stores[0]).instances
    assert unpriced.cost is None
    assert priced.cost == Decimal("0.1")
    assert overview(stores[0], {}).total.dollars is None
    target = combine_quietly(stores)
    assert read_json(target.prediction("a__b-1"))["cost"] is None
    unpriced, priced = read_run(target).instances
    assert unpriced.cost is None
    assert priced.cost == Decimal("0.2")
    printed = report_run(target.folder, cache)
    (line,) = printed.starting("cost ")
    assert "at least $0.20" in line
