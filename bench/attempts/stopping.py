"""Pure: whether another attempt on an instance is worth making, by what is recorded so far.

``reports/lab`` replays the same rules on recorded runs. No rule sees a verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.attempts.candidates import Candidate
from bench.policy import StopOptions, StopRule
from core.money import in_words, known_sum


def is_enough(candidate: Candidate, *, require_tests: bool = False) -> bool:
    """Return whether a candidate ends the work where the first plausible one is predicted."""
    tested = candidate.test is True or not require_tests
    return candidate.plausible and not candidate.edits_test_configuration and tested


def stop_reason(
    candidates: Sequence[Candidate], options: StopOptions, *, require_tests: bool = False
) -> str:
    """Return why no further attempt is to be made, as one sentence; empty to go on.

    The first attempt is always made.
    """
    if not candidates or options.rule is StopRule.ALL:
        return ""
    for candidate in candidates:
        if is_enough(candidate, require_tests=require_tests):
            return f"attempt {candidate.attempt} is plausible"
    if options.rule is StopRule.VALUE:
        return _value(len(candidates), options)
    return ""


def _value(attempts: int, options: StopOptions) -> str:
    past = options.history.after_failures(attempts) if options.history else ()
    priced = [cost for _, cost in past if cost is not None]
    if not priced or options.value_usd is None:
        return ""  # nothing is known of such an attempt
    plausible = sum(plausible for plausible, _ in past)
    # Laplace's rule of succession: a short history does not say never.
    worth = options.value_usd * (plausible + 1) / (len(past) + 2)
    cost = known_sum(priced) / len(priced)
    if worth >= cost:
        return ""
    return (
        f"attempt {attempts + 1} is expected to cost {in_words(cost)}, and its chance to be "
        f"plausible ({plausible} of {len(past)} recorded) is worth {in_words(worth)}"
    )
