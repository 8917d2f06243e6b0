"""Pure: what each further attempt buys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from reports.exact import Dollars
from reports.rundata import InstanceData, RunData
from reports.statistics.intervals import Share


@dataclass(frozen=True)
class Bought:
    """A run, had it ended after so many attempts.

    Attributes:
        attempts: at most so many on each instance.
        resolved: instances resolved by a prediction of these attempts, of the selected ones. A
            lower bound: an instance that a later attempt was chosen for counts as not resolved,
            though the best of these attempts might be.
        dollars: of these attempts; None when one of them is unknown.
        further_resolved: by the last of these attempts alone.
        further_dollars: likewise; None when unknown.
        dollars_per_further: for each further resolved instance; None without any, or when unknown.
    """

    attempts: int
    resolved: Share
    dollars: Dollars | None
    further_resolved: int
    further_dollars: Dollars | None
    dollars_per_further: float | None


def bought(run: RunData) -> tuple[Bought, ...]:
    """Return a run's resolved instances and dollars after 1, 2, … attempts."""
    spent: Decimal | None = Decimal()
    found, rows = 0, []
    for number in sorted({a.attempt for i in run.instances for a in i.attempts}):
        further = sum(i.resolved is True and i.attempt == number for i in run.instances)
        dollars = _dollars(run.instances, number)
        found += further
        spent = None if spent is None or dollars is None else spent + dollars
        each = float(dollars) / further if further and dollars is not None else None
        share = Share.made(found, len(run.selected))
        rows.append(Bought(number, share, spent, further, dollars, each))
    return tuple(rows)


def _dollars(instances: Iterable[InstanceData], number: int) -> Decimal | None:
    costs = [a.cost for i in instances for a in i.attempts if a.attempt == number]
    known = [cost for cost in costs if cost is not None]
    return sum(known, Decimal()) if len(known) == len(costs) else None
