"""Pure: the counts of a run as the lines that ``report.py`` ends with."""

from __future__ import annotations

from collections.abc import Iterator

from core.money import UNKNOWN, column, dollars, in_words
from core.plaintext import one_line
from reports.pages.markdown import percent, within
from reports.statistics.collect import RunStats
from reports.statistics.denominators import short_split
from reports.statistics.effort import Money


def count_lines(stats: RunStats) -> Iterator[str]:
    """Yield the counts in words."""
    counts, scores = stats.counts, stats.scores
    yield f"selected       {counts.selected:5d}"
    yield f"generated      {counts.generated:5d}"
    yield f"no generation  {counts.no_generation:5d}"
    if counts.patch_unknown:
        yield f"patch unknown  {counts.patch_unknown:5d}"
    if counts.plausible is None:
        yield "plausible          –  unknown: the other harness does not say"
    else:
        yield f"plausible      {counts.plausible:5d}"
    if scores.selected.share is None:
        yield "resolved           –  not evaluated"
        yield f"cost           {_dollars(stats.effort.dollars)}"
        return
    score = f"{percent(scores.selected.share)} of the selected"
    yield f"resolved       {counts.resolved:5d}  {score}"
    yield f"               {'':5s}  95 % interval {within(scores.selected.interval)}"
    if not stats.official:
        yield f"               {'':5s}  UNOFFICIAL: not evaluated by swebench in its images"
    if scores.evaluated.of < counts.selected:
        of = f"{scores.evaluated.of} evaluated"
        yield f"               {'':5s}  {percent(scores.evaluated.share)} of the {of}"
    if scores.split and scores.split.of != counts.selected:
        of = f"{scores.split.of} of {short_split(scores.split_name)}"
        yield f"               {'':5s}  {percent(scores.split.share)} of the {of}"
    if scores.valid and stats.validity:
        of = f"{scores.valid.of} valid by {one_line(stats.validity.file)}"
        yield f"  of them valid {scores.valid.count:4d}  {percent(scores.valid.share)} of the {of}"
        yield f"               {'':5s}  95 % interval {within(scores.valid.interval)}"
    yield f"unresolved     {counts.unresolved:5d}"
    yield f"not evaluated  {counts.not_evaluated:5d}"
    yield f"cost           {_dollars(stats.effort.dollars)}"


def _dollars(money: Money) -> str:
    if not money.complete:
        return f"unknown, at least {in_words(money.known)}" if money.known else UNKNOWN
    if not money.per_resolved:
        return in_words(money.known)
    whole, each = column([money.known, dollars(money.per_resolved)])
    return f"{whole}, {each} per resolved instance"
