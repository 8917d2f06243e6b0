"""Pure: two runs compared, instance by instance."""

from __future__ import annotations

from dataclasses import dataclass

from reports.rundata import RunData
from reports.statistics.intervals import Interval, Share
from reports.statistics.paired import (
    RESAMPLES,
    SEED,
    PairedTable,
    bootstrap_difference,
    mcnemar_exact,
)


@dataclass(frozen=True)
class Comparison:
    """What two runs made of the instances that both have a verdict on.

    Attributes:
        a, b: the runs' names.
        left_out: instances that only one of them has a verdict on.
        resolved_a, resolved_b: of the instances compared.
        p_value: of McNemar's exact test.
        difference: B's share less A's.
        interval: of the difference, by bootstrap; None without instances.
        resamples, seed: of the bootstrap.
        only_a, only_b: ids of the instances that only one of them resolved, sorted.
    """

    a: str
    b: str
    left_out: int
    resolved_a: Share
    resolved_b: Share
    table: PairedTable
    p_value: float
    difference: float
    interval: Interval | None
    resamples: int
    seed: int
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]


def compare(a: RunData, b: RunData) -> Comparison:
    """Return the comparison of two runs on the instances that both have a verdict on."""
    of_a, of_b = _verdicts(a), _verdicts(b)
    common = sorted({*of_a} & {*of_b})
    table = PairedTable.of((of_a[name], of_b[name]) for name in common)
    return Comparison(
        a=a.name,
        b=b.name,
        left_out=len({*of_a} ^ {*of_b}),
        resolved_a=Share.made(table.both + table.only_a, len(common)),
        resolved_b=Share.made(table.both + table.only_b, len(common)),
        table=table,
        p_value=mcnemar_exact(table.only_a, table.only_b),
        difference=table.difference,
        interval=bootstrap_difference(table),
        resamples=RESAMPLES,
        seed=SEED,
        only_a=tuple(name for name in common if of_a[name] and not of_b[name]),
        only_b=tuple(name for name in common if of_b[name] and not of_a[name]),
    )


def _verdicts(run: RunData) -> dict[str, bool]:
    return {i.instance_id: i.resolved for i in run.instances if i.resolved is not None}
