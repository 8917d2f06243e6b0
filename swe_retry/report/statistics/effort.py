"""Pure: what a run took: calls, tokens, seconds and dollars."""

# ruff: noqa: RUF009 - the fields of statistics are made by functions
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from swe_retry.core.money import Dollars, known_sum
from swe_retry.record.records import Attempt
from swe_retry.report.statistics.fields import Statistic, statistic
from swe_retry.report.statistics.methods import Share, ratio
from swe_retry.results.rundata import RunData


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
    """An ``Amount`` of dollars; the sum is exact.

    Attributes:
        at_most: with calls that were lost or broke off, and may have been billed.
    """

    known: Dollars
    at_most: Dollars | None
    complete: bool
    per_instance: float | None
    per_resolved: float | None


def sum_over(
    values_of: Callable[[Attempt], Iterable[float | None]],
    heading: str = "",
) -> Statistic:
    """Return a statistic: the sum of values over all attempts."""

    def amount(run: RunData) -> Amount:
        total: float = 0
        complete = True
        for attempt in run.attempts:
            for value in values_of(attempt):
                if value is None:
                    complete = False
                else:
                    total += value
        return Amount(total, complete, *_per(run, total, complete))

    return statistic(amount, heading)


def _per(
    run: RunData, amount: float, complete: bool
) -> tuple[float | None, float | None]:
    """Return an amount per instance and per resolved instance; None if it is incomplete."""
    if not complete:
        return None, None
    return ratio(amount, len(run.instances)), ratio(amount, run.resolved_count)


def _dollars(run: RunData) -> Money:
    dollars = known_sum(run.costs)
    complete = run.cost is not None
    ratios = _per(run, float(dollars), complete)
    return Money(dollars, run.cost_at_most, complete, *ratios)


def _edit_errors(run: RunData) -> Share:
    outcomes = Counter(attempt.edit_outcome for attempt in run.attempts)
    return Share.compute(outcomes[False], outcomes[False] + outcomes[True])


def _tokens(name: str, attempt: Attempt) -> Iterator[float | None]:
    """Yield the tokens of each call; None for calls and attempts without this information."""
    if attempt.totals is not None:
        yield getattr(attempt.totals, name)
        return
    if attempt.edit_format is None:
        yield None
    for call in attempt.calls or ():
        yield getattr(call.usage, name, None)


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

    attempts: Amount = sum_over(lambda attempt: [1.0])
    edit_errors: Share = statistic(_edit_errors, "attempts with an edit error")
    reflections: Amount = sum_over(lambda attempt: [attempt.reflections])
    calls: Amount = sum_over(lambda attempt: [attempt.sums.calls])
    prompt_tokens: Amount = sum_over(partial(_tokens, "prompt_tokens"))
    cached_tokens: Amount = sum_over(
        partial(_tokens, "cached_tokens"), "of them cached"
    )
    completion_tokens: Amount = sum_over(partial(_tokens, "completion_tokens"))
    dollars: Money = statistic(_dollars)
    seconds: Amount = sum_over(lambda attempt: [attempt.seconds])
