"""Pure: the comparison of two runs by instance, or of any two sets of verdicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from swe_retry.core.money import Dollars, total
from swe_retry.report.statistics.methods import (
    Interval,
    PairedTable,
    Share,
    mcnemar_exact,
    paired_interval,
)
from swe_retry.results.rundata import RunData


@dataclass(frozen=True)
class RunComparison:
    """Two runs on the instances that have a verdict in both.

    Attributes:
        left_out: the number of instances with a verdict in only one run.
        p_value: of McNemar's exact test; None without instances.
        difference: the share of B minus that of A, with Newcombe's interval; it holds 0 where the
            p-value is not below 5 %.
        cost_a, cost_b: dollars of the compared instances; None if a cost is unknown, and for
            verdicts without a run.
        only_a, only_b: the ids of the instances that only this run resolved, sorted.
    """

    a: str
    b: str
    left_out: int
    resolved_a: Share
    resolved_b: Share
    table: PairedTable
    p_value: float | None
    difference: float | None
    interval: Interval | None
    cost_a: Dollars | None
    cost_b: Dollars | None
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]


def compare(a: RunData, b: RunData) -> RunComparison:
    """Compare two runs on the instances that have a verdict in both."""
    verdicts_a = _verdicts(a, b)
    verdicts_b = _verdicts(b, a)
    common = verdicts_a.keys() & verdicts_b.keys()
    comparison = compare_verdicts(a.name, verdicts_a, b.name, verdicts_b)
    return replace(
        comparison,
        cost_a=_cost(a, common),
        cost_b=_cost(b, common),
    )


def compare_verdicts(
    a: str,
    of_a: Mapping[str, bool],
    b: str,
    of_b: Mapping[str, bool],
) -> RunComparison:
    """Compare verdicts by id, such as solved exercises, on the ids that both have."""
    common = sorted(of_a.keys() & of_b.keys())
    pairs = [(of_a[name], of_b[name]) for name in common]
    names = defaultdict(list)
    for name, pair in zip(common, pairs, strict=True):
        names[pair].append(name)
    table = PairedTable.of(pairs)
    p_value = None
    difference = None
    interval = None
    if common:
        p_value = mcnemar_exact(table.only_a, table.only_b)
        difference = table.difference
        interval = paired_interval(pairs, p_value)
    return RunComparison(
        a=a,
        b=b,
        left_out=len(of_a.keys() ^ of_b.keys()),
        resolved_a=Share.compute(table.both + table.only_a, len(common)),
        resolved_b=Share.compute(table.both + table.only_b, len(common)),
        table=table,
        p_value=p_value,
        difference=difference,
        interval=interval,
        cost_a=None,
        cost_b=None,
        only_a=tuple(names[True, False]),
        only_b=tuple(names[False, True]),
    )


def _cost(run: RunData, names: Collection[str]) -> Decimal | None:
    if not names:
        return None
    return total(i.cost for i in run.instances if i.instance_id in names)


def _verdicts(run: RunData, other: RunData) -> dict[str, bool]:
    """Return the verdicts of a run, by id.

    Where no patch for an instance of ``other`` has one, empty predictions do not count either:
    they alone would be compared.
    """
    names = {instance.instance_id for instance in other.instances}
    shared = run.part(i for i in run.instances if i.instance_id in names)
    verdicts = {}
    for instance in run.instances:
        counts = shared.is_evaluated or instance.may_resolve
        if counts and instance.resolved is not None:
            verdicts[instance.instance_id] = instance.resolved
    return verdicts
