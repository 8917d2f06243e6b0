"""Pure: whether another attempt on an instance is worth making, by what is recorded so far.

``reports/lab`` replays the same rules on recorded runs. No rule sees a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from itertools import combinations, zip_longest

from bench.attempts.candidates import BROKEN, Candidate
from core.errors import UserError
from core.money import in_words
from core.plaintext import counted


class StopRule(str, Enum):
    """When an instance has enough attempts; the value is that of ``--stop``."""

    PLAUSIBLE = "plausible"
    AGREEMENT = "agreement"
    VALUE = "value"
    ALL = "all"


@dataclass(frozen=True)
class Tried:
    """An attempt as the rules see it.

    Attributes:
        equals: the key of its class of equal patches; empty without a patch.
        passed: ids of the valid scripts that it passes; None if none were run.
    """

    candidate: Candidate
    model: str
    cost: Decimal | None
    equals: str = ""
    passed: frozenset[str] | None = None


@dataclass(frozen=True)
class PastAttempts:
    """The n-th attempts of earlier instances that had no plausible one before.

    Attributes:
        dollars: of the ``priced`` ones, whose cost is known.
    """

    made: int = 0
    plausible: int = 0
    priced: int = 0
    dollars: Decimal = Decimal()

    def plus(self, other: PastAttempts, sign: int = 1) -> PastAttempts:
        return PastAttempts(
            self.made + sign * other.made,
            self.plausible + sign * other.plausible,
            self.priced + sign * other.priced,
            self.dollars + sign * other.dollars,
        )


@dataclass(frozen=True)
class History:
    """What earlier attempts say of the next one; the first entry is about first attempts."""

    by_number: tuple[PastAttempts, ...] = ()

    @classmethod
    def of(cls, attempts: Iterable[tuple[bool, Decimal | None]]) -> History:
        """Return what one instance says, by plausibility and cost of its attempts in turn."""
        found = []
        for plausible, cost in attempts:
            known = cost is not None
            found.append(PastAttempts(1, int(plausible), int(known), cost or Decimal()))
            if plausible:
                break
        return cls(tuple(found))

    def plus(self, other: History, sign: int = 1) -> History:
        pairs = zip_longest(self.by_number, other.by_number, fillvalue=PastAttempts())
        return History(tuple(one.plus(two, sign) for one, two in pairs))

    def next_after(self, attempts: int) -> PastAttempts:
        known = attempts < len(self.by_number)
        return self.by_number[attempts] if known else PastAttempts()


@dataclass(frozen=True)
class StopOptions:
    """When to stop.

    Attributes:
        give_up_after: this many attempts in a row in one failing class end the work; 0 for never.
        value_usd: what a further plausible instance is worth; for the rule ``value``.
        history: of earlier runs; for the rule ``value``.
    """

    rule: StopRule = StopRule.PLAUSIBLE
    give_up_after: int = 0
    value_usd: Decimal | None = None
    history: History | None = None

    def __post_init__(self) -> None:
        if self.rule is StopRule.VALUE and (self.value_usd is None or self.history is None):
            raise UserError("--stop value needs --value-usd and --prior-runs; give both")


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
    elif options.rule is StopRule.AGREEMENT:
        reason = _agreement(good, valid_scripts)
    elif options.rule is StopRule.VALUE:
        reason = _value(tried, good, options)
    return reason or _hopeless(tried, good, valid_scripts, options.give_up_after)


def _agreement(good: Sequence[Tried], valid_scripts: frozenset[str] | None) -> str:
    for one, two in combinations((t for t in good if _passes(t, valid_scripts)), 2):
        if one.equals and one.equals == two.equals and one.model != two.model:
            pair = f"attempts {one.candidate.attempt} and {two.candidate.attempt}"
            tested = one.candidate.test is True and two.candidate.test is True
            tests = "no test newly fails" if tested else "no test could speak"
            scripts = "the run writes no scripts"
            if valid_scripts:
                scripts = f"they pass {counted(len(valid_scripts), 'valid script')}"
            return f"{pair}, of different models, agree: {tests}, and {scripts}"
    return ""


def _passes(one: Tried, valid_scripts: frozenset[str] | None) -> bool:
    if valid_scripts is None:
        return True
    # While no script is valid, nothing shows that the patches solve the issue.
    return bool(valid_scripts) and valid_scripts <= (one.passed or frozenset())


def _value(tried: Sequence[Tried], good: Sequence[Tried], options: StopOptions) -> str:
    if good:
        return f"attempt {good[0].candidate.attempt} is plausible, and a later one is not chosen"
    past = (options.history or History()).next_after(len(tried))
    if not past.made or not past.priced or options.value_usd is None:
        return ""  # nothing is known of such an attempt
    # Laplace's rule of succession: a short history does not say never.
    chance = Decimal(past.plausible + 1) / (past.made + 2)
    cost, worth = past.dollars / past.priced, chance * options.value_usd
    if worth >= cost:
        return ""
    return (
        f"attempt {len(tried) + 1} is expected to cost {in_words(cost)}, and its chance to be "
        f"plausible ({past.plausible} of {past.made} recorded) is worth {in_words(worth)}"
    )


def _hopeless(
    tried: Sequence[Tried],
    good: Sequence[Tried],
    valid_scripts: frozenset[str] | None,
    limit: int,
) -> str:
    last = tried[-limit:] if limit else ()
    if not last or len(last) < limit:
        return ""
    for one in last:
        fails_scripts = valid_scripts and one.passed is not None and not one.passed >= valid_scripts
        if one.candidate.status in BROKEN or one.equals != last[0].equals:
            return ""  # a broken attempt says nothing about its model
        if one in good and not fails_scripts:
            return ""
    what = "the same failing patch" if last[0].equals else "no patch"
    return f"{counted(limit, 'attempt')} in a row ended with {what}"
