"""Pure: what the page of a comparison shows beside the runs and their statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.jsontypes import JsonObject
from core.money import column
from reports.data.rundata import RunData
from reports.pages.markdown import p_value
from reports.statistics.collect import RunStats
from reports.statistics.comparing import RunComparison
from reports.texts import of, points

_DIFFER = "differ"
_INCOMPLETE = "a verdict is missing"
_SAME = "same"
_ORDER = (_DIFFER, _INCOMPLETE, _SAME)


@dataclass(frozen=True)
class Compared:
    """One of the compared runs, under the name that the comparisons use, and its own page."""

    run: RunData
    stats: RunStats
    page: str = ""


def agreement_rows(runs: Sequence[Compared]) -> list[JsonObject]:
    """Return a row for each instance of any run; those whose verdicts differ come first."""
    names: set[str] = set()
    predicted = []
    for compared in runs:
        names.update(compared.run.selected)
        predicted.append({i.instance_id: i for i in compared.run.instances})
    rows = []
    for name in sorted(names):
        instances = [by_id.get(name) for by_id in predicted]
        present = list(filter(None, instances))
        verdicts = {instance.resolved for instance in present}
        agreement = _SAME
        if {True, False} <= verdicts:
            agreement = _DIFFER
        elif None in verdicts or len(present) < len(runs):
            agreement = _INCOMPLETE
        row = {
            "instance_id": name,
            "repo": present[0].repo if present else "",
            "agreement": agreement,
            "instances": instances,
        }
        rows.append(row)
    return sorted(rows, key=lambda row: _ORDER.index(row["agreement"]))


def comparison_facts(comparison: RunComparison) -> Iterator[tuple[str, str]]:
    a = comparison.a
    b = comparison.b
    yield f"resolved by {a}", of(comparison.resolved_a)
    yield f"resolved by {b}", of(comparison.resolved_b)
    if comparison.interval and comparison.difference is not None:
        yield "difference", f"{100 * comparison.difference:+.1f} percentage points"
        interval = f"{points(comparison.interval)} points (Newcombe, paired)"
        yield "95 % interval", interval
    yield "McNemar's exact test", p_value(comparison)
    if comparison.table.instances:
        cost_a, cost_b = column([comparison.cost_a, comparison.cost_b])
        yield f"cost of {a}, instances compared", cost_a
        yield f"cost of {b}, instances compared", cost_b
    yield "left out: a verdict in only one run", str(comparison.left_out)
