"""Pure: the counts of a run as the lines that ``report.py`` ends with."""

from __future__ import annotations

from collections.abc import Iterator

from reports.markdown import percent, within
from reports.statistics.collect import RunStats
from reports.statistics.effort import Money


def count_lines(stats: RunStats) -> Iterator[str]:
    """Yield the counts in words."""
    counts, scores = stats.counts, stats.scores
    note = "" if stats.official else " (UNOFFICIAL: not evaluated by swebench in its images)"
    score = f"{percent(scores.selected.share)} of the selected"
    between = f", 95 % interval {within(scores.selected.interval)}" if counts.selected else ""
    yield f"selected       {counts.selected:5d}"
    yield f"generated      {counts.generated:5d}"
    yield f"no generation  {counts.no_generation:5d}"
    yield f"plausible      {counts.plausible:5d}"
    yield f"resolved       {counts.resolved:5d}  {score}{between}{note}"
    if scores.evaluated.of < counts.selected:
        of = f"{scores.evaluated.of} evaluated"
        yield f"               {'':5s}  {percent(scores.evaluated.share)} of the {of}"
    if scores.split and scores.split.of != counts.selected:
        of = f"{scores.split.of} of {scores.split_name}"
        yield f"               {'':5s}  {percent(scores.split.share)} of the {of}"
    yield f"unresolved     {counts.unresolved:5d}"
    yield f"not evaluated  {counts.not_evaluated:5d}"
    yield f"cost           {_dollars(stats.effort.dollars)}"


def _dollars(money: Money) -> str:
    if not money.complete:
        return f"unknown, at least ${money.known:.2f}" if money.known else "unknown"
    each = money.per_resolved
    return f"${money.known:.2f}" + ("" if each is None else f", ${each:.2f} per resolved instance")
