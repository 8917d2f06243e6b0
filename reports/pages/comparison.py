"""Pure: the content of the page of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from urllib.parse import quote

from core.money import column, in_words
from reports.data.provenance import Groups, NamedValues, provenance
from reports.data.rundata import InstanceData, RunData
from reports.pages.markdown import (
    NOT_EVALUATED,
    of,
    p_value,
    paired_table,
    percent,
    points,
    within,
)
from reports.pages.overview import NO_PREDICTION, Table, VerdictMark, verdict_mark
from reports.statistics.collect import RunStats
from reports.statistics.comparing import RunComparison


class Agreement(str, Enum):
    """Whether runs have the same verdict on an instance, in the order of the table."""

    DIFFER = "differ"
    INCOMPLETE = "a verdict is missing"
    SAME = "same"


@dataclass(frozen=True)
class Compared:
    """One of the compared runs, under the name that the comparisons use, and its own page."""

    run: RunData
    stats: RunStats
    page: str = ""

    @property
    def score(self) -> str:
        return percent(self.stats.scores.selected.share)

    @property
    def reach(self) -> str:
        """The denominator and the interval of the score."""
        share = self.stats.scores.selected
        if share.share is None:
            return NOT_EVALUATED
        unofficial = "" if self.stats.official else "; unofficial"
        valid = self.stats.scores.valid
        more = f"; of the {valid.of} valid {percent(valid.share)}" if valid else ""
        reach = f"{share.count} of {share.of} selected; 95 %: {within(share.interval)}"
        return f"{reach}{more}{unofficial}"

    @property
    def cost(self) -> str:
        money = self.stats.effort.dollars
        return f"cost {'' if money.complete else 'at least '}{in_words(money.known)}"

    @property
    def provenance(self) -> Groups:
        return provenance(self.run)


@dataclass(frozen=True)
class Cell:
    verdict: VerdictMark
    link: str


@dataclass(frozen=True)
class ComparisonRow:
    instance_id: str
    repo: str
    agreement: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class ComparisonView:
    """The whole page; rows whose verdicts differ come first."""

    runs: tuple[Compared, ...]
    pairs: tuple[tuple[Table, NamedValues], ...]  # each pair's table, with facts
    rows: tuple[ComparisonRow, ...]

    @property
    def title(self) -> str:
        *first, last = (each.run.name for each in self.runs)
        return f"{', '.join(first)} and {last}"


def comparison_view(
    runs: Sequence[Compared], comparisons: Sequence[RunComparison]
) -> ComparisonView:
    """Return the content of the page for two or more ``runs``, each compared with each other."""
    known = [{i.instance_id: i for i in each.run.instances} for each in runs]
    names = {name for each in runs for name in each.run.selected}.union(*known)
    rows = [_row(name, runs, [one.get(name) for one in known]) for name in names]
    places = {agreement.value: place for place, agreement in enumerate(Agreement)}
    rows.sort(key=lambda row: (places[row.agreement], row.instance_id))
    pairs = tuple(
        (Table(f"{found.a} and {found.b}", *paired_table(found)), tuple(_facts(found)))
        for found in comparisons
    )
    return ComparisonView(tuple(runs), pairs, tuple(rows))


def _facts(found: RunComparison) -> Iterator[tuple[str, str]]:
    yield f"resolved by {found.a}", of(found.resolved_a)
    yield f"resolved by {found.b}", of(found.resolved_b)
    if found.interval and found.difference is not None:
        yield "difference", f"{100 * found.difference:+.1f} percentage points"
        drawn = f"{found.resamples:,} resamples, seed {found.seed}"
        yield "95 % bootstrap interval", f"{points(found.interval)} points ({drawn})"
    yield "McNemar's exact test", p_value(found)
    if found.table.instances:
        costs = column([found.cost_a, found.cost_b])
        yield f"cost of {found.a}, instances compared", costs[0]
        yield f"cost of {found.b}, instances compared", costs[1]
    yield "left out: a verdict in only one run", str(found.left_out)


def _row(
    name: str, runs: Sequence[Compared], found: Sequence[InstanceData | None]
) -> ComparisonRow:
    cells = []
    for each, one in zip(runs, found, strict=True):
        link = f"{each.page}#{quote(name, safe='')}" if one and each.page else ""
        cells.append(Cell(verdict_mark(one) if one else NO_PREDICTION, link))
    verdicts = {None if one is None else one.resolved for one in found}
    agreement = Agreement.INCOMPLETE if None in verdicts else Agreement.SAME
    if {True, False} <= verdicts:
        agreement = Agreement.DIFFER
    repo = next((one.repo for one in found if one is not None), "")
    return ComparisonRow(name, repo, agreement.value, tuple(cells))
