"""Pure: the comparison of two runs by instance, or of any two sets of verdicts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from core.money import Dollars, total
from reports.data.rundata import RunData
from reports.statistics.methods import (
    RESAMPLES,
    SEED,
    Interval,
    PairedTable,
    Share,
    bootstrap_difference,
    mcnemar_exact,
)


@dataclass(frozen=True)
class RunComparison:
    """Two runs on the instances that have a verdict in both."""

    a: str
    b: str
    left_out: int  # number of instances with a verdict in only one run
    resolved_a: Share
    resolved_b: Share
    table: PairedTable
    p_value: float | None  # of McNemar's exact test; None without instances
    difference: (
        float | None
    )  # the share of B minus that of A, with its interval by bootstrap
    interval: Interval | None
    # Dollars of the compared instances; None if a cost is unknown, and for verdicts without a run.
    cost_a: Dollars | None
    cost_b: Dollars | None
    resamples: int
    seed: int
    # Ids of the instances that only this run resolved, sorted.
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]


def compare(a: RunData, b: RunData) -> RunComparison:
    """Compare two runs on the instances that have a verdict in both."""
    of_a, of_b = _verdicts(a), _verdicts(b)
    common = {*of_a} & {*of_b}
    found = compare_verdicts(a.name, of_a, b.name, of_b)
    return replace(found, cost_a=_cost(a, common), cost_b=_cost(b, common))


def compare_verdicts(
    a: str, of_a: Mapping[str, bool], b: str, of_b: Mapping[str, bool]
) -> RunComparison:
    """Compare verdicts by id, such as solved exercises, on the ids that both have."""
    common = sorted({*of_a} & {*of_b})
    table = PairedTable.of((of_a[name], of_b[name]) for name in common)
    return RunComparison(
        a=a,
        b=b,
        left_out=len({*of_a} ^ {*of_b}),
        resolved_a=Share.made(table.both + table.only_a, len(common)),
        resolved_b=Share.made(table.both + table.only_b, len(common)),
        table=table,
        p_value=mcnemar_exact(table.only_a, table.only_b) if common else None,
        difference=table.difference if common else None,
        interval=bootstrap_difference(table),
        cost_a=None,
        cost_b=None,
        resamples=RESAMPLES,
        seed=SEED,
        only_a=tuple(name for name in common if of_a[name] and not of_b[name]),
        only_b=tuple(name for name in common if of_b[name] and not of_a[name]),
    )


def _cost(run: RunData, common: Collection[str]) -> Decimal | None:
    return (
        total(i.cost for i in run.instances if i.instance_id in common)
        if common
        else None
    )


def _verdicts(run: RunData) -> dict[str, bool]:
    return {i.instance_id: i.resolved for i in run.instances if i.resolved is not None}
