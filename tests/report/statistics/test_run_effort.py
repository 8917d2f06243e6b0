"""What attempts cost, and what they bring: files of a run in, ``stats.json`` and tables out."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from swe_retry.llm.chat import Reply, Usage
from swe_retry.results.verdicts import Verdict, VerdictStatus
from swe_retry.runner.calls.ledger import LedgerLine
from tests.report.statistics.conftest import (
    FAILED,
    Stats,
    column,
    known_part,
    selecting,
)
from tests.support import write_files
from tests.support.reporting import (
    comparisons,
    counts,
    report,
    share,
    statistics,
    write_values,
)
from tests.support.rundata import a_verdict, an_attempt, an_instance


def test_unknown_dollars_of_an_attempt_make_all_later_sums_unknown(
    stats: Stats,
) -> None:
    attempts = (
        an_attempt(1),
        an_attempt(2, cost=None),
        an_attempt(3),
    )
    instance = an_instance(attempt=3, attempts=attempts)
    rows = stats(instance)["bought"]
    assert column(rows, "dollars") == ["1", None, None]
    assert rows[2]["further_dollars"] == "1"


def test_effort_per_instance_and_per_resolved_instance(stats: Stats) -> None:
    calls = (
        Reply(
            "",
            usage=Usage(100, 10, 40),
            cost=Decimal(1),
            seconds=1.0,
        ),
        Reply("", usage=Usage(50, 5, 0), seconds=1.0),
    )
    attempts = (
        an_attempt(
            1,
            calls=calls,
            reflections=3,
            edit_outcome=False,
        ),
        an_attempt(2, seconds=4.0),
    )
    effort = stats(
        an_instance("a__a-1", attempts=attempts),
        an_instance("a__a-2", resolved=False, cost=None),
    )["effort"]
    assert effort["attempts"]["known"] == 3
    assert counts(effort["edit_errors"]) == share(1, 3)
    assert effort["prompt_tokens"]["known"] == 150
    assert effort["cached_tokens"]["known"] == 40
    assert effort["completion_tokens"]["known"] == 15
    assert effort["completion_tokens"]["per_instance"] == 7.5
    assert effort["calls"]["per_resolved"] == 2
    assert effort["reflections"]["known"] == 3
    assert effort["seconds"]["known"] == 8
    assert known_part(effort["dollars"]) == ("1", False)
    assert effort["dollars"]["per_resolved"] is None


def test_without_trajectories_tokens_are_unknown_and_not_none(stats: Stats) -> None:
    bare = an_attempt(edit_format=None, seconds=None)
    instance = an_instance(attempts=(bare,))
    effort = stats(instance)["effort"]
    for name in ("prompt_tokens", "calls", "seconds"):
        assert effort[name]["complete"] is False
        assert effort[name]["per_instance"] is None


def test_money_is_the_ledgers(stats: Stats) -> None:
    def dollars(*costs: Decimal | None) -> Any:
        lines = []
        for number, cost in enumerate(costs):
            line = LedgerLine(
                str(number),
                "answered",
                "own__thing-1",
                1,
                "m",
                cost,
            )
            lines.append(line)
        content = stats(an_instance(), ledger=lines)
        return content["effort"]["dollars"]

    dimes = [Decimal("0.1")] * 3
    assert known_part(dollars(*dimes)) == ("0.3", True)
    assert dollars(*dimes)["per_instance"] == pytest.approx(0.3)
    assert known_part(dollars(*dimes, None)) == ("0.3", False)


def test_gold_files_count_when_all_are_there(stats: Stats) -> None:
    first = an_attempt(
        1,
        added_files=("a", "b", "c"),
        edited_files=("a",),
        **FAILED,
    )
    second = an_attempt(
        2,
        added_files=("a",),
        edited_files=("a", "b"),
    )
    two: dict[str, Any] = {
        "attempt": 2,
        "attempts": (first, second),
    }
    gold_files = stats(
        an_instance("a__a-1", gold_files=("a", "b"), **two),
        an_instance("a__a-2", gold_files=("z",), map_files=("y", "z")),
        an_instance("a__a-3", gold_files=("z",), map_files=("y",)),
        an_instance("a__a-4", map_files=("y",)),
    )["gold_files"]
    shares = {name: counts(part) for name, part in gold_files.items()}
    assert shares == {
        "in_map": share(1, 2),
        "added_by_winner": share(0, 3),
        "added_by_any": share(1, 3),
        "edited_by_winner": share(1, 3),
        "edited_by_any": share(1, 3),
    }


def test_reasons_by_status(tmp_path: Path) -> None:
    missing = Verdict(
        instance_id="a__a-2",
        status=VerdictStatus.NOT_EVALUATED,
        evaluator="docker",
        reason="no image\nx",
    )
    fallback: dict[str, Any] = {
        "status": "fallback",
        "attempts": (an_attempt(**FAILED),),
    }
    run = write_values(
        tmp_path / "predictions/r",
        an_instance("a__a-1"),
        an_instance("a__a-2", resolved=None, verdict=missing, **fallback),
        an_instance("a__a-3", resolved=False, **fallback),
    )
    unfinished = {"status": "infra_error", "reason": "no route to host"}
    files = {"a__a-4.unfinished.json": json.dumps(unfinished)}
    write_files(tmp_path / "logs/r", files)
    failures = statistics(run)["failures"]
    rows = {}
    for row in failures["instances"]:
        reasons = ranked_reasons(row["reasons"])
        rows[row["status"]] = (row["instances"], row["resolved"], reasons)
    assert rows == {
        "plausible": (1, 1, [("plausible", 1)]),
        "fallback": (2, 0, [("tests_failed", 2)]),
        "infra_error": (1, 0, [("no route to host", 1)]),
    }
    assert ranked_reasons(failures["not_evaluated"]) == [("no image x", 1)]
    of_attempts = ranked_reasons(failures["attempts"])
    assert of_attempts == [("tests_failed", 2), ("plausible", 1)]


def ranked_reasons(reasons: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(reason["reason"], reason["count"]) for reason in reasons]


def test_pass_at_k_needs_all_attempts_on_every_instance(stats: Stats) -> None:
    def pass_at_k(*instances: Any) -> list[tuple[float | None, float | None]]:
        rows = stats(*instances)["pass_at_k"]
        assert column(rows, "k") == list(range(1, len(rows) + 1))
        return [(row["plausible"], row["resolved"]) for row in rows]

    good = an_attempt(1)
    bad = an_attempt(2, model_patch="q", **FAILED)
    instance = an_instance("a__a-1", attempts=(good, bad))
    other = an_instance("a__a-2")
    assert pass_at_k(instance, other) == []
    assert pass_at_k(other) == []
    two = pass_at_k(instance, instance.but(instance_id="a__a-3"))
    assert two == [(0.5, None), (1.0, None)]
    failing = instance.but(
        instance_id="a__a-4",
        attempts=(bad.but(attempt=1), bad),
    )
    rows = pass_at_k(instance, failing)
    assert rows == [(0.25, None), (0.5, None)]
    never_made = bad.but(status="not_recorded")
    lacking = instance.but(
        instance_id="a__a-3",
        attempts=(good, never_made),
    )
    assert pass_at_k(instance, lacking) == []
    empty = bad.but(model_patch="")
    rows = pass_at_k(instance.but(attempts=(good, empty)))
    assert [resolved for _, resolved in rows] == [0.5, 1.0]
    verdicts = {2: a_verdict("a__a-1", resolved=True)}
    rows = pass_at_k(instance.but(verdicts=verdicts))
    assert rows == [(0.5, 1.0), (1.0, 1.0)]


def test_what_another_harness_does_not_say_is_unknown(stats: Stats) -> None:
    silent = an_attempt(1, outcomes_known=False, status="submitted")
    both_silent = (silent, silent.but(attempt=2))
    ours = (an_attempt(), an_attempt(2))
    content = stats(
        an_instance("a__a-1", attempts=both_silent),
        an_instance("a__a-2", attempts=ours),
    )
    assert content["counts"]["plausible"] is None
    assert content["by_repository"][0]["plausible"] is None
    assert column(content["pass_at_k"], "plausible") == [None, None]
    assert column(content["pass_at_k"], "resolved") == [1.0, 1.0]


def test_a_comparison_is_of_the_instances_that_both_have_a_verdict_on(
    tmp_path: Path,
) -> None:
    def run(name: str, *verdicts: bool | None) -> Path:
        instances = []
        for number, resolved in enumerate(verdicts, 1):
            instances.append(an_instance(f"x__x-{number}", resolved=resolved))
        return write_values(tmp_path / name, *instances)

    a = run("a", True, True, False, True)
    b = run("b", True, False, False, None, True)
    (comparison,) = comparisons(a, b)
    assert comparison["table"] == {
        "both": 1,
        "only_a": 1,
        "only_b": 0,
        "neither": 1,
    }
    expected = {
        "a": "a",
        "b": "b",
        "left_out": 2,
        "only_a": ["x__x-2"],
        "only_b": [],
        "p_value": 1.0,
        "cost_a": "3",
        "cost_b": "3",
    }
    assert expected.items() <= comparison.items()
    assert counts(comparison["resolved_a"]) == share(2, 3)
    assert counts(comparison["resolved_b"]) == share(1, 3)
    assert comparison["difference"] == pytest.approx(-1 / 3)
    interval = comparison["interval"]
    assert -1 < interval["low"] < -1 / 3 < 0 < interval["high"], "p is 1"


def test_counts_are_of_the_selected_instances(stats: Stats) -> None:
    content = stats(
        an_instance("a__a-1"),
        an_instance(
            "a__a-2",
            model_patch="",
            resolved=None,
            status="empty",
        ),
        an_instance("a__a-3", resolved=None),
        described=selecting("a__a-1", "a__a-2", "a__a-3", "a__a-4"),
    )
    assert content["counts"] == {
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
    assert content["official"] is True
    assert content["evaluators"] == ["docker"]


@pytest.mark.parametrize("seed", range(3))
def test_precision_and_recall_are_sklearns(stats: Stats, seed: int) -> None:
    import numpy as np
    from sklearn.metrics import confusion_matrix, precision_score, recall_score

    dice = np.random.default_rng(seed)
    plausible = dice.random(30) < 0.6
    resolved = dice.random(30) < 0.3
    instances = [an_instance("a__a-99", resolved=None)]
    for number in range(30):
        status = "plausible" if plausible[number] else "fallback"
        is_resolved = bool(resolved[number])
        name = f"a__a-{number}"
        instance = an_instance(name, status=status, resolved=is_resolved)
        instances.append(instance)
    ours = stats(*instances)["plausible"]
    (tn, fp), (fn, tp) = confusion_matrix(
        resolved,
        plausible,
        labels=[0, 1],
    )
    assert ours["plausible_resolved"] == tp
    assert ours["plausible_unresolved"] == fp
    assert ours["implausible_resolved"] == fn
    assert ours["implausible_unresolved"] == tn
    precision = precision_score(resolved, plausible)
    assert ours["precision"] == pytest.approx(precision)
    recall = recall_score(resolved, plausible)
    assert ours["recall"] == pytest.approx(recall)


def test_nothing_is_divided_by_none(stats: Stats) -> None:
    content = stats(an_instance(status="fallback", resolved=False))
    assert content["plausible"]["precision"] is None
    assert content["plausible"]["recall"] is None
    assert content["effort"]["attempts"]["per_resolved"] is None
    assert content["bought"][0]["dollars_per_further"] is None


def test_the_tables_of_a_run_that_is_not_evaluated(tmp_path: Path) -> None:
    instance = an_instance("a__a-1", resolved=None)
    run = write_values(tmp_path / "r", instance)
    lines = report(run, format="markdown")
    for part in (
        "| 1 | m | 1 | 100.0 % | – | – | – |",
        "| Total | 1 | – | – |",
        "- Score, resolved of the selected instances (no run.json",
        "all that have a prediction): not evaluated",
    ):
        assert part in "\n".join(lines)
    assert "- Not evaluated: 1 patch" in lines
