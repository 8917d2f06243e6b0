"""What was measured of each commit, kept in a folder beside the rows, and the rows made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from swe_retry.core.atomic import write_json_atomic
from swe_retry.core.hashing import sha256_of
from swe_retry.core.jsontypes import JsonObject
from swe_retry.core.untrusted import invalid, read_object
from swe_retry.instances.validity import Validity
from swe_retry.record.records import Recorded
from swe_retry.study.gold import InstanceTrials
from swe_retry.testing.testlogs import Results, passing_tests

_FIX = "delete it; the commit is measured again"


class MineOutcome(StrEnum):
    """What came of a commit that fits."""

    VALID = "valid"
    FLAKY = "flaky"
    NOTHING_FIXED = "nothing fixed"
    NO_RESULTS = "no results"
    TIMEOUT = "timeout"
    SETUP = "set-up"
    INVALID = "invalid"
    NOT_MEASURED = "not measured"


class Measured(Recorded):
    """The runs of the tests of one commit.

    Attributes:
        conditions: hash of what decides the outcomes: base, patches, commands and date.
        problem: why there are no runs, or no more.
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
        after = _always(self.gold)
        ever_before = _ever(self.empty)
        fixed = sorted(after - ever_before)
        kept = sorted(after & _always(self.empty))
        return fixed, kept

    @property
    def flaky(self) -> list[str]:
        """The tests that passed in some runs of a tree and not in others."""
        names: set[str] = set()
        for runs in (self.empty, self.gold):
            names |= _ever(runs) - _always(runs)
        return sorted(names)

    @property
    def state(self) -> MineOutcome:
        """What came of the commit."""
        if self.outcome:
            return self.outcome
        if not self.lists[0]:
            return MineOutcome.FLAKY if self.flaky else MineOutcome.NOTHING_FIXED
        if self.trials.state is Validity.VALID:
            return MineOutcome.VALID
        if self.trials.state is Validity.FLAKY:
            return MineOutcome.FLAKY
        return MineOutcome.INVALID

    @property
    def reason(self) -> str:
        """Why there is no row, in words; of a valid row empty."""
        return self.problem or self.trials.reason


def _always(runs: Sequence[Results]) -> frozenset[str]:
    passing = [passing_tests(run) for run in runs]
    return frozenset.intersection(*passing) if passing else frozenset()


def _ever(runs: Sequence[Results]) -> frozenset[str]:
    return frozenset().union(*map(passing_tests, runs))


def conditions_of(row: Mapping[str, object]) -> str:
    """Return the hash of what decides the outcomes of a row's tests."""
    columns = ("base_commit", "patch", "test_patch", "own_repository", "created_at")
    values = [row[column] for column in columns]
    return sha256_of(json.dumps(values, sort_keys=True))


def read_measured(path: Path, conditions: str) -> Measured:
    """Return what was measured under these conditions; nothing yet where there is no file."""
    try:
        measured = Measured.model_validate(read_object(path, _FIX))
    except FileNotFoundError:
        return Measured(conditions=conditions)
    except ValidationError as error:
        raise invalid(path, error, "a measurement", _FIX) from error
    if measured.conditions != conditions:
        return Measured(conditions=conditions)
    return measured


def write_measured(path: Path, measured: Measured) -> None:
    """Write what was measured."""
    write_json_atomic(path, measured.as_json())


def with_lists(row: JsonObject, measured: Measured) -> JsonObject:
    """Return a row with the tests that decide; see ``Measured.lists``."""
    fixed, kept = measured.lists
    mined = {**row["mined"], "flaky": measured.flaky}
    lists = {"FAIL_TO_PASS": json.dumps(fixed), "PASS_TO_PASS": json.dumps(kept)}
    return {**row, **lists, "mined": mined}


def row_lines(rows: Sequence[JsonObject]) -> Iterator[str]:
    """Yield the lines of a file of rows."""
    for row in rows:
        yield json.dumps(row, ensure_ascii=False) + "\n"
