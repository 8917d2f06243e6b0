"""The chart of July 2023: a group of bars for each model, a bar for each edit format.

A bar is the share of exercises solved after all tries, the line in it the share after the first. A
bar of several repeats is their mean, with the least and the greatest as whiskers. Each mark has an
id in the SVG (``bar-1-2``: of the second bar of the first model), so that it can be read back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from swe_retry.kit import (
    Picture,
    Redactor,
    Theme,
    draw_picture,
    label,
    new_figure,
    number,
)
from swe_retry_exercises.exercism.records import Column, Record, series_of
from swe_retry_exercises.values import JsonMapping, JsonObject, values_of

Bar = JsonMapping
"""A model in an edit format: ``model``, ``edit_format``, ``last`` and ``first`` with the shares in
per cent after all tries and after the first of each repeat, ``published`` for records of others."""
# Blue and green are those of the chart of 2023; darker ones let its white line stand out.
_COLOURS = {
    "light": {"whole": "#b3d1e6", "diff": "#b3e6a8", "": "#e6d2b3"},
    "dark": {"whole": "#2f6690", "diff": "#3a7d44", "": "#8a6d3b"},
}
_HATCHES = {"diff-fenced": "....", "patch": "xxxx"}
_WIDTH = 0.8
_GAP = 0.6
_INCHES = 0.42


def chart_bars(columns: Sequence[Column], published: Sequence[Record]) -> list[Bar]:
    """Return a bar for each model and format with results, and for each published record."""
    bars = []
    for series in series_of(columns):
        repeats = [column.record for column in series]
        tries = repeats[0]["tries"]
        first = _shares(repeats, 1)
        bars.append(
            _bar(
                repeats[0],
                _shares(repeats, tries),
                first * (tries > 1),
            )
        )
    for record in published:
        rates = []
        for key in ("pass_rate_1", "pass_rate_2"):
            rate = number(record.get(key))
            if rate is not None:
                rates.append(rate)
        if rates:
            bars.append(
                _bar(
                    record,
                    rates[-1:],
                    rates[:-1],
                    published=True,
                )
            )
    return bars


def _shares(records: Sequence[Record], tries: int) -> list[float]:
    shares = []
    for record in records:
        shares.append(100 * record[f"pass_num_{tries}"] / record["test_cases"])
    return shares


def _bar(
    record: Record,
    last: list[float],
    first: list[float],
    *,
    published: bool = False,
) -> Bar:
    return {
        "model": record["model"],
        "edit_format": str(record.get("edit_format", "")),
        "last": last,
        "first": first,
        "published": published,
    }


def draw_chart(bars: Sequence[Bar], theme: Theme) -> Figure:
    """Draw the chart; models and their bars come in the order in which they first appear."""
    groups = defaultdict(list)
    for bar in bars:
        groups[bar["model"]].append(bar)
    width = 1.2 + _INCHES * (len(bars) + _GAP * len(groups))
    figure, axes = new_figure(max(6.4, width), 5.4)
    left = 0.0
    centers = []
    for row, group in enumerate(groups.values(), 1):
        for position, bar in enumerate(group):
            _draw_bar(
                axes,
                bar,
                left + position,
                f"{row}-{position + 1}",
                theme,
            )
        centers.append(left + (len(group) - 1) / 2)
        left += len(group) + _GAP
    last = left - _GAP - 1
    # A name is longer than its bars unless it is turned.
    is_long = [len(model) > 8 * len(group) for model, group in groups.items()]
    turned = any(is_long)
    axes.set_xticks(
        centers,
        list(map(label, groups)),
        rotation=45 if turned else 0,
        ha="right" if turned else "center",
    )
    axes.tick_params(axis="x", length=0)
    axes.margins(x=0.3 / last if last else 0.5)
    axes.spines["left"].set_color(theme.faint)
    axes.set_ylim(0, 100)
    axes.set_ylabel("Percent of exercises completed successfully")
    axes.grid(visible=True, axis="y")
    _add_legend(figure, bars, theme)
    return figure


def _draw_bar(axes: Axes, bar: Bar, x: float, mark: str, theme: Theme) -> None:
    last = bar["last"]
    height = fmean(last)
    look = _look(bar["edit_format"], theme)
    bars = axes.bar([x], [height], width=_WIDTH, **look)
    bars[0].set_gid(f"bar-{mark}")
    if bar["published"]:
        axes.patches[-1].set_linestyle("--")
    if bar["first"]:
        first = fmean(bar["first"])
        ends = [x - _WIDTH / 2, x + _WIDTH / 2]
        line = axes.plot(
            ends,
            [first, first],
            color=theme.paper,
            linewidth=1.6,
        )
        line[0].set_gid(f"first-{mark}")
    if len(last) > 1:
        ends = [min(last), max(last)]
        line = axes.plot(
            [x, x],
            ends,
            color=theme.ink,
            marker="_",
            linewidth=1.0,
        )
        line[0].set_gid(f"whisker-{mark}")
    axes.annotate(
        f"{height:.0f} %" + "*" * bar["published"],
        (x, max(height, *last)),
        (0, 3),
        textcoords="offset points",
        ha="center",
        fontsize=7,
    )


def _look(edit_format: str, theme: Theme) -> JsonObject:
    """Return colour and hatch of a format, as in 2023: by ``whole``, ``diff`` and ``-func``."""
    hatch = _HATCHES.get(edit_format, "")
    if edit_format.endswith("-func"):
        hatch = "////"
    kind = edit_format.partition("-")[0]
    colours = _COLOURS[theme.name]
    colour = colours.get(kind, colours[""])
    return {"facecolor": colour, "hatch": hatch, "edgecolor": theme.ink}


def draw_columns(
    columns: Sequence[Column],
    published: Sequence[Record],
    redact: Redactor,
) -> Picture | None:
    """Draw the chart for light and dark pages; None without any result."""
    bars = redact.of(chart_bars(columns, published))
    if not bars:
        return None
    parts = []
    for bar in bars:
        mark = "*" * bar["published"]
        height = f"{fmean(bar['last']):.1f} %{mark}"
        parts.append(f"{bar['model']} {bar['edit_format']}: {height}")
    draw = partial(draw_chart, bars)
    return draw_picture(
        "exercises",
        "Exercises solved",
        "; ".join(parts),
        draw,
    )


def _add_legend(figure: Figure, bars: Sequence[Bar], theme: Theme) -> None:
    handles: list[Patch | Line2D] = []
    for name in dict.fromkeys(values_of(bars, "edit_format")):
        handles.append(
            Patch(
                **_look(name, theme),
                label=label(name),
            )
        )
    if any(values_of(bars, "first")):
        words = "after the first try"
        handles.append(
            Line2D(
                [],
                [],
                color=theme.faint,
                linewidth=1.6,
                label=words,
            )
        )
    if any(values_of(bars, "published")):
        handles.append(
            Line2D(
                [],
                [],
                linestyle="",
                label="* published by others",
            )
        )
    # Outside: the layout makes room for as many rows as it needs. Two columns fit a phone.
    figure.legend(
        handles=handles,
        ncols=2,
        loc="outside upper left",
    )
