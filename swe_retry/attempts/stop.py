"""Pure: whether another attempt on an instance is worth making, by what is recorded so far.

``reports/lab`` replays the same rule on recorded runs. It sees no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from swe_retry.attempts.policy import StopRule
from swe_retry.record.records import Attempt, AttemptStatus


def is_enough(candidate: Attempt, *, require_tests: bool) -> bool:
    """Return whether a candidate ends the work where the first plausible one is predicted."""
    if candidate.ranks_low:
        return False
    if require_tests and not candidate.test_outcome:
        return False
    return candidate.plausible


def stop_reason(
    candidates: Sequence[Attempt],
    rule: StopRule,
    *,
    require_tests: bool = False,
    sure: float = 1.0,
    greatest: float = 0.0,
) -> str:
    """Return why no further attempt is to be made, as one sentence; empty to go on.

    Args:
        sure: the weight that ends the attempts under ``StopRule.SURE``.
        greatest: the weight of the class of candidates that is most likely right.
    """
    if rule is StopRule.ALL:
        return ""
    if rule is StopRule.SURE:
        if greatest < sure:
            return ""
        return f"a candidate is right with the weight {greatest:.2f}"
    for candidate in candidates:
        if is_enough(candidate, require_tests=require_tests):
            return f"attempt {candidate.attempt} is plausible"
    return ""


def budget_ended(attempts: Sequence[Attempt], models: int) -> bool:
    """Return whether the budget ended the last attempt of each of a number of models."""
    last = attempts[-models:]
    if len(last) < models:
        return False
    return all(attempt.status is AttemptStatus.BUDGET for attempt in last)
