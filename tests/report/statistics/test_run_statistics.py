"""The statistics of a run: files of a run in, ``stats.json`` and tables out."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts.choose import choose
from swe_retry.llm.chat import Reply
from swe_retry.record.records import Attempt, Origin
from swe_retry.results.verdicts import Verdict, VerdictStatus
from tests.report.statistics.conftest import (
    FAILED,
    Stats,
    column,
    dataset,
    known_part,
    selecting,
)
from tests.support import write_files
from tests.support.reporting import (
    counts,
    share,
    statistics,
)
from tests.support.rundata import a_verdict, an_attempt, an_instance, write_run


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
    instance = an_instance("demo__bank-1")
    scores = stats(instance, described=dataset(name))["scores"]
    assert scores["split_name"] == split_name
    assert (scores["split"] or {}).get("of") == size


def test_groups_by_repository_and_year_count_what_was_selected(stats: Stats) -> None:
    names = ("own__thing-1", "own__thing-2", "own__thing-3", "two__x-1")
    content = stats(
        an_instance("own__thing-1", year=2019),
        an_instance("own__thing-2", year=None, resolved=False),
        described=selecting(*names),
    )
    # An unknown verdict is not zero; nothing is predicted of the other repository.
    assert resolved_by_name(content["by_repository"]) == {
        "own/thing": share(1, 3),
        "two/x": share(0, 1),
    }
    assert resolved_by_name(content["by_year"]) == {
        "2019": share(1, 1),
        "unknown": share(0, 3),
    }


def resolved_by_name(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {row["name"]: counts(row["resolved"]) for row in rows}


def test_models_and_attempts_without_a_prediction_have_rows(stats: Stats) -> None:
    attempts = (
        an_attempt(1, model="x", **FAILED),
        an_attempt(2, model="y"),
    )
    models = [{"name": name} for name in "xyz"]
    instance = an_instance(attempt=2, attempts=attempts)
    content = stats(instance, described={"config": {"models": models}})
    rows = content["by_attempt"]
    assert column(rows, "attempt") == [1, 2]
    assert column(rows, "model") == ["x", "y"]
    assert column(column(rows, "predictions"), "count") == [0, 1]
    assert column(content["by_model"], "name") == ["x", "y", "z"]
    assert column(content["by_model"], "predictions") == [0, 1, 0]
    assert content["models"] == ["x", "y", "z"]
    assert content["by_origin"] == []


def test_the_shares_of_an_attempt(stats: Stats) -> None:
    alone = (an_attempt(model="x"),)
    attempts = (
        an_attempt(1, model="x", **FAILED),
        an_attempt(2, model=""),
    )
    first, unknown = stats(
        an_instance("a__a-1", attempts=alone),
        an_instance("a__a-3", resolved=False, attempts=alone),
        an_instance("a__a-2", attempt=2, attempts=attempts),
        described=selecting("a__a-1", "a__a-2", "a__a-3", "a__a-4"),
    )["by_attempt"]
    assert counts(first["predictions"]) == share(2, 3)
    assert counts(first["resolved"]) == share(1, 2)
    assert counts(first["score"]) == share(1, 4)
    assert counts(first["success"]) == share(1, 2)
    assert unknown["attempt"] == 2
    assert unknown["model"] == "unknown"


def test_a_combination_has_a_group_for_each_of_its_runs(stats: Stats) -> None:
    instances = []
    for number, run in enumerate("bab", 1):
        attempt = an_attempt(origin=Origin(run=run, attempt=1))
        instance = an_instance(f"a__a-{number}", attempts=(attempt,))
        instances.append(instance)
    instances.append(an_instance("a__a-4", resolved=None))
    rows = stats(*instances)["by_origin"]
    assert column(rows, "name") == ["a", "b", "unknown"]
    assert column(rows, "predictions") == [1, 2, 1]
    assert column(rows, "evaluated") == [1, 2, 0]
    assert column(rows, "plausible") == [1, 2, 1]
    resolved = [counts(row["resolved"]) for row in rows]
    assert resolved == [share(1, 1), share(2, 2), (0, 1, None)]


def verdicts_on(*resolved: bool) -> dict[int, Verdict]:
    """Return verdicts on the first attempts of an instance, by their numbers."""
    verdicts = {}
    for number, is_resolved in enumerate(resolved, 1):
        verdicts[number] = a_verdict("a__a-1", resolved=is_resolved)
    return verdicts


def resolved_counts(rows: list[dict[str, Any]]) -> list[int]:
    return column(column(rows, "resolved"), "count")


def failed_attempt(number: int, **changes: Any) -> Attempt:
    return an_attempt(number, model_patch=f"p{number}", **FAILED, **changes)


def test_what_each_further_attempt_buys(stats: Stats) -> None:
    dime = Decimal("0.1")
    attempts = (
        failed_attempt(1, cost=dime),
        failed_attempt(2, cost=dime),
        an_attempt(3, cost=dime),
    )
    late = an_instance("a__a-2", attempt=3, attempts=attempts)
    third = an_instance("a__a-3", resolved=False)
    rows = stats(an_instance("a__a-1"), late, third)["bought"]
    assert column(rows, "attempts") == [1, 2, 3]
    resolved = [counts(row["resolved"]) for row in rows]
    assert resolved == [share(1, 3), share(1, 3), share(2, 3)]
    assert column(rows, "dollars") == ["2.1", "2.2", "2.3"]
    assert column(rows, "further_dollars") == ["2.1", "0.1", "0.1"]
    assert column(rows, "dollars_per_further") == [2.1, None, 0.1]
    assert column(rows, "lower_bound") == [True, True, False]


def test_the_effect_of_attempts_is_exact_if_all_are_evaluated(stats: Stats) -> None:
    # The second goes before the first, and the fourth, which is predicted, before both.
    poor = {"lint_outcome": False}
    attempts = (
        failed_attempt(1, **poor),
        failed_attempt(2),
        failed_attempt(3, **poor),
        an_attempt(4),
    )
    verdicts = verdicts_on(True, False, True)
    instance = an_instance(
        "a__a-1",
        attempt=4,
        attempts=attempts,
        verdicts=verdicts,
    )
    rows = stats(instance)["bought"]
    assert resolved_counts(rows) == [1, 0, 0, 1]
    assert column(rows, "further_resolved") == [1, -1, 0, 1]
    assert True not in column(rows, "lower_bound")
    nothing = an_instance("a__a-2", model_patch="", resolved=False)
    assert True not in column(stats(nothing)["bought"], "lower_bound")


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
    instance = an_instance(
        "a__a-1",
        attempt=3,
        model_patch="late",
        attempts=attempts,
        verdicts=verdicts_on(False, True),
    )
    rows = stats(instance)["bought"]
    assert resolved_counts(rows) == [0, 1, 1]
    assert choose(attempts[:2]).winner is failing


def test_further_attempts_are_chosen_among_by_evidence_and_pay_for_scripts(
    stats: Stats,
) -> None:
    """The first of three is chosen by three equal patches; of one and two attempts another is."""
    patches = ("p", "q", "q")
    attempts = []
    for number, patch in enumerate(patches, 1):
        made = an_attempt(
            number,
            try_=number,
            model_patch=patch,
            cost=Decimal("0.1"),
        )
        attempts.append(made.but(model=f"m{number}"))
    classes = [
        {
            "id": "p",
            "attempts": [1],
            "models": ["m1"],
        },
        {
            "id": "q",
            "attempts": [2, 3],
            "models": ["m2", "m3"],
        },
    ]
    verdicts = verdicts_on(False, True, True)
    call = Reply("x", cost=Decimal("0.03"), seconds=1.0)
    instance = an_instance(
        "a__a-1",
        attempt=2,
        attempts=tuple(attempts),
        model_patch="q",
        verdicts=verdicts,
        resolved=True,
        evidence={"classes": classes},
        writers=(an_attempt(0, model="w", calls=(call, call)),),
    )
    described = {"config": {"select": "evidence"}}
    content = stats(instance, described=described)
    rows = content["bought"]
    assert resolved_counts(rows) == [0, 0, 1]
    assert column(rows, "dollars") == ["0.1", "0.26", "0.36"]


def test_an_unreadable_count_of_tokens_is_unknown(tmp_path: Path) -> None:
    usage = {"prompt_tokens": "many", "completion_tokens": 5, "cached_tokens": 0}
    call = {
        "content": "",
        "usage": usage,
        "cost": 0.1,
        "seconds": 1,
        "model": "m",
    }
    attempt = {
        "attempt": 1,
        "model": "m",
        "edit_format": "diff",
        "calls": [call],
    }
    result = {"instance_id": "a__a-1", "model_patch": "", "model": "m"}
    prediction = {**result, "all_results": [result]}
    folder = write_run(tmp_path / "r", [prediction])
    trajectory = json.dumps({"attempts": [attempt]})
    write_files(folder, {"trajectories/a__a-1.json": trajectory})
    effort = statistics(folder)["effort"]
    assert known_part(effort["prompt_tokens"]) == (0, False)


def test_verdicts_of_another_kind_say_nothing_beside_official_ones(
    stats: Stats,
) -> None:
    verdict = a_verdict("a__a-1", resolved=True, evaluator="local")
    attempts = (an_attempt(1), an_attempt(2, model_patch="q"))
    instance = an_instance(
        "a__a-1",
        attempts=attempts,
        verdicts={2: verdict},
    )
    rows = stats(instance)["pass_at_k"]
    assert column(rows, "resolved") == [None, None]
    local = a_verdict("a__a-1", resolved=False, evaluator="local")
    by_local = instance.but(verdict=local)
    rows = stats(by_local)["pass_at_k"]
    assert column(rows, "resolved") == [0.5, 1.0]
    missing = verdict.but(status=VerdictStatus.NOT_EVALUATED)
    lacking = by_local.but(verdicts={2: missing})
    rows = stats(lacking)["pass_at_k"]
    assert column(rows, "resolved") == [None, None]
