"""The statistics of a run: files of a run in, ``stats.json`` and tables out."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bench.attempts import choose
from llm.chat import Reply, Usage
from reports.data.verdicts import Verdict, VerdictStatus
from runs.calls.ledger import LedgerLine
from runs.records import Attempt, Origin
from tests.support.reporting import (
    comparisons,
    counts,
    report,
    share,
    statistics,
    write_values,
)
from tests.support.rundata import a_verdict, an_attempt, an_instance, write_run

FAILED = {"status": "tests_failed", "test_outcome": False}
Stats = Callable[..., dict[str, Any]]


@pytest.fixture
def stats(tmp_path: Path) -> Stats:
    """Write a run of these instances, report on it, and return ``stats.json``."""

    def make(*instances: Any, **values: Any) -> dict[str, Any]:
        made = len(list(tmp_path.glob("*/run.json")))
        values.setdefault("described", {})
        run = write_values(tmp_path / f"r{made}", *instances, **values)
        return statistics(run)

    return make


def selecting(*names: str, **values: Any) -> dict[str, Any]:
    return {"selected": list(names), **values}


def dataset(name: str, split: str = "test") -> dict[str, Any]:
    return {"dataset": {"name": name, "split": split}}


def test_each_denominator_has_its_name(stats: Stats) -> None:
    names = [f"a__a-{number}" for number in range(1, 5)]
    instances = (
        an_instance("a__a-1"),
        an_instance("a__a-2", resolved=False),
        an_instance("a__a-3", resolved=None),
    )
    described = selecting(*names, **dataset("SWE-bench/SWE-bench_Lite"))
    scores = stats(*instances, described=described)["scores"]
    assert counts(scores["evaluated"]) == share(1, 2)
    assert counts(scores["selected"]) == share(1, 4)
    assert counts(scores["split"]) == share(1, 300)
    assert scores["split_name"] == "SWE-bench/SWE-bench_Lite (test)"
    assert scores["selection_known"]
    assert stats(*instances)["scores"]["split"] is None
    assert not stats(*instances)["scores"]["selection_known"]
    # A run cannot be part of a split that is smaller.
    many = [f"a__a-{number}" for number in range(1, 26)]
    described = selecting(*many, **dataset("SWE-bench/SWE-bench_Lite", "dev"))
    assert stats(*instances, described=described)["scores"]["split"] is None


@pytest.mark.parametrize(
    ("name", "split_name", "size"),
    [
        ("lite", "SWE-bench/SWE-bench_Lite (test)", 300),
        ("SWE-bench/SWE-bench_Verified", "SWE-bench/SWE-bench_Verified (test)", 500),
        ("demo", "demo (test)", 6),
        ("own/set", "own/set (test)", None),
        ("", "", None),
    ],
)
def test_sizes_of_splits(
    stats: Stats, name: str, split_name: str, size: int | None
) -> None:
    scores = stats(an_instance("demo__bank-1"), described=dataset(name))["scores"]
    assert scores["split_name"] == split_name
    assert (scores["split"] or {}).get("of") == size


def test_groups_by_repository_and_year_count_what_was_selected(stats: Stats) -> None:
    names = ("own__thing-1", "own__thing-2", "own__thing-3", "two__x-1")
    found = stats(
        an_instance("own__thing-1", year=2019),
        an_instance("own__thing-2", year=None, resolved=False),
        described=selecting(*names),
    )
    repositories = {row["name"]: row["resolved"] for row in found["by_repository"]}
    assert counts(repositories["own/thing"]) == share(1, 3)
    # An unknown verdict is not zero; nothing is predicted of the other repository.
    assert counts(repositories["two/x"]) == share(0, 1)
    years = {row["name"]: counts(row["resolved"]) for row in found["by_year"]}
    assert years == {"2019": share(1, 1), "unknown": share(0, 3)}


def test_models_and_attempts_without_a_prediction_have_rows(stats: Stats) -> None:
    two = (an_attempt(1, model="x", **FAILED), an_attempt(2, model="y"))
    models = {"config": {"models": [{"name": "x"}, {"name": "y"}, {"name": "z"}]}}
    found = stats(an_instance(attempt=2, attempts=two), described=models)
    rows = [
        (r["attempt"], r["model"], r["predictions"]["count"])
        for r in found["by_attempt"]
    ]
    assert rows == [(1, "x", 0), (2, "y", 1)]
    groups = [(row["name"], row["predictions"]) for row in found["by_model"]]
    assert groups == [("x", 0), ("y", 1), ("z", 0)]
    assert found["models"] == ["x", "y", "z"]
    assert found["by_origin"] == []


def test_the_shares_of_an_attempt(stats: Stats) -> None:
    late = an_instance(
        "a__a-2",
        attempt=2,
        attempts=(an_attempt(1, model="x", **FAILED), an_attempt(2, model="")),
    )
    first, unknown = stats(
        an_instance("a__a-1", attempts=(an_attempt(model="x"),)),
        an_instance("a__a-3", resolved=False, attempts=(an_attempt(model="x"),)),
        late,
        described=selecting("a__a-1", "a__a-2", "a__a-3", "a__a-4"),
    )["by_attempt"]
    assert [counts(first[name]) for name in ("predictions", "resolved")] == [
        share(2, 3),
        share(1, 2),
    ]
    assert [counts(first[name]) for name in ("score", "success")] == [
        share(1, 4),
        share(1, 2),
    ]
    assert (unknown["attempt"], unknown["model"]) == (2, "unknown")


def test_a_combination_has_a_group_for_each_of_its_runs(stats: Stats) -> None:
    instances = []
    for number, run in ((1, "b"), (2, "a"), (3, "b")):
        attempt = an_attempt(origin=Origin(run=run, attempt=1))
        instances.append(an_instance(f"a__a-{number}", attempts=(attempt,)))
    instances.append(an_instance("a__a-4", resolved=None))
    rows = stats(*instances)["by_origin"]
    assert [(r["name"], r["predictions"], r["evaluated"]) for r in rows] == [
        ("a", 1, 1),
        ("b", 2, 2),
        ("unknown", 1, 0),
    ]
    assert [counts(row["resolved"]) for row in rows] == [
        share(1, 1),
        share(2, 2),
        (0, 1, None),
    ]
    assert [row["plausible"] for row in rows] == [1, 2, 1]


def test_what_each_further_attempt_buys(stats: Stats) -> None:
    dime = Decimal("0.1")
    early = [an_attempt(n, cost=dime, model_patch=f"p{n}", **FAILED) for n in (1, 2)]
    late = an_instance("a__a-2", attempt=3, attempts=(*early, an_attempt(3, cost=dime)))
    third = an_instance("a__a-3", resolved=False)
    rows = stats(an_instance("a__a-1"), late, third)["bought"]
    assert [row["attempts"] for row in rows] == [1, 2, 3]
    assert [counts(row["resolved"]) for row in rows] == [share(n, 3) for n in (1, 1, 2)]
    assert [row["dollars"] for row in rows] == ["2.1", "2.2", "2.3"]
    assert [row["further_dollars"] for row in rows] == ["2.1", "0.1", "0.1"]
    assert [row["dollars_per_further"] for row in rows] == [2.1, None, 0.1]
    assert [row["lower_bound"] for row in rows] == [True, True, False]


def test_the_effect_of_attempts_is_exact_if_all_are_evaluated(stats: Stats) -> None:
    def failed(number: int, **changes: Any) -> Attempt:
        return an_attempt(number, model_patch=f"p{number}", **FAILED, **changes)

    # The second goes before the first, and the fourth, which is predicted, before both.
    attempts = (
        failed(1, lint_outcome=False),
        failed(2),
        failed(3, lint_outcome=False),
        an_attempt(4),
    )
    verdicts = {n: a_verdict("a__a-1", resolved=n != 2) for n in (1, 2, 3)}
    rows = stats(
        an_instance("a__a-1", attempt=4, attempts=attempts, verdicts=verdicts)
    )["bought"]
    assert [row["resolved"]["count"] for row in rows] == [1, 0, 0, 1]
    assert [row["further_resolved"] for row in rows] == [1, -1, 0, 1]
    assert not any(row["lower_bound"] for row in rows)
    nothing = an_instance("a__a-2", model_patch="", resolved=False)
    assert not any(row["lower_bound"] for row in stats(nothing)["bought"])


def test_the_choice_is_the_harnesss_where_tests_could_not_tell(stats: Stats) -> None:
    """An attempt that changes how tests run is not chosen while its tests cannot tell."""
    suspect = an_attempt(
        1,
        status="plausible_untested",
        test_outcome=None,
        edits_test_configuration=True,
        untested="a plugin is new",
        model_patch="suspect",
    )
    failing = an_attempt(2, model_patch="failing", **FAILED)
    attempts = (suspect, failing, an_attempt(3, model_patch="late"))
    verdicts = {n: a_verdict("a__a-1", resolved=n == 2) for n in (1, 2)}
    instance = an_instance(
        "a__a-1", attempt=3, model_patch="late", attempts=attempts, verdicts=verdicts
    )
    rows = stats(instance)["bought"]
    assert [row["resolved"]["count"] for row in rows] == [0, 1, 1]
    assert choose(attempts[:2]).winner is failing


def test_an_unreadable_count_of_tokens_is_unknown(tmp_path: Path) -> None:
    usage = {"prompt_tokens": "many", "completion_tokens": 5, "cached_tokens": 0}
    call = {"content": "", "usage": usage, "cost": 0.1, "seconds": 1, "model": "m"}
    attempt = {"attempt": 1, "model": "m", "edit_format": "diff", "calls": [call]}
    prediction = {"instance_id": "a__a-1", "model_patch": "", "model": "m"}
    folder = write_run(tmp_path / "r", [{**prediction, "all_results": [prediction]}])
    (folder / "trajectories").mkdir()
    path = folder / "trajectories/a__a-1.json"
    path.write_text(json.dumps({"attempts": [attempt]}))
    tokens = statistics(folder)["effort"]["prompt_tokens"]
    assert (tokens["known"], tokens["complete"]) == (0, False)


def test_verdicts_of_another_kind_say_nothing_beside_official_ones(
    stats: Stats,
) -> None:
    verdict = a_verdict("a__a-1", resolved=True, evaluator="local")
    attempts = (an_attempt(1), an_attempt(2, model_patch="q"))
    instance = an_instance("a__a-1", attempts=attempts, verdicts={2: verdict})
    assert [row["resolved"] for row in stats(instance)["pass_at_k"]] == [None, None]
    by_local = instance.but(
        verdict=a_verdict("a__a-1", resolved=False, evaluator="local")
    )
    assert [row["resolved"] for row in stats(by_local)["pass_at_k"]] == [0.5, 1.0]
    missing = verdict.but(status=VerdictStatus.NOT_EVALUATED)
    lacking = by_local.but(verdicts={2: missing})
    assert [row["resolved"] for row in stats(lacking)["pass_at_k"]] == [None, None]


def test_unknown_dollars_of_an_attempt_make_all_later_sums_unknown(
    stats: Stats,
) -> None:
    attempts = (an_attempt(1), an_attempt(2, cost=None), an_attempt(3))
    rows = stats(an_instance(attempt=3, attempts=attempts))["bought"]
    assert [row["dollars"] for row in rows] == ["1", None, None]
    assert rows[2]["further_dollars"] == "1"


def test_effort_per_instance_and_per_resolved_instance(stats: Stats) -> None:
    calls = (
        Reply("", usage=Usage(100, 10, 40), cost=Decimal(1), seconds=1.0),
        Reply("", usage=Usage(50, 5, 0), seconds=1.0),
    )
    attempts = (
        an_attempt(1, calls=calls, reflections=3, edit_outcome=False),
        an_attempt(2, seconds=4.0),
    )
    effort = stats(
        an_instance("a__a-1", attempts=attempts),
        an_instance("a__a-2", resolved=False, cost=None),
    )["effort"]
    assert effort["attempts"]["known"] == 3
    assert counts(effort["edit_errors"]) == share(1, 3)
    sums = {name: effort[name]["known"] for name in effort if "tokens" in name}
    assert sums == {"prompt_tokens": 150, "cached_tokens": 40, "completion_tokens": 15}
    assert effort["completion_tokens"]["per_instance"] == 7.5
    assert effort["calls"]["per_resolved"] == 2
    assert (effort["reflections"]["known"], effort["seconds"]["known"]) == (3, 8)
    dollars = effort["dollars"]
    assert (dollars["known"], dollars["complete"]) == ("1", False)
    assert dollars["per_resolved"] is None


def test_without_trajectories_tokens_are_unknown_and_not_none(stats: Stats) -> None:
    effort = stats(an_instance(attempts=(an_attempt(edit_format=None, seconds=None),)))[
        "effort"
    ]
    for name in ("prompt_tokens", "calls", "seconds"):
        assert effort[name]["complete"] is False
        assert effort[name]["per_instance"] is None


def test_money_is_the_ledgers(stats: Stats) -> None:
    lines = [
        LedgerLine(str(n), "answered", "own__thing-1", 1, "m", Decimal("0.1"))
        for n in range(3)
    ]
    dollars = stats(an_instance(), ledger=lines)["effort"]["dollars"]
    assert (dollars["known"], dollars["complete"]) == ("0.3", True)
    assert dollars["per_instance"] == pytest.approx(0.3)
    unknown = LedgerLine("x", "answered", "own__thing-1", 1, "m", None)
    dollars = stats(an_instance(), ledger=[*lines, unknown])["effort"]["dollars"]
    assert (dollars["known"], dollars["complete"]) == ("0.3", False)


def test_gold_files_count_when_all_are_there(stats: Stats) -> None:
    first = an_attempt(1, added_files=("a", "b", "c"), edited_files=("a",), **FAILED)
    second = an_attempt(2, added_files=("a",), edited_files=("a", "b"))
    found = stats(
        an_instance(
            "a__a-1", gold_files=("a", "b"), attempt=2, attempts=(first, second)
        ),
        an_instance("a__a-2", gold_files=("z",), map_files=("y", "z")),
        an_instance("a__a-3", gold_files=("z",), map_files=("y",)),
        an_instance("a__a-4", map_files=("y",)),
    )["gold_files"]
    assert {name: counts(found[name]) for name in found} == {
        "in_map": share(1, 2),
        "added_by_winner": share(0, 3),
        "added_by_any": share(1, 3),
        "edited_by_winner": share(1, 3),
        "edited_by_any": share(1, 3),
    }


def test_reasons_by_status(tmp_path: Path) -> None:
    failed = (an_attempt(**FAILED),)
    missing = Verdict(
        instance_id="a__a-2",
        status=VerdictStatus.NOT_EVALUATED,
        evaluator="docker",
        reason="no image\nx",
    )
    run = write_values(
        tmp_path / "predictions/r",
        an_instance("a__a-1"),
        an_instance(
            "a__a-2", status="fallback", attempts=failed, resolved=None, verdict=missing
        ),
        an_instance("a__a-3", status="fallback", attempts=failed, resolved=False),
    )
    unfinished = {"status": "infra_error", "reason": "no route to host"}
    path = tmp_path / "logs/r/a__a-4.unfinished.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(unfinished))
    failures = statistics(run)["failures"]
    rows = {
        row["status"]: (row["instances"], row["resolved"], ranked(row["reasons"]))
        for row in failures["instances"]
    }
    assert rows == {
        "plausible": (1, 1, [("plausible", 1)]),
        "fallback": (2, 0, [("tests_failed", 2)]),
        "infra_error": (1, 0, [("no route to host", 1)]),
    }
    assert ranked(failures["not_evaluated"]) == [("no image x", 1)]
    assert ranked(failures["attempts"]) == [("tests_failed", 2), ("plausible", 1)]


def ranked(reasons: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(reason["reason"], reason["count"]) for reason in reasons]


def test_pass_at_k_needs_all_attempts_on_every_instance(stats: Stats) -> None:
    def pass_at_k(*instances: Any) -> list[tuple[float | None, float | None]]:
        rows = stats(*instances)["pass_at_k"]
        assert [row["k"] for row in rows] == list(range(1, len(rows) + 1))
        return [(row["plausible"], row["resolved"]) for row in rows]

    good, bad = an_attempt(1), an_attempt(2, model_patch="q", **FAILED)
    one, other = an_instance("a__a-1", attempts=(good, bad)), an_instance("a__a-2")
    assert pass_at_k(one, other) == []
    assert pass_at_k(other) == []
    two = pass_at_k(one, one.but(instance_id="a__a-3"))
    assert two == [(0.5, None), (1.0, None)]
    failing = one.but(instance_id="a__a-4", attempts=(bad.but(attempt=1), bad))
    assert pass_at_k(one, failing) == [(0.25, None), (0.5, None)]
    lacking = one.but(attempts=(good, bad.but(status="not_recorded")))
    assert pass_at_k(one, lacking.but(instance_id="a__a-3")) == [], "it was not made"
    empty = bad.but(model_patch="")
    found = pass_at_k(one.but(attempts=(good, empty)))
    assert [resolved for _, resolved in found] == [0.5, 1.0]
    verdicts = {2: a_verdict("a__a-1", resolved=True)}
    assert pass_at_k(one.but(verdicts=verdicts)) == [(0.5, 1.0), (1.0, 1.0)]


def test_what_another_harness_does_not_say_is_unknown(stats: Stats) -> None:
    silent = an_attempt(1, outcomes_known=False, status="submitted")
    found = stats(
        an_instance("a__a-1", attempts=(silent, silent.but(attempt=2))),
        an_instance("a__a-2", attempts=(an_attempt(), an_attempt(2))),
    )
    assert found["counts"]["plausible"] is None
    assert found["by_repository"][0]["plausible"] is None
    assert [row["plausible"] for row in found["pass_at_k"]] == [None, None]
    assert [row["resolved"] for row in found["pass_at_k"]] == [1.0, 1.0]


def test_a_comparison_is_of_the_instances_that_both_have_a_verdict_on(
    tmp_path: Path,
) -> None:
    def run(name: str, verdicts: dict[str, bool | None]) -> Path:
        instances = [an_instance(i, resolved=r) for i, r in verdicts.items()]
        return write_values(tmp_path / name, *instances)

    a = run("a", {"x__x-1": True, "x__x-2": True, "x__x-3": False, "x__x-4": True})
    b = run(
        "b",
        {
            "x__x-1": True,
            "x__x-2": False,
            "x__x-3": False,
            "x__x-4": None,
            "x__x-5": True,
        },
    )
    (found,) = comparisons(a, b)
    assert (found["a"], found["b"]) == ("a", "b")
    assert found["table"] == {"both": 1, "only_a": 1, "only_b": 0, "neither": 1}
    assert (found["left_out"], found["only_a"], found["only_b"]) == (2, ["x__x-2"], [])
    assert counts(found["resolved_a"]) == share(2, 3)
    assert counts(found["resolved_b"]) == share(1, 3)
    assert found["difference"] == pytest.approx(-1 / 3)
    assert (found["p_value"], found["cost_a"], found["cost_b"]) == (1.0, "3", "3")
    assert (found["resamples"], found["seed"]) == (10_000, 20240523)
    assert found["interval"]["low"] == pytest.approx(-1)
    assert found["interval"]["high"] == pytest.approx(0)


def test_counts_are_of_the_selected_instances(stats: Stats) -> None:
    found = stats(
        an_instance("a__a-1"),
        an_instance("a__a-2", model_patch="", resolved=None, status="empty"),
        an_instance("a__a-3", resolved=None),
        described=selecting("a__a-1", "a__a-2", "a__a-3", "a__a-4"),
    )
    assert found["counts"] == {
        "selected": 4,
        "predicted": 3,
        "generated": 2,
        "no_generation": 1,
        "plausible": 2,
        "resolved": 1,
        "unresolved": 0,
        "not_evaluated": 1,
        "unfinished": 0,
        "patch_unknown": 0,
    }
    assert (found["official"], found["evaluators"]) == (True, ["docker"])


@pytest.mark.parametrize("seed", range(3))
def test_precision_and_recall_are_sklearns(stats: Stats, seed: int) -> None:
    import numpy as np
    from sklearn.metrics import confusion_matrix, precision_score, recall_score

    dice = np.random.default_rng(seed)
    plausible = dice.random(30) < 0.6
    resolved = dice.random(30) < 0.3
    status = {True: "plausible", False: "fallback"}
    instances = [
        an_instance(f"a__a-{n}", status=status[bool(p)], resolved=bool(r))
        for n, (p, r) in enumerate(zip(plausible, resolved, strict=True))
    ]
    instances.append(an_instance("a__a-99", resolved=None))
    ours = stats(*instances)["plausible"]
    (tn, fp), (fn, tp) = confusion_matrix(resolved, plausible, labels=[0, 1])
    assert (ours["plausible_resolved"], ours["plausible_unresolved"]) == (tp, fp)
    assert (ours["implausible_resolved"], ours["implausible_unresolved"]) == (fn, tn)
    assert ours["precision"] == pytest.approx(precision_score(resolved, plausible))
    assert ours["recall"] == pytest.approx(recall_score(resolved, plausible))


def test_nothing_is_divided_by_none(stats: Stats) -> None:
    fallback = an_instance(status="fallback", resolved=False)
    found = stats(fallback)
    assert (found["plausible"]["precision"], found["plausible"]["recall"]) == (
        None,
        None,
    )
    assert found["effort"]["attempts"]["per_resolved"] is None
    assert found["bought"][0]["dollars_per_further"] is None


def test_the_tables_of_a_run_that_is_not_evaluated(tmp_path: Path) -> None:
    run = write_values(tmp_path / "r", an_instance("a__a-1", resolved=None))
    text = "\n".join(report(run, format="markdown"))
    assert "| 1 | m | 1 | 100.0 % | – | – | – |" in text
    assert "| Total | 1 | – | – |" in text
    assert "- Score, resolved of the selected instances (no run.json" in text
    assert "all that have a prediction): not evaluated" in text
    assert "- Not evaluated: 1 patch" in text.splitlines()
