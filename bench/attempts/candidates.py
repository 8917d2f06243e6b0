"""Pure: from the attempts' outcomes to the winner, with the reason in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from core.plaintext import counted
from runs.progress.state import JobStatus

_GOODNESS: dict[bool | None, int] = {True: 0, None: 1, False: 2}
_TIERS = (
    "edit, lint and tests are clean",
    "edit and lint are clean",
    "lint is clean",
    "all edits were applied",
    "there is a patch",
)


class InstanceStatus(str, Enum):
    """The status of an instance with a prediction, as it stands there."""

    PLAUSIBLE = "plausible"
    FALLBACK = "fallback"
    EMPTY = "empty"
    BUDGET = "budget"
    ERROR = "error"

    @property
    def job(self) -> JobStatus:
        return _JOBS.get(self, JobStatus.FAILED)


_JOBS = {
    InstanceStatus.PLAUSIBLE: JobStatus.DONE,
    InstanceStatus.BUDGET: JobStatus.BUDGET,
    InstanceStatus.ERROR: JobStatus.ERROR,
}
RESULTS = ("plausible", "fallback", "empty")
"""The words for instances that ended by their outcomes; the first is success."""


class AttemptStatus(str, Enum):
    """How an attempt ended; the value stands in prediction files."""

    PLAUSIBLE = "plausible"
    PLAUSIBLE_UNTESTED = "plausible_untested"
    EDIT_FAILED = "edit_failed"
    LINT_FAILED = "lint_failed"
    TESTS_FAILED = "tests_failed"
    ONLY_TEST_CONFIGURATION = "only_test_configuration"
    TREE_DIFFERS = "tree_differs"
    EMPTY = "empty"
    ERROR = "error"
    BUDGET = "budget"
    TIMEOUT = "timeout"
    CONTEXT = "context"
    REPLAY_EXHAUSTED = "replay_exhausted"
    NOT_RECORDED = "not_recorded"
    INFRA_ERROR = "infra_error"
    INTERRUPTED = "interrupted"


BROKEN = frozenset(
    {AttemptStatus.ERROR, AttemptStatus.TIMEOUT, AttemptStatus.NOT_RECORDED}
)
"""Statuses of attempts that say nothing about their models."""

NEVER_PLAUSIBLE = BROKEN | {
    AttemptStatus.ONLY_TEST_CONFIGURATION,
    AttemptStatus.TREE_DIFFERS,
}
"""Statuses of attempts whose outcomes say nothing about their patches."""

PLAUSIBLE = frozenset(
    {AttemptStatus.PLAUSIBLE.value, AttemptStatus.PLAUSIBLE_UNTESTED.value}
)
"""The recorded statuses, of attempts and of predictions, that mean plausible."""


@dataclass(frozen=True)
class Candidate:
    """An attempt's patch with its outcomes; None is an unknown outcome.

    Attributes:
        submittable_patch: the patch to predict, without edits to tests and other excluded files.
        applies: whether it applies to the clean base commit.
        status: set where the attempt ended otherwise than by its outcomes.
        edits_test_configuration: part of it changes how existing tests run; the outcome of its
            tests is that without this part.
        untested: why the test outcome is unknown, where more is to be said than that.
        test_note: what limits the test outcome.
    """

    attempt: int
    submittable_patch: str = ""
    applies: bool = True
    edit: bool | None = None
    lint: bool | None = None
    test: bool | None = None
    status: AttemptStatus | None = None
    edits_test_configuration: bool = False
    untested: str = ""
    test_note: str = ""

    @property
    def usable(self) -> bool:
        return bool(self.submittable_patch.strip()) and self.applies

    @property
    def plausible(self) -> bool:
        """Whether edits and lint are clean and no test newly fails; tests may be unknown."""
        clean = self.edit and self.lint and self.test is not False
        return bool(self.usable and clean and self.status not in NEVER_PLAUSIBLE)

    @property
    def suspect(self) -> bool:
        """Whether it changes how tests run, and its tests could not tell (docs/environments.md)."""
        return (
            self.edits_test_configuration and self.test is None and bool(self.untested)
        )


@dataclass(frozen=True)
class CandidateChoice:
    """The winner (None when no attempt has a usable patch), and why."""

    winner: Candidate | None
    status: InstanceStatus
    reason: str


def attempt_status(candidate: Candidate) -> AttemptStatus:
    """Return how the attempt ended: its own status, else the one that follows from its outcomes."""
    if candidate.plausible:
        tested = candidate.test is True
        return AttemptStatus.PLAUSIBLE if tested else AttemptStatus.PLAUSIBLE_UNTESTED
    if candidate.status is not None:
        return candidate.status
    if candidate.edit is False:
        return AttemptStatus.EDIT_FAILED
    if not candidate.usable:
        return AttemptStatus.EMPTY if candidate.applies else AttemptStatus.ERROR
    if candidate.lint is False:
        return AttemptStatus.LINT_FAILED
    if candidate.test is False:
        return AttemptStatus.TESTS_FAILED
    return AttemptStatus.EDIT_FAILED


def tier(candidate: Candidate) -> int:
    """Return 0 for the best class of candidates to 4 for the worst."""
    edit, lint, test = (
        candidate.edit is True,
        candidate.lint is True,
        candidate.test is True,
    )
    classes = (edit and lint and test, edit and lint, lint, edit, True)
    return classes.index(True)


def rank(candidate: Candidate) -> tuple[int, ...]:
    """Return the sort key: tier, then unknown before false, then the earlier attempt.

    Candidates that edit test configuration come last.
    """
    goodness = tuple(
        _GOODNESS[o] for o in (candidate.edit, candidate.lint, candidate.test)
    )
    marked = int(candidate.edits_test_configuration)
    return (marked, tier(candidate), *goodness, candidate.attempt)


def choose(
    candidates: Sequence[Candidate], *, require_tests: bool = False
) -> CandidateChoice:
    """Choose what to predict: the first plausible candidate, else the least bad one.

    Plausible candidates that edit test configuration go after those that do not, and are not
    plausible if the tests ran and could not tell. With ``require_tests`` one that passed tests goes
    before untested ones.
    """
    plausible = [c for c in candidates if c.plausible and not c.suspect]
    plausible.sort(
        key=lambda c: (c.edits_test_configuration, require_tests and c.test is not True)
    )
    if plausible:
        winner = plausible[0]
        return CandidateChoice(winner, InstanceStatus.PLAUSIBLE, _why_plausible(winner))
    usable = sorted((c for c in candidates if c.usable), key=rank)
    if all(c.status in BROKEN for c in candidates):
        kept = usable[0] if usable else None
        return CandidateChoice(
            kept, InstanceStatus.ERROR, _why_broken(len(candidates), kept)
        )
    if not usable:
        made = counted(len(candidates), "attempt")
        reason = f"no attempt left a patch that can be predicted ({made})"
        return CandidateChoice(None, InstanceStatus.EMPTY, reason)
    return CandidateChoice(
        usable[0], InstanceStatus.FALLBACK, _why_least_bad(usable, len(candidates))
    )


def _why_plausible(winner: Candidate) -> str:
    why = f": {winner.untested}" if winner.untested else ""
    unknown = f"no test could run (plausible, untested{why})"
    tests = "no test newly fails" if winner.test else unknown
    words = f"attempt {winner.attempt} is plausible: edits applied, lint clean, {tests}"
    return words + _note(winner)


def _why_broken(count: int, winner: Candidate | None) -> str:
    kept = f"; the patch of attempt {winner.attempt} is kept" if winner else ""
    return f"no attempt ended normally ({counted(count, 'attempt')}){kept}"


def _why_least_bad(ranked: Sequence[Candidate], attempts: int) -> str:
    best = ranked[0]
    outcomes = ", ".join(
        f"{name} {'unknown' if value is None else 'clean' if value else 'failed'}"
        for name, value in (
            ("edit", best.edit),
            ("lint", best.lint),
            ("tests", best.test),
        )
    )
    made = counted(attempts, "attempt")
    text = (
        f"no attempt is plausible ({made}); attempt {best.attempt} is the least bad: "
    )
    text += f"{_TIERS[tier(best)]} ({outcomes}){_note(best)}"
    if len(ranked) > 1:
        text += _against(best, ranked[1])
    return text


def _against(best: Candidate, second: Candidate) -> str:
    if rank(best)[:-1] == rank(second)[:-1]:
        return f"; attempt {second.attempt} has the same outcomes but came later"
    return f"; next is attempt {second.attempt}, where {_TIERS[tier(second)]}{_note(second)}"


def _note(candidate: Candidate) -> str:
    return "; it edits test configuration" if candidate.edits_test_configuration else ""
