"""Pure: from the attempts' outcomes to the winner, with the reason in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from swe_retry.core.plaintext import quantity, some
from swe_retry.record.evidence import Belief
from swe_retry.record.records import Attempt, AttemptStatus
from swe_retry.record.result import InstanceStatus

_RANKS: dict[bool | None, int] = {True: 0, None: 1, False: 2}
OUTCOME_WORDS = {True: "clean", False: "failed", None: "unknown"}
_TIERS = (
    "edit, lint and tests are clean",
    "edit and lint are clean",
    "lint is clean",
    "all edits were applied",
    "there is a patch",
)
_MAX_NAMES = 3

RESULTS = (InstanceStatus.PLAUSIBLE, InstanceStatus.FALLBACK, InstanceStatus.EMPTY)
"""The statuses of instances that ended by their outcomes; the first is success."""


@dataclass(frozen=True)
class CandidateChoice:
    """The winner (None when no attempt has a usable patch), why, and how sure that is."""

    winner: Attempt | None
    status: InstanceStatus
    reason: str
    belief: Belief | None = None


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

    Candidates that edit test configuration, or whose tests are doubted, come last.
    """
    ranks = [_RANKS[outcome] for outcome in candidate.outcomes.values()]
    ranks_low = int(candidate.ranks_low)
    return (ranks_low, tier(candidate), *ranks, candidate.attempt)


def choose(
    candidates: Sequence[Attempt],
    *,
    require_tests: bool = False,
) -> CandidateChoice:
    """Choose what to predict: the first plausible candidate, else the least bad one.

    Plausible candidates that rank low go after those that do not, and are not plausible if the
    tests ran and could not tell. With ``require_tests`` one that passed tests goes
    before untested ones.
    """
    winner = _best_plausible(candidates, require_tests=require_tests)
    if winner:
        reason = _why_plausible(winner)
        return CandidateChoice(winner, InstanceStatus.PLAUSIBLE, reason)
    usable = [candidate for candidate in candidates if candidate.usable]
    usable.sort(key=rank)
    if usable:
        winner = usable[0]
    count = quantity(len(candidates), "attempt")
    if all(candidate.broken for candidate in candidates):
        reason = f"no attempt ended normally ({count})"
        if winner:
            reason += f"; the patch of attempt {winner.attempt} is kept"
        return CandidateChoice(winner, InstanceStatus.ERROR, reason)
    if winner is None:
        reason = f"no attempt left a patch that can be predicted ({count})"
        return CandidateChoice(None, InstanceStatus.EMPTY, reason)
    reason = f"no attempt is plausible ({count}); {_why_least_bad(usable)}"
    return CandidateChoice(winner, InstanceStatus.FALLBACK, reason)


def _best_plausible(
    candidates: Sequence[Attempt],
    *,
    require_tests: bool,
) -> Attempt | None:
    plausible = []
    for candidate in candidates:
        if candidate.plausible and not candidate.suspect:
            plausible.append(candidate)
    order = partial(comes_last, require_tests=require_tests)
    return min(plausible, key=order, default=None)


def comes_last(candidate: Attempt, *, require_tests: bool) -> tuple[bool, bool]:
    """Return the first sort key of candidates that are not to be chosen before others."""
    untested = require_tests and not candidate.test_outcome
    return candidate.ranks_low, untested


def _why_plausible(winner: Attempt) -> str:
    tests = "no test newly fails"
    if not winner.test_outcome:
        tests = "no test could run (plausible, untested)"
        if winner.untested:
            tests = f"no test could run (plausible, untested: {winner.untested})"
    reason = (
        f"attempt {winner.attempt} is plausible: edits applied, lint clean, {tests}"
    )
    if winner.error:
        reason += f"; it did not end by itself: {winner.error}"
    return reason + doubt_note(winner)


def _why_least_bad(ranked: Sequence[Attempt]) -> str:
    best = ranked[0]
    outcomes = []
    for name, outcome in best.outcomes.items():
        outcomes.append(f"{name} {OUTCOME_WORDS[outcome]}")
    reason = f"attempt {best.attempt} is the least bad: {_TIERS[tier(best)]}"
    reason += f" ({', '.join(outcomes)}){doubt_note(best)}"
    if len(ranked) == 1:
        return reason
    second = ranked[1]
    if rank(best)[:-1] == rank(second)[:-1]:
        return (
            f"{reason}; attempt {second.attempt} has the same outcomes but came later"
        )
    reason += f"; next is attempt {second.attempt}, where {_TIERS[tier(second)]}"
    return reason + doubt_note(second)


def doubt_note(candidate: Attempt) -> str:
    """Return the end of a reason for a candidate that ranks low."""
    note = ""
    if candidate.edits_test_configuration:
        note = "; it edits test configuration"
    if candidate.tests_doubted:
        note += "; the run of its tests is doubted"
    return note


def finish_choice(
    choice: CandidateChoice,
    attempts: Sequence[Attempt],
) -> CandidateChoice:
    """Name what broke an instance, and the window or budget that ended an attempt on it."""
    last = attempts[-1]
    gave_up = last.status is AttemptStatus.EMPTY and bool(last.error)
    if choice.status is InstanceStatus.ERROR or (choice.winner is None and gave_up):
        lines = last.error.strip().splitlines()
        error = lines[-1] if lines else last.status.replace("_", " ")
        return replace(choice, reason=f"{choice.reason}; the last: {error}")
    context_numbers = _with_status(attempts, AttemptStatus.CONTEXT)
    if context_numbers and choice.winner is None:
        noun = "attempts" if len(context_numbers) > 1 else "attempt"
        names = some(context_numbers, _MAX_NAMES)
        reason = f"{noun} {names} did not fit into the model's window"
        choice = replace(choice, reason=f"{choice.reason}; {reason}")
    budget_numbers = _with_status(attempts, AttemptStatus.BUDGET)
    if not budget_numbers or choice.status is InstanceStatus.PLAUSIBLE:
        return choice
    reason = f"{choice.reason}; the budget ended attempt {budget_numbers[0]}"
    return replace(choice, status=InstanceStatus.BUDGET, reason=reason)


def _with_status(attempts: Iterable[Attempt], status: AttemptStatus) -> list[str]:
    """Return the numbers of the attempts with a status."""
    numbers = []
    for attempt in attempts:
        if attempt.status is status:
            numbers.append(str(attempt.attempt))
    return numbers
