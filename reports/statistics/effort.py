"""Pure: the effort of a run, in all, per instance and per resolved instance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from core.money import Dollars
from reports.data.rundata import AttemptData, RunData
from reports.statistics.methods.intervals import Share


@dataclass(frozen=True)
class Amount:
    """A sum over a run.

    Attributes:
        known: the sum of the known values.
        complete: whether all values are known.
        per_instance: the sum per predicted instance; None if incomplete or without instances.
        per_resolved: the sum per resolved instance; None if incomplete or without any.
    """

    known: float
    complete: bool
    per_instance: float | None
    per_resolved: float | None


@dataclass(frozen=True)
class Money:
    """An ``Amount`` of dollars; the sum is exact."""

    known: Dollars
    complete: bool
    per_instance: float | None
    per_resolved: float | None


@dataclass(frozen=True)
class Effort:
    """The effort of a run.

    Attributes:
        attempts: number of all attempts.
        edit_errors: attempts with a failed edit, of those whose edit outcome is known.
        dollars: of the whole run, from its ledger, else its predictions.
        seconds: sum of the wall-clock times of all attempts.
        prompt_tokens: including cached ones.
    """

    attempts: Amount
    edit_errors: Share
    reflections: Amount
    calls: Amount
    prompt_tokens: Amount
    cached_tokens: Amount
    completion_tokens: Amount
    dollars: Money
    seconds: Amount


@dataclass(frozen=True)
class _Divisors:
    instances: int
    resolved: int

    def amount(self, values: Iterable[float | None]) -> Amount:
        every = list(values)
        known = [value for value in every if value is not None]
        complete = len(known) == len(every)
        total = sum(known)
        return Amount(total, complete, *self._each(total if complete else None))

    def money(self, known: Decimal, *, complete: bool) -> Money:
        return Money(known, complete, *self._each(float(known) if complete else None))

    def _each(self, total: float | None) -> tuple[float | None, float | None]:
        if total is None:
            return None, None
        per_instance = total / self.instances if self.instances else None
        return per_instance, total / self.resolved if self.resolved else None


def effort(run: RunData) -> Effort:
    """Return the effort of ``run``."""
    attempts = [attempt for instance in run.instances for attempt in instance.attempts]
    per = _Divisors(len(run.instances), sum(i.resolved is True for i in run.instances))
    outcomes = [attempt.edit for attempt in attempts if attempt.edit is not None]
    return Effort(
        attempts=per.amount([float(len(attempts))]),
        edit_errors=Share.made(outcomes.count(False), len(outcomes)),
        reflections=per.amount(attempt.reflections for attempt in attempts),
        calls=per.amount(
            a.totals.calls if a.totals else None if a.edit_format is None else len(a.calls)
            for a in attempts
        ),
        prompt_tokens=per.amount(_tokens(attempts, "prompt_tokens")),
        cached_tokens=per.amount(_tokens(attempts, "cached_tokens")),
        completion_tokens=per.amount(_tokens(attempts, "completion_tokens")),
        dollars=per.money(run.known_cost, complete=run.cost is not None),
        seconds=per.amount(attempt.seconds for attempt in attempts),
    )


def _tokens(attempts: Iterable[AttemptData], name: str) -> Iterator[float | None]:
    """Yield the tokens of each call; None for calls and attempts without this information."""
    for attempt in attempts:
        if attempt.totals is not None:
            yield getattr(attempt.totals, name)
            continue
        if attempt.edit_format is None:
            yield None
        for call in attempt.calls:
            yield None if call.usage is None else getattr(call.usage, name)
