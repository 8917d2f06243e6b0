"""The statistics of runs so small that the results can be counted by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bench.attempts import choose
from llm.chat import Reply, Usage
from reports.data.rundata import read_run
from reports.data.verdicts import Verdict, VerdictStatus
from reports.statistics.breakdown import (
    by_attempt,
    by_model,
    by_origin,
    by_repository,
    by_year,
)
from reports.statistics.collect import (
    collect,
    effort,
    failures,
    gold_files,
    limited_runs,
    pass_at_ks,
)
from reports.statistics.comparing import compare
from reports.statistics.denominators import DatasetSplit, scores, split_of
from reports.statistics.methods import Share
from runs.calls.ledger import LedgerLine
from runs.progress.overview import InstanceEntry
from runs.records import Attempt
from runs.storage.store import RunStore
from tests.support.rundata import a_run, a_verdict, an_attempt, an_instance, write_run

FAILED = {"status": "tests_failed", "test_outcome": False}
UNKNOWN_SPLIT = DatasetSplit("", None)


def test_each_denominator_has_its_name() -> None:
    run = a_run(
        an_instance("a__a-1"),
        an_instance("a__a-2", resolved=False),
        an_instance("a__a-3", resolved=None),
        selected=("a__a-1", "a__a-2", "a__a-3", "a__a-4"),
        described={"selected": ["a__a-1"]},
    )
    found = scores(run, DatasetSplit("lite", 300))
    assert (found.evaluated, found.selected) == (Share.made(1, 2), Share.made(1, 4))
    assert (found.split, found.split_name) == (Share.made(1, 300), "lite")
    assert found.selection_known
    assert scores(run, UNKNOWN_SPLIT).split is None
    # A run cannot be part of a split that is smaller.
    assert scores(run, DatasetSplit("mine", 3)).split is None
    assert not scores(a_run(an_instance()), UNKNOWN_SPLIT).selection_known


def test_sizes_of_splits() -> None:
    assert split_of("lite", "test", 0) == DatasetSplit(
        "SWE-bench/SWE-bench_Lite (test)", 300
    )
    assert split_of("SWE-bench/SWE-bench_Verified", "test", 0).size == 500
    assert split_of("demo", "test", 6) == DatasetSplit("demo (test)", 6)
    assert split_of("own/set", "test", 0).size is None
    assert split_of("", "test", 0) == UNKNOWN_SPLIT


def test_groups_by_repository_and_year_count_what_was_selected() -> None:
    run = a_run(
        an_instance("own__thing-1", year=2019),
        an_instance("own__thing-2", year=None, resolved=False),
        selected=("own__thing-1", "own__thing-2", "own__thing-3", "two__x-1"),
    )
    repositories = {group.name: group.resolved for group in by_repository(run)}
    assert repositories == {"own/thing": Share.made(1, 3), "two/x": Share.made(0, 1)}
    years = {group.name: group.resolved for group in by_year(run)}
    assert years == {"2019": Share.made(1, 1), "unknown": Share.made(0, 3)}


def test_models_and_attempts_without_a_prediction_have_rows() -> None:
    two = (an_attempt(1, model="x", **FAILED), an_attempt(2, model="y"))
    run = a_run(an_instance(attempt=2, attempts=two), models=("x", "y"))
    assert [(r.attempt, r.model, r.predictions.count) for r in by_attempt(run)] == [
        (1, "x", 0),
        (2, "y", 1),
    ]
    assert [(g.name, g.predictions) for g in by_model(run)] == [("x", 0), ("y", 1)]
    assert by_origin(run) == ()


def test_what_each_further_attempt_buys() -> None:
    first = an_instance("a__a-1")
    dime = Decimal("0.1")
    early = [an_attempt(n, cost=dime, model_patch=f"p{n}", **FAILED) for n in (1, 2)]
    late = an_instance("a__a-2", attempt=3, attempts=(*early, an_attempt(3, cost=dime)))
    rows = limited_runs(a_run(first, late, an_instance("a__a-3", resolved=False)))
    assert [row.resolved for row in rows] == [Share.made(n, 3) for n in (1, 1, 2)]
    assert [row.dollars for row in rows] == [
        Decimal("2.1"),
        Decimal("2.2"),
        Decimal("2.3"),
    ]
    assert [row.dollars_per_further for row in rows] == [2.1, None, 0.1]
    assert [row.lower_bound for row in rows] == [True, True, False]


def test_the_effect_of_attempts_is_exact_if_all_are_evaluated() -> None:
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
    run = a_run(an_instance("a__a-1", attempt=4, attempts=attempts, verdicts=verdicts))
    rows = limited_runs(run)
    assert [row.resolved.count for row in rows] == [1, 0, 0, 1]
    assert [row.further_resolved for row in rows] == [1, -1, 0, 1]
    assert not any(row.lower_bound for row in rows)
    nothing = an_instance("a__a-2", model_patch="", resolved=False)
    assert not any(row.lower_bound for row in limited_runs(a_run(nothing)))


def test_the_choice_is_the_harnesss_where_tests_could_not_tell() -> None:
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
    rows = limited_runs(a_run(instance))
    assert [row.resolved.count for row in rows] == [0, 1, 1]
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
    found = effort(read_run(RunStore.of_folder(folder)))
    assert (found.prompt_tokens.known, found.prompt_tokens.complete) == (0, False)


def test_verdicts_of_another_kind_say_nothing_beside_official_ones() -> None:
    verdict = a_verdict("a__a-1", resolved=True, evaluator="local")
    attempts = (an_attempt(1), an_attempt(2, model_patch="q"))
    instance = an_instance(attempts=attempts, verdicts={2: verdict})
    assert [instance.resolved_by(attempt) for attempt in attempts] == [True, None]
    by_local = instance.but(
        verdict=a_verdict("a__a-1", resolved=False, evaluator="local")
    )
    assert by_local.resolved_by(attempts[1]) is True
    missing = verdict.but(status=VerdictStatus.NOT_EVALUATED)
    assert by_local.but(verdicts={2: missing}).resolved_by(attempts[1]) is None


def test_unknown_dollars_of_an_attempt_make_all_later_sums_unknown() -> None:
    attempts = (an_attempt(1), an_attempt(2, cost=None), an_attempt(3))
    rows = limited_runs(a_run(an_instance(attempt=3, attempts=attempts)))
    assert [row.dollars for row in rows] == [Decimal(1), None, None]
    assert rows[2].further_dollars == Decimal(1)


def test_effort_per_instance_and_per_resolved_instance() -> None:
    calls = (
        Reply("", usage=Usage(100, 10, 40), cost=Decimal(1), seconds=1.0),
        Reply("", usage=Usage(50, 5, 0), seconds=1.0),
    )
    attempts = (
        an_attempt(1, calls=calls, reflections=3, edit_outcome=False),
        an_attempt(2, seconds=4.0),
    )
    run = a_run(
        an_instance("a__a-1", attempts=attempts),
        an_instance("a__a-2", resolved=False, cost=None),
    )
    found = effort(run)
    assert (found.attempts.known, found.edit_errors) == (3, Share.made(1, 3))
    assert (found.prompt_tokens.known, found.cached_tokens.known) == (150, 40)
    assert (found.completion_tokens.per_instance, found.calls.per_resolved) == (7.5, 2)
    assert (found.reflections.known, found.seconds.known) == (3, 8)
    assert (found.dollars.known, found.dollars.complete) == (Decimal(1), False)
    assert found.dollars.per_resolved is None


def test_without_trajectories_tokens_are_unknown_and_not_none() -> None:
    found = effort(
        a_run(an_instance(attempts=(an_attempt(edit_format=None, seconds=None),)))
    )
    for amount in (found.prompt_tokens, found.calls, found.seconds):
        assert (amount.complete, amount.per_instance) == (False, None)


def test_money_is_the_ledgers() -> None:
    lines = [
        LedgerLine(str(n), "answered", "own__thing-1", 1, "m", Decimal("0.1"))
        for n in range(3)
    ]
    run = a_run(an_instance(), ledger=tuple(lines))
    assert run.cost == Decimal("0.3")
    assert effort(run).dollars.known == Decimal("0.3")
    unknown = replace(run, ledger=(*lines, replace(lines[0], call="x", cost=None)))
    assert (unknown.cost, unknown.known_cost) == (None, Decimal("0.3"))


def test_gold_files_count_when_all_are_there() -> None:
    first = an_attempt(1, added_files=("a", "b", "c"), edited_files=("a",), **FAILED)
    second = an_attempt(2, added_files=("a",), edited_files=("a", "b"))
    run = [
        an_instance(
            "a__a-1", gold_files=("a", "b"), attempt=2, attempts=(first, second)
        ),
        an_instance("a__a-2", gold_files=("z",), map_files=("y", "z")),
        an_instance("a__a-3", gold_files=("z",), map_files=("y",)),
        an_instance("a__a-4", map_files=("y",)),
    ]
    found = gold_files(run)
    assert (found.in_map, found.added_by_any) == (Share.made(1, 2), Share.made(1, 3))
    assert (found.added_by_winner, found.edited_by_winner) == (
        Share.made(0, 3),
        Share.made(1, 3),
    )


def test_reasons_by_status() -> None:
    failed = (an_attempt(**FAILED),)
    missing = Verdict(
        instance_id="a__a-2",
        status=VerdictStatus.NOT_EVALUATED,
        evaluator="docker",
        reason="no image\nx",
    )
    run = a_run(
        an_instance("a__a-1"),
        an_instance(
            "a__a-2", status="fallback", attempts=failed, resolved=None, verdict=missing
        ),
        an_instance("a__a-3", status="fallback", attempts=failed, resolved=False),
        unfinished=(InstanceEntry("a__a-4", "infra_error", reason="no route to host"),),
    )
    found = failures(run)
    rows = {
        r.status: (r.instances, [(x.reason, x.count) for x in r.reasons])
        for r in found.instances
    }
    assert rows == {
        "plausible": (1, [("plausible", 1)]),
        "fallback": (2, [("tests_failed", 2)]),
        "infra_error": (1, [("no route to host", 1)]),
    }
    assert [(x.reason, x.count) for x in found.not_evaluated] == [("no image x", 1)]
    assert [(x.reason, x.count) for x in found.attempts] == [
        ("tests_failed", 2),
        ("plausible", 1),
    ]


def test_pass_at_k_needs_all_attempts_on_every_instance() -> None:
    good, bad = an_attempt(1), an_attempt(2, model_patch="q", **FAILED)
    one, other = an_instance("a__a-1", attempts=(good, bad)), an_instance("a__a-2")
    assert pass_at_ks([one, other]) == ()
    assert pass_at_ks([other]) == ()
    found = pass_at_ks([one, one.but(instance_id="a__a-3")])
    assert [(p.k, p.plausible, p.resolved) for p in found] == [
        (1, 0.5, None),
        (2, 1.0, None),
    ]
    lacking = one.but(attempts=(good, bad.but(status="not_recorded")))
    assert pass_at_ks([one, lacking]) == (), "that attempt was not made"
    empty = bad.but(model_patch="")
    found = pass_at_ks([one.but(attempts=(good, empty))])
    assert [p.resolved for p in found] == [0.5, 1.0]
    verdicts = {2: a_verdict("a__a-1", resolved=True)}
    found = pass_at_ks([one.but(verdicts=verdicts)])
    assert [(p.plausible, p.resolved) for p in found] == [(0.5, 1.0), (1.0, 1.0)]


def test_a_comparison_is_of_the_instances_that_both_have_a_verdict_on() -> None:
    def run(name: str, verdicts: dict[str, bool | None]) -> object:
        return a_run(
            *(an_instance(i, resolved=r) for i, r in verdicts.items()), name=name
        )

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
    found = compare(a, b)  # type: ignore[arg-type]
    assert (
        found.table.both,
        found.table.only_a,
        found.table.only_b,
        found.table.neither,
    ) == (
        1,
        1,
        0,
        1,
    )
    assert (found.left_out, found.only_a, found.only_b) == (2, ("x__x-2",), ())
    assert (found.resolved_a, found.resolved_b) == (Share.made(2, 3), Share.made(1, 3))
    assert found.difference == pytest.approx(-1 / 3)


def test_counts_are_of_the_selected_instances() -> None:
    run = a_run(
        an_instance("a__a-1"),
        an_instance("a__a-2", model_patch="", resolved=False, status="empty"),
        an_instance("a__a-3", resolved=None),
        selected=("a__a-1", "a__a-2", "a__a-3", "a__a-4"),
    )
    stats = collect(run, UNKNOWN_SPLIT)
    counts = stats.counts
    assert (counts.selected, counts.generated, counts.no_generation) == (4, 2, 1)
    assert (counts.resolved, counts.unresolved, counts.not_evaluated) == (1, 0, 1)
    assert (stats.official, stats.evaluators) == (True, ("docker",))
