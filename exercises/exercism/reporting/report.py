"""What ``report`` says of columns: one value, its tables and matrix, and the chart of July 2023.

The chart has one group of bars per model, one bar per edit format. A bar is the share of exercises
solved after all tries, the line in it the share after the first. A bar of several repeats is their
mean, with their least and greatest as whiskers. Each mark has an id in the SVG (``bar-1-2``: of the
second bar of the first model), so that it can be read back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from core.money import column as column_of_dollars
from core.money import in_words
from core.plaintext import some, table
from exercises.exercism.reporting.columns import (
    Column,
    ColumnPair,
    ColumnSummary,
    RankedExercise,
    RepeatSpread,
    by_language,
    column_pairs,
    ranking,
    series_of,
    spreads,
    summary,
)
from exercises.exercism.reporting.records import Record
from exercises.reporting import csv_text
from reports.data.jsonvalues import dollars, integer, number
from reports.pages.markdown import NONE, of, percent, points, within
from reports.statistics.methods import Share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from reports.plots.style import Theme

_OPEN = "not completed"


@dataclass(frozen=True)
class ExercismReport:
    columns: tuple[ColumnSummary, ...]
    repeats: tuple[RepeatSpread, ...]
    pairs: tuple[ColumnPair, ...]
    languages: Mapping[str, Mapping[str, Share]]
    ranking: tuple[RankedExercise, ...]
    open: Mapping[str, tuple[str, ...]]
    published: tuple[Record, ...] = ()

    def as_json(self) -> Any:  # noqa: ANN401 - any JSON value
        """Return the report as a value of JSON; dates of records become texts."""
        return TypeAdapter(ExercismReport).dump_python(self, mode="json")


def report_of(
    columns: Sequence[Column], published: Sequence[Record] = ()
) -> ExercismReport:
    return ExercismReport(
        columns=tuple(map(summary, columns)),
        repeats=spreads(columns),
        pairs=column_pairs(columns),
        languages=by_language(columns),
        ranking=ranking(columns),
        open={column.label: column.open for column in columns if column.open},
        published=tuple(published),
    )


def report_lines(report: ExercismReport, width: int | None = None) -> Iterator[str]:
    """Yield the tables of a report as text, at most so wide where their columns allow it."""
    lay = partial(table, width=width)
    head, rows = column_rows(report)
    yield from lay(head, rows, numbers=range(1, len(head)))
    if report.published:
        yield "* published by others, as their file says; not recomputed"
    for name, keys in report.open.items():
        yield f"{_OPEN}: {name}: {len(keys)}: {some(keys, 5)}"
    if report.repeats:
        rows = [
            [
                one.label,
                one.tries,
                len(one.shares),
                *map(percent, (one.mean, one.least, one.greatest)),
            ]
            for one in report.repeats
        ]
        head = ("repeats of", "tries", "repeats", "mean", "minimum", "maximum")
        yield from ("", *lay(head, rows, numbers=range(1, 6)))
    names = sorted({name for found in report.languages.values() for name in found})
    if len(names) > 1:
        rows = [
            [column, *(of(found[name]) if name in found else NONE for name in names)]
            for column, found in report.languages.items()
        ]
        yield from ("", *lay(("solved by language", *names), rows, numbers=range(1, 9)))
    if report.pairs:
        rows = []
        for pair in report.pairs:
            cells = [NONE, NONE, NONE]
            around = pair.interval
            if (
                pair.difference is not None
                and around is not None
                and pair.p_value is not None
            ):
                difference = f"{100 * pair.difference:+.1f}"
                cells = [difference, points(around), f"{pair.p_value:.4g}"]
            rows.append(
                [f"{pair.a}, {pair.b}", pair.table.only_a, pair.table.only_b, *cells]
            )
        head = ("A, B", "only A", "only B", "B less A", "95 % interval", "McNemar p")
        yield from ("", *lay(head, rows, numbers=range(1, 6)))
    if len(report.columns) > 1:
        ranked = [
            (one.exercise, f"{one.solved} of {one.completed}") for one in report.ranking
        ]
        yield from ("", *lay(("exercise", "solved by"), ranked, numbers=(1,)))


def column_rows(report: ExercismReport) -> tuple[tuple[str, ...], list[list[object]]]:
    tries = max((len(one.solved) for one in report.columns), default=0)
    costs = column_of_dollars([one.dollars for one in report.columns])
    each = column_of_dollars([one.dollars_per_solved for one in report.columns])
    rows = [
        _row(one, tries, costs[place], each[place])
        for place, one in enumerate(report.columns)
    ]
    rows += [_published_row(record, tries) for record in report.published]
    numbered = [h for n in range(1, tries + 1) for h in (f"try {n}", "95 % interval")]
    head = (
        "column",
        "completed",
        *numbered,
        "well-formed",
        "tokens in",
        "tokens out",
        "dollars",
        "seconds each",
        "per solved",
    )
    return head, rows


def _row(one: ColumnSummary, tries: int, cost: str, each: str) -> list[object]:
    solved = []
    for share in one.solved:
        solved += [
            percent(share.share),
            NONE if share.interval is None else within(share.interval),
        ]
    return [
        one.label,
        f"{one.completed} of {one.selected}",
        *solved,
        *[NONE] * (2 * tries - len(solved)),
        percent(one.well_formed.share),
        f"{one.sums['prompt_tokens']:,}",
        f"{one.sums['completion_tokens']:,}",
        cost,
        _seconds(one.seconds_each),
        NONE if one.dollars_per_solved is None else each,
    ]


def _published_row(record: Record, tries: int) -> list[object]:
    cells: list[object] = [f"{record['model']}@{record.get('edit_format', NONE)}*"]
    cases = integer(record.get("test_cases"))
    cells.append(NONE if cases is None else cases)
    for place in range(1, tries + 1):
        solved = integer(record.get(f"pass_num_{place}"))
        known = cases and solved is not None and solved <= cases
        reach = within(Share.made(solved or 0, cases or 0).interval) if known else NONE
        cells += [_plain_percent(record.get(f"pass_rate_{place}")), reach]
    cells.append(_plain_percent(record.get("percent_cases_well_formed")))
    for key in ("prompt_tokens", "completion_tokens"):
        tokens = integer(record.get(key))
        cells.append(NONE if tokens is None else f"{tokens:,}")
    cost = dollars(record.get("total_cost"))
    seconds = _seconds(number(record.get("seconds_per_case")))
    return [*cells, in_words(cost) if cost else NONE, seconds, NONE]


def _seconds(each: float | None) -> str:
    return NONE if each is None else f"{each:,.1f}"


def _plain_percent(value: object) -> str:
    rate = number(value)
    return NONE if rate is None else f"{rate:.1f} %"


def matrix_csv(columns: Sequence[Column]) -> str:
    """Return exercise × column as CSV: status, with the try that solved it."""
    keys = dict.fromkeys(key for column in columns for key in column.facts.exercises)
    rows = ([key, *(cell(column, key) for column in columns)] for key in keys)
    return csv_text(["exercise", *(column.label for column in columns)], rows)


def cell(column: Column, key: str) -> str:
    """Return how an exercise ended in a column; empty where the run has no such exercise."""
    result = column.results.get(key)
    if result is None:
        return _OPEN if key in column.open else ""
    return result.status.value + (f" {result.solved_at}" if result.solved_at else "")


# Blue and green are those of the chart of 2023; darker ones let its white line stand out.
_COLOURS = {
    "light": {"whole": "#b3d1e6", "diff": "#b3e6a8", "": "#e6d2b3"},
    "dark": {"whole": "#2f6690", "diff": "#3a7d44", "": "#8a6d3b"},
}
_WIDTH, _GAP, _INCHES = 0.8, 0.6, 0.42


@dataclass(frozen=True)
class ChartBar:
    """One model in one edit format; all shares are in per cent.

    Attributes:
        last: after all tries, one for each repeat; not empty.
        first: after the first try; empty if unknown.
        published: a record of others, which is marked.
    """

    model: str
    edit_format: str
    last: tuple[float, ...]
    first: tuple[float, ...] = ()
    published: bool = False

    @property
    def height(self) -> float:
        return sum(self.last) / len(self.last)


def chart_words(bars: Sequence[ChartBar]) -> str:
    return "; ".join(
        f"{bar.model} {bar.edit_format}: {bar.height:.1f} %"
        + ("*" if bar.published else "")
        for bar in bars
    )


def draw_chart(bars: Sequence[ChartBar], theme: Theme) -> Figure:
    """Draw the chart; models and their bars come in the order in which they first appear."""
    from matplotlib.figure import Figure

    from reports.plots.style import label

    by_model: dict[str, list[ChartBar]] = {}
    for bar in bars:
        by_model.setdefault(bar.model, []).append(bar)
    groups, places, start = [*by_model.values()], list[list[float]](), 0.0
    for group in groups:
        places.append([start + step for step in range(len(group))])
        start += len(group) + _GAP
    width = max(6.4, 1.2 + _INCHES * (len(bars) + _GAP * len(groups)))
    figure = Figure(figsize=(width, 5.4), layout="constrained")
    axes = figure.add_subplot()
    # A name is longer than its bars unless it is turned.
    turned = any(len(group[0].model) > 8 * len(group) for group in groups)
    axes.set_xticks(
        [(xs[0] + xs[-1]) / 2 for xs in places],
        [label(group[0].model) for group in groups],
        rotation=45 if turned else 0,
        ha="right" if turned else "center",
    )
    axes.tick_params(axis="x", length=0)
    axes.margins(x=0.3 / places[-1][-1] if places[-1][-1] else 0.5)
    axes.spines["left"].set_color(theme.faint)
    for row, (group, xs) in enumerate(zip(groups, places, strict=True), 1):
        for place, (bar, x) in enumerate(zip(group, xs, strict=True), 1):
            _draw_bar(axes, bar, x, f"{row}-{place}", theme)
    axes.set_ylim(0, 100)
    axes.set_ylabel("Percent of exercises completed successfully")
    axes.grid(visible=True, axis="y")
    axes.set_axisbelow(True)
    _legend(figure, bars, theme)
    return figure


def _draw_bar(axes: Axes, bar: ChartBar, x: float, place: str, theme: Theme) -> None:
    height = bar.height
    (drawn,) = axes.bar([x], [height], width=_WIDTH, **_look(bar.edit_format, theme))
    drawn.set_gid(f"bar-{place}")
    if bar.published:
        drawn.set_linestyle("--")
    if bar.first:
        mean = sum(bar.first) / len(bar.first)
        half = _WIDTH / 2
        (mark,) = axes.plot(
            [x - half, x + half], [mean, mean], color=theme.paper, linewidth=1.6
        )
        mark.set_gid(f"first-{place}")
    if len(bar.last) > 1:
        low, high = min(bar.last), max(bar.last)
        (whisker,) = axes.plot(
            [x, x], [low, high], color=theme.ink, marker="_", linewidth=1.0
        )
        whisker.set_gid(f"whisker-{place}")
    axes.annotate(
        f"{height:.0f}%" + "*" * bar.published,
        (x, max(height, *bar.last)),
        (0, 3),
        textcoords="offset points",
        ha="center",
        fontsize=7,
    )


def _look(edit_format: str, theme: Theme) -> dict[str, Any]:
    """Return colour and hatch of a format, as in 2023: by ``whole``, ``diff`` and ``-func``."""
    colours = _COLOURS[theme.name]
    kind = next(
        (kind for kind in ("whole", "diff") if edit_format.startswith(kind)), ""
    )
    hatch = "////" if edit_format.endswith("-func") else ""
    hatch = {"diff-fenced": "....", "patch": "xxxx"}.get(edit_format, hatch)
    return {"facecolor": colours[kind], "hatch": hatch, "edgecolor": theme.ink}


def _legend(figure: Figure, bars: Sequence[ChartBar], theme: Theme) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    from reports.plots.style import label

    names = dict.fromkeys(bar.edit_format for bar in bars)
    handles: list[Patch | Line2D] = [
        Patch(**_look(name, theme), label=label(name)) for name in names
    ]
    if any(bar.first for bar in bars):
        handles.append(
            Line2D(
                [], [], color=theme.faint, linewidth=1.6, label="after the first try"
            )
        )
    if any(bar.published for bar in bars):
        handles.append(Line2D([], [], linestyle="", label="* published by others"))
    # Outside: the layout makes room for as many rows as it needs.
    columns = max(4, int(figure.get_figwidth() / 1.5))
    figure.legend(handles=handles, ncols=columns, loc="outside upper left")


def chart_bars(
    columns: Sequence[Column], published: Sequence[Record] = ()
) -> list[ChartBar]:
    """Return a bar for each model and format with results, and for each published record."""
    bars = list[ChartBar]()
    for repeats in series_of(columns).values():
        name = repeats[0].name
        tries = repeats[0].facts.tries
        first, last = (
            tuple(
                100 * share.share
                for column in repeats
                if (share := column.solved_after(count)).share is not None
            )
            for count in (1, tries)
        )
        if last:
            bars.append(
                ChartBar(name.model, name.edit_format, last, first if tries > 1 else ())
            )
    for record in published:
        rates = [number(record.get(f"pass_rate_{place}")) for place in (1, 2)]
        if known := [rate for rate in rates if rate is not None]:
            edit_format = str(record.get("edit_format", ""))
            first = tuple(known[:1]) if len(known) > 1 else ()
            bars.append(
                ChartBar(
                    record["model"], edit_format, (known[-1],), first, published=True
                )
            )
    return bars
