"""The statistics of a run: files of a run in, ``stats.json`` and tables out."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bench.attempts import choose
from reports.data.verdicts import VerdictStatus
from runs.records import Attempt, Origin
from tests.reports.statistics.conftest import Stats, dataset, selecting
from tests.support.reporting import (
    counts,
    share,
    statistics,
)
from tests.support.rundata import a_verdict, an_attempt, an_instance, write_run

FAILED = {"status": "tests_failed", "test_outcome": False}


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
    stats: Stats,
    name: str,
    split_name: str,
    size: int | None,
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
    rows = []
    for r in found["by_attempt"]:
        rows.append((r["attempt"], r["model"], r["predictions"]["count"]))
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
