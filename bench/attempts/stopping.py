"""Pure: whether another attempt on an instance is worth making, by what is recorded so far.

``reports/lab`` replays the same rules on recorded runs. No rule sees a verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from bench.attempts.candidates import BROKEN, AttemptStatus, Candidate
from bench.policy import StopOptions, StopRule
from core.money import in_words, known_sum
from core.plaintext import counted

# Attempts that ended so are passed over: they do not say what their models would have left.
_SAYS_NOTHING = BROKEN | {AttemptStatus.BUDGET}


@dataclass(frozen=True)
class Tried:
    """An attempt as the rules see it.

    Attributes:
        equals: the key of its class of equal patches; empty without a patch.
        passed: ids of the valid scripts that it passes; None if none were run.
        failing: the number of tests that newly fail, where that is recorded.
    """

    candidate: Candidate
    model: str
    cost: Decimal | None
    equals: str = ""
    passed: frozenset[str] | None = None
    failing: int | None = None


def is_enough(candidate: Candidate, *, require_tests: bool = False) -> bool:
    """Return whether a candidate ends the work where the first plausible one is predicted."""
    tested = candidate.test is True or not require_tests
    return candidate.plausible and not candidate.edits_test_configuration and tested


def stop_reason(
    tried: Sequence[Tried],
    valid_scripts: frozenset[str] | None,
    options: StopOptions,
    *,
    require_tests: bool = False,
) -> str:
    """Return why no further attempt is to be made, as one sentence; empty to go on.

    The first attempt is always made.

    Args:
        tried: the attempts so far, in their order.
        valid_scripts: ids; None if the run writes no scripts, so that patches alone can agree.
    """
    if not tried:
        return ""
    good = [t for t in tried if is_enough(t.candidate, require_tests=require_tests)]
    reason = ""
    if options.rule is StopRule.PLAUSIBLE and good:
        reason = f"attempt {good[0].candidate.attempt} is plausible"
    elif options.rule is StopRule.VALUE:
        reason = _value(tried, good, options)
    ended = [one for one in tried if one.candidate.status not in _SAYS_NOTHING]
    if not reason and 0 < options.equal_failures <= len(ended):
        return _hopeless(ended[-options.equal_failures :], good, valid_scripts)
    return reason


def _value(tried: Sequence[Tried], good: Sequence[Tried], options: StopOptions) -> str:
    if good:
        return f"attempt {good[0].candidate.attempt} is plausible, and a later one is not chosen"
    past = options.history.after_failures(len(tried)) if options.history else ()
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
        f"attempt {len(tried) + 1} is expected to cost {in_words(cost)}, and its chance to be "
        f"plausible ({plausible} of {len(past)} recorded) is worth {in_words(worth)}"
    )


def _hopeless(last: Sequence[Tried], good: Sequence[Tried], scripts: frozenset[str] | None) -> str:
    for one in last:
        fails_scripts = scripts and one.passed is not None and not one.passed >= scripts
        if one.equals != last[0].equals:
            return ""
        if one in good and not fails_scripts:
            return ""
    what = "the same failing patch" if last[0].equals else "no patch"
    return f"{counted(len(last), 'attempt')} in a row ended with {what}"
