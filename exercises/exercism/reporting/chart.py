"""The chart of July 2023: one group of bars per model, one bar per edit format.

A bar is the share of exercises solved after all tries, the line in it the share after the first. A
bar of several repeats is their mean, with their least and greatest as whiskers. Each mark has an
id in the SVG (``bar-1-2``: of the second bar of the first model), so that it can be read back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exercises.exercism.reporting.columns import Column, series_of, solved_after
from exercises.exercism.reporting.records import Record
from reports.data.jsonvalues import number
from reports.plots.style import Theme, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Blue and green are those of the chart of 2023; darker ones let its white line stand out.
_COLOURS = {
    "light": {"whole": "#b3d1e6", "diff": "#b3e6a8", "": "#e6d2b3"},
    "dark": {"whole": "#2f6690", "diff": "#3a7d44", "": "#8a6d3b"},
}
_WIDTH, _GAP, _INCHES = 0.8, 0.6, 0.42
_LABEL = "Percent of exercises completed successfully"


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
        f"{bar.model} {bar.edit_format}: {bar.height:.1f} %" + ("*" if bar.published else "")
        for bar in bars
    )


def draw_chart(bars: Sequence[ChartBar], theme: Theme) -> Figure:
    """Draw the chart; models and their bars come in the order in which they first appear."""
    from matplotlib.figure import Figure

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
    _label_groups(axes, groups, places, theme)
    for row, (group, xs) in enumerate(zip(groups, places, strict=True), 1):
        for place, (bar, x) in enumerate(zip(group, xs, strict=True), 1):
            _draw_bar(axes, bar, x, f"{row}-{place}", theme)
    axes.set_ylim(0, 100)
    axes.set_ylabel(_LABEL)
    axes.grid(visible=True, axis="y")
    axes.set_axisbelow(True)
    _legend(figure, bars, theme)
    return figure


def _label_groups(
    axes: Axes,
    groups: Sequence[Sequence[ChartBar]],
    places: Sequence[Sequence[float]],
    theme: Theme,
) -> None:
    middles = [(xs[0] + xs[-1]) / 2 for xs in places]
    # A name is longer than its bars unless it is turned.
    turned = any(len(group[0].model) > 8 * len(group) for group in groups)
    axes.set_xticks(
        middles,
        [label(group[0].model) for group in groups],
        rotation=45 if turned else 0,
        ha="right" if turned else "center",
    )
    axes.tick_params(axis="x", length=0)
    axes.margins(x=0.3 / places[-1][-1] if places[-1][-1] else 0.5)
    axes.spines["left"].set_color(theme.faint)


def _draw_bar(axes: Axes, bar: ChartBar, x: float, place: str, theme: Theme) -> None:
    height = bar.height
    (drawn,) = axes.bar([x], [height], width=_WIDTH, **_look(bar.edit_format, theme))
    drawn.set_gid(f"bar-{place}")
    if bar.published:
        drawn.set_linestyle("--")
    if bar.first:
        mean = sum(bar.first) / len(bar.first)
        half = _WIDTH / 2
        (mark,) = axes.plot([x - half, x + half], [mean, mean], color=theme.paper, linewidth=1.6)
        mark.set_gid(f"first-{place}")
    if len(bar.last) > 1:
        low, high = min(bar.last), max(bar.last)
        (whisker,) = axes.plot([x, x], [low, high], color=theme.ink, marker="_", linewidth=1.0)
        whisker.set_gid(f"whisker-{place}")
    words = f"{height:.0f}%" + ("*" if bar.published else "")
    axes.annotate(
        words,
        (x, max(height, *bar.last)),
        (0, 3),
        textcoords="offset points",
        ha="center",
        fontsize=7,
    )


def _look(edit_format: str, theme: Theme) -> dict[str, Any]:
    """Return colour and hatch of a format, as in 2023: by ``whole``, ``diff`` and ``-func``."""
    colours = _COLOURS[theme.name]
    kind = next((kind for kind in ("whole", "diff") if edit_format.startswith(kind)), "")
    hatch = "////" if edit_format.endswith("-func") else ""
    hatch = {"diff-fenced": "....", "patch": "xxxx"}.get(edit_format, hatch)
    return {"facecolor": colours[kind], "hatch": hatch, "edgecolor": theme.ink}


def _legend(figure: Figure, bars: Sequence[ChartBar], theme: Theme) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    names = dict.fromkeys(bar.edit_format for bar in bars)
    handles: list[Patch | Line2D] = [
        Patch(**_look(name, theme), label=label(name)) for name in names
    ]
    if any(bar.first for bar in bars):
        handles.append(
            Line2D([], [], color=theme.faint, linewidth=1.6, label="after the first try")
        )
    if any(bar.published for bar in bars):
        handles.append(Line2D([], [], linestyle="", label="* published by others"))
    # Outside: the layout makes room for as many rows as it needs.
    columns = max(4, int(figure.get_figwidth() / 1.5))
    figure.legend(handles=handles, ncols=columns, loc="outside upper left")


def chart_bars(columns: Sequence[Column], published: Sequence[Record] = ()) -> list[ChartBar]:
    """Return a bar for each model and format with results, and for each published record."""
    ours = (_bar(every) for every in series_of(columns).values())
    return [*filter(None, ours), *filter(None, map(_published_bar, published))]


def _bar(repeats: Sequence[Column]) -> ChartBar | None:
    name, tries = repeats[0].name, repeats[0].facts.tries
    first, last = (
        tuple(
            100 * share.share
            for column in repeats
            if (share := solved_after([*column.results.values()], number)).share is not None
        )
        for number in (1, tries)
    )
    if not last:
        return None
    return ChartBar(name.model, name.edit_format, last, first if tries > 1 else ())


def _published_bar(record: Record) -> ChartBar | None:
    rates = [number(record.get(f"pass_rate_{place}")) for place in (1, 2)]
    known = [rate for rate in rates if rate is not None]
    if not known:
        return None
    edit_format = str(record.get("edit_format", ""))
    first = tuple(known[:1]) if len(known) > 1 else ()
    return ChartBar(record["model"], edit_format, (known[-1],), first, published=True)
