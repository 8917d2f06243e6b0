"""Pure: whether another attempt on an instance is worth making, by what is recorded so far.

``reports/lab`` replays the same rule on recorded runs. It sees no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.policy import StopRule
from runs.records import Attempt


def is_enough(candidate: Attempt, *, require_tests: bool = False) -> bool:
    """Return whether a candidate ends the work where the first plausible one is predicted."""
    tested = candidate.test_outcome is True or not require_tests
    return candidate.plausible and not candidate.edits_test_configuration and tested


def stop_reason(
    candidates: Sequence[Attempt], rule: StopRule, *, require_tests: bool = False
) -> str:
    """Return why no further attempt is to be made, as one sentence; empty to go on."""
    if rule is StopRule.ALL:
        return ""
    for candidate in candidates:
        if is_enough(candidate, require_tests=require_tests):
            return f"attempt {candidate.attempt} is plausible"
    return ""
