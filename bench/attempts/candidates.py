"""Pure: from the attempts' outcomes to the winner, with the reason in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.plaintext import counted
from runs.records import Attempt, InstanceStatus

_GOODNESS: dict[bool | None, int] = {True: 0, None: 1, False: 2}
OUTCOME_WORDS = {True: "clean", False: "failed", None: "unknown"}
_TIERS = (
    "edit, lint and tests are clean",
    "edit and lint are clean",
    "lint is clean",
    "all edits were applied",
    "there is a patch",
)


RESULTS = (InstanceStatus.PLAUSIBLE, InstanceStatus.FALLBACK, InstanceStatus.EMPTY)
"""The statuses of instances that ended by their outcomes; the first is success."""


@dataclass(frozen=True)
class CandidateChoice:
    """The winner (None when no attempt has a usable patch), and why."""

    winner: Attempt | None
    status: InstanceStatus
    reason: str


def tier(candidate: Attempt) -> int:
    """Return 0 for the best class of candidates to 4 for the worst."""
    if candidate.edit_outcome and candidate.lint_outcome and candidate.test_outcome:
        return 0
    if candidate.edit_outcome and candidate.lint_outcome:
        return 1
    if candidate.lint_outcome:
        return 2
    if candidate.edit_outcome:
        return 3
    return 4


def rank(candidate: Attempt) -> tuple[int, ...]:
    """Return the sort key: tier, then unknown before false, then the earlier attempt.

    Candidates that edit test configuration come last.
    """
    goodness = [_GOODNESS[outcome] for outcome in candidate.outcomes.values()]
    marked = int(candidate.edits_test_configuration)
    return (marked, tier(candidate), *goodness, candidate.attempt)


def choose(
    candidates: Sequence[Attempt], *, require_tests: bool = False
) -> CandidateChoice:
    """Choose what to predict: the first plausible candidate, else the least bad one.

    Plausible candidates that edit test configuration go after those that do not, and are not
    plausible if the tests ran and could not tell. With ``require_tests`` one that passed tests goes
    before untested ones.
    """
    plausible = [c for c in candidates if c.plausible and not c.suspect]
    plausible.sort(
        key=lambda c: (c.edits_test_configuration, require_tests and not c.test_outcome)
    )
    if plausible:
        winner = plausible[0]
        return CandidateChoice(winner, InstanceStatus.PLAUSIBLE, _why_plausible(winner))
    usable = sorted((c for c in candidates if c.usable), key=rank)
    if all(candidate.broken for candidate in candidates):
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


def _why_plausible(winner: Attempt) -> str:
    why = f": {winner.untested}" if winner.untested else ""
    unknown = f"no test could run (plausible, untested{why})"
    tests = "no test newly fails" if winner.test_outcome else unknown
    words = f"attempt {winner.attempt} is plausible: edits applied, lint clean, {tests}"
    return words + _note(winner)


def _why_broken(count: int, winner: Attempt | None) -> str:
    kept = f"; the patch of attempt {winner.attempt} is kept" if winner else ""
    return f"no attempt ended normally ({counted(count, 'attempt')}){kept}"


def _why_least_bad(ranked: Sequence[Attempt], attempts: int) -> str:
    best = ranked[0]
    outcomes = ", ".join(
        f"{name} {OUTCOME_WORDS[value]}" for name, value in best.outcomes.items()
    )
    made = counted(attempts, "attempt")
    text = (
        f"no attempt is plausible ({made}); attempt {best.attempt} is the least bad: "
    )
    text += f"{_TIERS[tier(best)]} ({outcomes}){_note(best)}"
    if len(ranked) > 1:
        text += _against(best, ranked[1])
    return text


def _against(best: Attempt, second: Attempt) -> str:
    if rank(best)[:-1] == rank(second)[:-1]:
        return f"; attempt {second.attempt} has the same outcomes but came later"
    return f"; next is attempt {second.attempt}, where {_TIERS[tier(second)]}{_note(second)}"


def _note(candidate: Attempt) -> str:
    return "; it edits test configuration" if candidate.edits_test_configuration else ""
