"""Pure: the score and cost of a run after each attempt number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from bench.attempts.candidates import choose
from core.money import Dollars, total
from reports.data.jsonvalues import mapping
from reports.data.rundata import InstanceData, RunData
from reports.statistics.methods.intervals import Share


@dataclass(frozen=True)
class Bought:
    """A run limited to a number of attempts per instance.

    Attributes:
        attempts: the limit.
        resolved: selected instances resolved by the harness's choice among these attempts, whose
            patches are assumed to apply.
        lower_bound: whether a choice has no verdict; it counts as not resolved.
        dollars: of these attempts; None if a cost is unknown.
        further_resolved: the difference to the limit before; negative if the last attempt is chosen
            and is worse.
        further_dollars: the cost of the last attempts; None if unknown.
        dollars_per_further: per further resolved instance; None without any, or if unknown.
    """

    attempts: int
    resolved: Share
    lower_bound: bool
    dollars: Dollars | None
    further_resolved: int
    further_dollars: Dollars | None
    dollars_per_further: float | None


def bought(run: RunData) -> tuple[Bought, ...]:
    """Return a run's resolved instances and dollars with at most 1, 2, … attempts per instance."""
    spent: Decimal | None = Decimal()
    before, rows = 0, []
    tested = bool(mapping(run.described.get("config")).get("require_tests"))
    for number in sorted({a.attempt for i in run.instances for a in i.attempts}):
        verdicts = [_resolved_after(i, number, require_tests=tested) for i in run.instances]
        found = verdicts.count(True)
        further, before = found - before, found
        dollars = _dollars(run.instances, number)
        spent = None if spent is None or dollars is None else spent + dollars
        each = float(dollars) / further if further > 0 and dollars is not None else None
        share = Share.made(found, len(run.selected), known=run.evaluated)
        rows.append(Bought(number, share, None in verdicts, spent, further, dollars, each))
    return tuple(rows)


def _resolved_after(instance: InstanceData, number: int, *, require_tests: bool) -> bool | None:
    """Return whether the choice among the first ``number`` attempts resolves an instance."""
    if instance.winner is None or instance.attempt <= number:
        # The best of all attempts is also the best of any subset that holds it.
        return instance.resolved
    attempts = {a.attempt: a for a in instance.attempts if a.attempt <= number}
    choice = choose([a.candidate for a in attempts.values()], require_tests=require_tests)
    return instance.resolved_by(attempts[choice.winner.attempt]) if choice.winner else False


def _dollars(instances: Iterable[InstanceData], number: int) -> Decimal | None:
    costs = [a.cost for i in instances for a in i.attempts if a.attempt == number]
    return total(costs)
