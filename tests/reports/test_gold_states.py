"""The state of an instance from the trials of its two patches."""

from __future__ import annotations

import pytest

from bench.instances.validity import Validity
from reports.data.verdicts import Verdict, VerdictStatus
from reports.gold import (
    InstanceTrials,
    Trial,
    changing_tests,
    failed_tests,
    judge_trials,
    usable_trials,
)

GOOD = Trial(resolved=True, failed=(), reason="", evaluated="")


def bad(*failed: str, reason: str = "") -> Trial:
    return Trial(resolved=False, failed=failed or None, reason=reason, evaluated="")


NONE = ": no test results were read"
EMPTY = (bad("t"), bad("t"))


@pytest.mark.parametrize(
    ("gold", "empty", "state", "reason", "tests"),
    [
        ((GOOD, GOOD), EMPTY, "valid", "", ()),
        # More trials than asked for, as after --repeat 3.
        ((GOOD, GOOD, GOOD), EMPTY, "valid", "", ()),
        (
            (GOOD, GOOD),
            (bad("t"), GOOD),
            "invalid",
            "an empty patch resolves it",
            ("t",),
        ),
        (
            (GOOD, bad("u")),
            EMPTY,
            "flaky",
            "the gold patch resolves it 1 of 2 times: u",
            ("u",),
        ),
        (
            (GOOD, bad(reason="the tests did not end within 5 s")),
            EMPTY,
            "flaky",
            "the gold patch resolves it 1 of 2 times: the tests did not end within 5 s",
            (),
        ),
        (
            (bad("t"), bad("t")),
            EMPTY,
            "invalid",
            "the gold patch does not resolve it: t",
            (),
        ),
        (
            # One test changes, but another one fails always.
            (bad("t"), bad("t", "u")),
            EMPTY,
            "invalid",
            "the gold patch does not resolve it: t",
            ("u",),
        ),
        (
            (bad("u"), bad("v")),
            EMPTY,
            "flaky",
            "the gold patch never resolves it, but no test fails each time: u, v",
            ("u", "v"),
        ),
        (
            (bad(), bad("t")),
            EMPTY,
            "invalid",
            f"the gold patch does not resolve it{NONE}",
            (),
        ),
        (
            (GOOD, GOOD),
            (bad("t"), bad("u")),
            "flaky",
            "results of an empty patch differ",
            ("t", "u"),
        ),
        ((GOOD,), EMPTY, "not_evaluated", "", ()),
        ((GOOD, GOOD), EMPTY[:1], "not_evaluated", "", ()),
        ((), (), "not_evaluated", "", ()),
        # What one trial shows needs no more of them.
        ((), (GOOD,), "invalid", "an empty patch resolves it", ()),
    ],
)
def test_the_state_of_an_instance(
    gold: tuple[Trial, ...],
    empty: tuple[Trial, ...],
    state: str,
    reason: str,
    tests: tuple[str, ...],
) -> None:
    found = judge_trials(InstanceTrials(gold=gold, empty=empty), 2)
    assert (found.state, found.reason, found.flaky_tests) == (
        Validity(state),
        reason,
        tests,
    )


def test_long_lists_of_tests_are_cut_in_the_reason_alone() -> None:
    every = tuple(f"t{number}" for number in range(9))
    trials = InstanceTrials(gold=(GOOD, bad(*every)), empty=EMPTY)
    found = judge_trials(trials, 2)
    assert found.reason.endswith(": t0, t1, t2, …")
    assert found.flaky_tests == every


def test_failed_tests_come_from_both_lists_of_the_report() -> None:
    lists = {"FAIL_TO_PASS": {"success": ["a"], "failure": ["d"]}}
    lists |= {"PASS_TO_PASS": {"success": [], "failure": ["c"]}}
    lists |= {"FAIL_TO_FAIL": {"success": [], "failure": ["x"]}}
    report = {"i": {"resolved": False, "tests_status": lists}}
    verdict = Verdict(
        instance_id="i",
        status=VerdictStatus.UNRESOLVED,
        evaluator="local",
        reason="why",
        report=report,
    )
    assert failed_tests(verdict) == ("c", "d")
    for other in (
        None,
        {},
        {"i": 5},
        {"i": {"tests_status": []}},
        {"i": {"tests_status": {}}},
    ):
        without = Verdict(
            instance_id="i",
            status=VerdictStatus.UNRESOLVED,
            evaluator="local",
            report=other,
        )
        assert failed_tests(without) is None


def test_a_trial_without_tests_changes_none() -> None:
    assert changing_tests([bad(), bad("a"), bad("a")]) == set()
    assert changing_tests([bad(), bad("a"), GOOD]) == {"a"}
    assert changing_tests([]) == set()


def test_an_instance_that_other_versions_left_starts_over() -> None:
    new = {"swebench": "2"}
    old = {"swebench": "1"}

    def left(
        versions: dict[str, str],
        gold: int,
        empty: int,
    ) -> tuple[int, int]:
        known = InstanceTrials(
            versions=versions, gold=(GOOD,) * gold, empty=(bad("t"),) * empty
        )
        trials = usable_trials(known, new, 2)
        whole = (gold, empty) == (2, 2)
        assert trials.versions == (versions if whole else new)
        return trials.missing(2), len(trials.gold)

    assert left(old, 2, 2) == (0, 2)
    assert left(new, 2, 1) == (1, 2)
    assert left(old, 2, 1) == (4, 0)
