"""Pure: what repeated evaluations of the gold and the empty patch say of an instance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from bench.instances.validity import Validity
from core.plaintext import counted
from reports.data.jsonvalues import mapping
from reports.data.verdicts import Verdict, VerdictStatus

# The lists of swebench's report that decide whether an instance is resolved.
_DECIDING = ("FAIL_TO_PASS", "PASS_TO_PASS")
_NAMED = 3


class PatchKind(str, Enum):
    """The patches that show whether an instance can be judged."""

    GOLD = "gold"
    EMPTY = "empty"


@dataclass(frozen=True)
class Trial:
    """One conclusive evaluation of a patch.

    Attributes:
        failed: names of the deciding tests that did not pass, sorted; None if the evaluator
            reported no tests, as after a time limit.
        reason: of the evaluator; empty in most cases.
        seconds: wall-clock time, with the evaluator's own start.
        evaluated: the time in UTC.
    """

    resolved: bool
    failed: tuple[str, ...] | None
    reason: str
    seconds: float
    evaluated: str


@dataclass(frozen=True)
class ValidityFinding:
    """The state of an instance, why it is not valid, and the tests whose result changed."""

    state: Validity = Validity.NOT_EVALUATED
    reason: str = ""
    flaky_tests: tuple[str, ...] = ()


def trial_of(verdict: Verdict, seconds: float, evaluated: str) -> Trial:
    resolved = verdict.status is VerdictStatus.RESOLVED
    failed = failed_tests(verdict)
    return Trial(resolved, failed, verdict.reason, round(seconds, 2), evaluated)


def failed_tests(verdict: Verdict) -> tuple[str, ...] | None:
    """Return the deciding tests that did not pass, by swebench's report; None without one."""
    own = mapping((verdict.report or {}).get(verdict.instance_id))
    lists = [mapping(own.get("tests_status")).get(key) for key in _DECIDING]
    found = [each for each in lists if isinstance(each, Mapping)]
    if not found:
        return None
    return tuple(
        sorted({str(name) for each in found for name in each.get("failure") or ()})
    )


def judged(
    gold: Sequence[Trial], empty: Sequence[Trial], repeat: int
) -> ValidityFinding:
    """Return the state that the trials of both patches show.

    A gold patch that is never resolved makes an instance flaky if no test failed each time, for
    then only tests that change kept it from being resolved; otherwise invalid.
    """
    tests = tuple(sorted({*changing(gold), *changing(empty)}))
    good = sum(trial.resolved for trial in gold)
    if any(trial.resolved for trial in empty):
        return ValidityFinding(Validity.INVALID, "an empty patch resolves it", tests)
    if 0 < good < len(gold):
        words = f"the gold patch resolves it {good} of {counted(len(gold), 'time')}"
        return ValidityFinding(
            Validity.FLAKY, words + _why(gold, changing(gold)), tests
        )
    if min(len(gold), len(empty)) < repeat:
        return ValidityFinding(Validity.NOT_EVALUATED)
    if good:
        words = "results of an empty patch differ"
        flaky = ValidityFinding(Validity.FLAKY, words, tests)
        return flaky if tests else ValidityFinding(Validity.VALID)
    failed = [{*trial.failed} for trial in gold if trial.failed is not None]
    always = failed[0].intersection(*failed) if len(failed) == len(gold) else None
    if always == set() and changing(gold):
        words = "the gold patch never resolves it, but no test fails each time"
        return ValidityFinding(
            Validity.FLAKY, words + _why(gold, changing(gold)), tests
        )
    words = "the gold patch does not resolve it"
    return ValidityFinding(Validity.INVALID, words + _why(gold, always or ()), tests)


def changing(trials: Iterable[Trial]) -> set[str]:
    """Return the tests that passed in some trials of one patch and failed in others."""
    failed = [{*trial.failed} for trial in trials if trial.failed is not None]
    return (
        failed[0].union(*failed) - failed[0].intersection(*failed) if failed else set()
    )


def _why(trials: Iterable[Trial], tests: Iterable[str]) -> str:
    reason = next((t.reason for t in trials if t.reason and not t.resolved), "")
    named = sorted(tests)
    more = ", …" if len(named) > _NAMED else ""
    return (
        f": {reason or ', '.join(named[:_NAMED]) + more or 'no test results were read'}"
    )
