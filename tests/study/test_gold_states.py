"""The state of an instance from the trials of its two patches."""

from __future__ import annotations

from typing import Any

import pytest

from swe_retry.instances.validity import Validity
from swe_retry.report.evaluation.grading import failed_tests
from swe_retry.results.verdicts import Verdict, VerdictStatus
from swe_retry.study.gold import (
    InstanceTrials,
    Trial,
    changing_tests,
    judge_trials,
    usable_trials,
)

GOOD = Trial(
    resolved=True,
    failed=(),
    reason="",
    evaluated="",
)


def bad(*failed: str, reason: str = "") -> Trial:
    return Trial(
        resolved=False,
        failed=failed or None,
        reason=reason,
        evaluated="",
    )


Trials = tuple[Trial, ...]
BOTH = (GOOD, GOOD)
EMPTY = (bad("t"), bad("t"))
NOT_RESOLVED = "the gold patch does not resolve it"
SOMETIMES = "the gold patch resolves it 1 of 2 times"
SLOW = "the tests did not end within 5 s"


@pytest.mark.parametrize(
    ("gold", "empty", "state", "reason", "tests"),
    [
        (BOTH, EMPTY, "valid", "", ""),
        # More trials than asked for, as after --repeat 3.
        ((*BOTH, GOOD), EMPTY, "valid", "", ""),
        (BOTH, (bad("t"), GOOD), "invalid", "an empty patch resolves it", "t"),
        ((GOOD, bad("u")), EMPTY, "flaky", f"{SOMETIMES}: u", "u"),
        ((GOOD, bad(reason=SLOW)), EMPTY, "flaky", f"{SOMETIMES}: {SLOW}", ""),
        (EMPTY, EMPTY, "invalid", f"{NOT_RESOLVED}: t", ""),
        # One test changes, but another one fails always.
        ((bad("t"), bad("t", "u")), EMPTY, "invalid", f"{NOT_RESOLVED}: t", "u"),
        (
            (bad("u"), bad("v")),
            EMPTY,
            "flaky",
            "the gold patch never resolves it, but no test fails each time: u, v",
            "uv",
        ),
        (
            (bad(), bad("t")),
            EMPTY,
            "invalid",
            f"{NOT_RESOLVED}: no test results were read",
            "",
        ),
        (
            BOTH,
            (bad("t"), bad("u")),
            "flaky",
            "results of an empty patch differ",
            "tu",
        ),
        # A note of the evaluator does not hide the tests.
        (
            (bad("t", reason="a note"), bad("t", reason="a note")),
            EMPTY,
            "invalid",
            f"{NOT_RESOLVED}: t; a note",
            "",
        ),
        ((GOOD,), EMPTY, "not_evaluated", "", ""),
        (BOTH, EMPTY[:1], "not_evaluated", "", ""),
        ((), (), "not_evaluated", "", ""),
        # What one trial shows needs no more of them.
        ((), (GOOD,), "invalid", "an empty patch resolves it", ""),
    ],
)
def test_the_state_of_an_instance(
    gold: Trials,
    empty: Trials,
    state: str,
    reason: str,
    tests: str,
) -> None:
    trials = InstanceTrials(gold=gold, empty=empty)
    outcome = judge_trials(trials, 2)
    assert outcome.state == Validity(state)
    assert outcome.reason == reason
    assert outcome.flaky_tests == tuple(tests)


def test_long_lists_of_tests_are_cut_in_the_reason_alone() -> None:
    tests = tuple(f"t{number}" for number in range(9))
    trials = InstanceTrials(gold=(GOOD, bad(*tests)), empty=EMPTY)
    outcome = judge_trials(trials, 2)
    assert outcome.reason.endswith(": t0, t1, t2 and 6 more")
    assert outcome.flaky_tests == tests


def test_failed_tests_come_from_both_lists_of_the_report() -> None:
    def failed_in(report: dict[str, Any] | None) -> tuple[str, ...] | None:
        verdict = Verdict(
            instance_id="i",
            status=VerdictStatus.UNRESOLVED,
            evaluator="local",
            report=report,
        )
        return failed_tests(verdict)

    lists = {
        "FAIL_TO_PASS": {"success": ["a"], "failure": ["d"]},
        "PASS_TO_PASS": {"success": [], "failure": ["c"]},
        "FAIL_TO_FAIL": {"success": [], "failure": ["x"]},
    }
    report = {"resolved": False, "tests_status": lists}
    assert failed_in({"i": report}) == ("c", "d")
    assert failed_in(None) is None
    assert failed_in({}) is None
    contents: tuple[Any, ...] = (
        5,
        {"tests_status": []},
        {"tests_status": {}},
    )
    for content in contents:
        assert failed_in({"i": content}) is None


def test_a_trial_without_tests_changes_none() -> None:
    without = bad()
    failing = bad("a")
    assert changing_tests([without, failing, failing]) == set()
    assert changing_tests([without, failing, GOOD]) == {"a"}
    assert changing_tests([]) == set()


@pytest.mark.parametrize(
    ("version", "empty", "current", "missing", "gold"),
    [
        ("1", 2, "1", 0, 2),
        ("2", 1, "2", 1, 2),
        ("1", 1, "2", 4, 0),
    ],
    ids=["complete", "of this version", "of another version"],
)
def test_an_instance_that_other_versions_left_starts_over(
    version: str,
    empty: int,
    current: str,
    missing: int,
    gold: int,
) -> None:
    stored = InstanceTrials(
        versions={"swebench": version},
        gold=BOTH,
        empty=EMPTY[:empty],
    )
    trials = usable_trials(stored, {"swebench": "2"}, 2)
    assert trials.versions == {"swebench": current}
    assert trials.missing(2) == missing
    assert len(trials.gold) == gold
