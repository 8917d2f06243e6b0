"""What attempts cost, and what they bring: files of a run in, ``stats.json`` and tables out."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from llm.chat import Reply, Usage
from reports.data.verdicts import Verdict, VerdictStatus
from runs.calls.ledger import LedgerLine
from tests.reports.statistics.conftest import Stats, selecting
from tests.support.reporting import (
    comparisons,
    counts,
    report,
    share,
    statistics,
    write_values,
)
from tests.support.rundata import a_verdict, an_attempt, an_instance

FAILED = {"status": "tests_failed", "test_outcome": False}


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
    lines = []
    for n in range(3):
        lines.append(
            LedgerLine(str(n), "answered", "own__thing-1", 1, "m", Decimal("0.1"))
        )
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
    rows = {}
    for row in failures["instances"]:
        rows[row["status"]] = (
            row["instances"],
            row["resolved"],
            ranked(row["reasons"]),
        )
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

    good = an_attempt(1)
    bad = an_attempt(2, model_patch="q", **FAILED)
    one = an_instance("a__a-1", attempts=(good, bad))
    other = an_instance("a__a-2")
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
    instances = []
    for n, (p, r) in enumerate(zip(plausible, resolved, strict=True)):
        instances.append(
            an_instance(f"a__a-{n}", status=status[bool(p)], resolved=bool(r))
        )
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
