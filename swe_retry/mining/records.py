"""What was measured of a commit, kept in a file of its own, and the row made of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum

from swe_retry.core.hashing import sha256_of
from swe_retry.core.jsontypes import JsonObject
from swe_retry.instances.validity import Validity
from swe_retry.mining.statement import names_in, remove_names
from swe_retry.record.records import Recorded
from swe_retry.study.gold import InstanceTrials
from swe_retry.testing.testlogs import Results, failed_test_names, passing_tests

# What decides the outcomes of tests.
_DECIDING = ("base_commit", "patch", "test_patch", "own_repository", "created_at")


class MineOutcome(StrEnum):
    """What came of a commit that fits.

    Members:
        FAILING: no test is fixed, and some fail with the fix too, as those that need a network.
        NOTHING_FIXED: all tests pass without the fix too.
    """

    VALID = "valid"
    FLAKY = "flaky"
    FAILING = "tests fail"
    NOTHING_FIXED = "nothing fixed"
    NO_RESULTS = "no results"
    TIMEOUT = "timeout"
    SETUP = "set-up"
    INVALID = "invalid"
    NOT_MEASURED = "not measured"


_BY_VALIDITY = {
    Validity.VALID: MineOutcome.VALID,
    Validity.FLAKY: MineOutcome.FLAKY,
}


class Measured(Recorded):
    """The runs of the tests of one commit.

    Attributes:
        conditions: hash of what decides the outcomes.
        outcome: why there are no runs, or no more; None if there is no such reason.
        problem: the same in words.
        empty, gold: status by test of each run on the base commit with the tests, and with the
            fix too; every second run has the test files in reversed order.
        trials: the verdicts of the evaluator on the row that follows from the runs.
        seconds: that all took.
    """

    conditions: str
    outcome: MineOutcome | None = None
    problem: str = ""
    empty: tuple[Results, ...] = ()
    gold: tuple[Results, ...] = ()
    trials: InstanceTrials = InstanceTrials()
    seconds: float = 0

    @property
    def lists(self) -> tuple[list[str], list[str]]:
        """FAIL_TO_PASS and PASS_TO_PASS: the tests with the same result each time."""
        always = _always_passing(self.gold)
        fail_to_pass = always - _ever_passing(self.empty)
        pass_to_pass = always & _always_passing(self.empty)
        return sorted(fail_to_pass), sorted(pass_to_pass)

    @property
    def flaky(self) -> list[str]:
        """The tests that passed in some runs of a tree and not in others."""
        names = set[str]()
        for runs in (self.empty, self.gold):
            names |= _ever_passing(runs) - _always_passing(runs)
        return sorted(names)

    @property
    def state(self) -> MineOutcome:
        """What came of the commit."""
        if self.outcome:
            return self.outcome
        if self.lists[0]:
            return _BY_VALIDITY.get(self.trials.state, MineOutcome.INVALID)
        if self.flaky:
            return MineOutcome.FLAKY
        if not self.gold[-1]:
            return MineOutcome.NO_RESULTS
        if failed_test_names(self.gold[-1]):
            return MineOutcome.FAILING
        return MineOutcome.NOTHING_FIXED

    def has_runs(self, repeat: int) -> bool:
        """Return whether nothing is missing where the tests run ``repeat`` times."""
        if self.outcome is MineOutcome.SETUP:
            return False
        is_hopeless = self.gold and not self.lists[0]
        return bool(self.outcome or is_hopeless) or len(self.gold) >= repeat


def _always_passing(runs: Sequence[Results]) -> frozenset[str]:
    passing = list(map(passing_tests, runs))
    return passing[0].intersection(*passing) if passing else frozenset()


def _ever_passing(runs: Sequence[Results]) -> frozenset[str]:
    return frozenset().union(*map(passing_tests, runs))


def conditions_of(row: JsonObject, seconds: float) -> str:
    """Return the hash of what decides the outcomes of a row's tests, with their time limit."""
    values = [seconds, *(row[column] for column in _DECIDING)]
    return sha256_of(json.dumps(values, sort_keys=True))


def with_lists(row: JsonObject, measured: Measured) -> JsonObject:
    """Return a row with the tests that decide; see ``Measured.lists``."""
    fail_to_pass, pass_to_pass = measured.lists
    names = names_in(fail_to_pass, row["test_patch"])
    statement, count = remove_names(row["problem_statement"], names)
    removed = dict(row["mined"]["removed"])
    removed["tests"] += count
    return {
        **row,
        "problem_statement": statement,
        "FAIL_TO_PASS": json.dumps(fail_to_pass),
        "PASS_TO_PASS": json.dumps(pass_to_pass),
        "mined": {**row["mined"], "removed": removed, "flaky": measured.flaky},
    }
