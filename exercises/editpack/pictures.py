"""Draw the lines of both sides, and the verbs of messages with their root nouns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi, radians, sin
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Wedge
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from exercises.editpack.stats import Distribution, VerbUse
from reports.plots.style import HATCHES, Theme, label, new_figure

_MOST_BINS = 60
_RADII = (0.34, 0.66, 0.98)
"""Of the sunburst: where verbs begin, where nouns begin and end; the axes reach to 1.3."""
_REACH = 1.32
_GAP, _LONGEST_VERB = 0.02, 0.2
_LINE = 1.15
"""The height of a line, in sizes of its letters."""
_SIZE, _VERB_POINTS, _NOUN_POINTS = 9.0, 8.0, 6.0
_POINTS_PER_UNIT = _SIZE * 72 / (2 * _REACH)


def draw_lines(before: Mapping[int, int], after: Mapping[int, int], theme: Theme) -> Figure:
    """Draw the numbers of lines of both sides, each without its rows above the 99th percentile."""
    figure, axes = new_figure()
    shown = [
        {value: rows for value, rows in side.items() if value <= highest}
        for side in (before, after)
        for highest in [Distribution.of(side).percentile_99]
    ]
    highest = max((value for side in shown for value in side), default=0)
    # The lines of a bin: 1, 2 or 5 times a power of ten, at most 60 bins.
    widths = (step * int(10**power) for power in range(12) for step in (1, 2, 5))
    width = next(width for width in widths if (highest + 1) / width <= _MOST_BINS)
    for place, (name, side) in enumerate(zip(("before", "after"), shown, strict=True)):
        bins = Counter[int]()
        for value, rows in side.items():
            bins[value // width] += rows
        axes.bar(
            # Two bars share a bin, so that neither hides the other.
            [(start + place / 2) * width for start in bins], list(bins.values()), width=width / 2,
            align="edge", color=theme.series[place], hatch=HATCHES[place], edgecolor=theme.ink,
            linewidth=0.3, label=name,
        )  # fmt: skip
    axes.set_xlabel("lines, the highest 1 % of each side left out")
    axes.set_ylabel("rows")
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_xlim(left=0)
    axes.legend()
    return figure


@dataclass(frozen=True)
class _Arc:
    start: float
    size: float
    text: str

    @property
    def middle(self) -> float:
        return self.start + self.size / 2


def draw_verbs(verbs: Sequence[VerbUse], theme: Theme) -> Figure:
    """Draw verbs as a ring, and around it their root nouns.

    Angles are rows of the nouns that are shown. Labels that would overlap are left out: the table
    has them.
    """
    shown = [verb for verb in verbs if verb.nouns]
    figure = Figure(figsize=(_SIZE, _SIZE))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(-_REACH, _REACH)
    axes.set_ylim(-_REACH, _REACH)
    axes.set_axis_off()
    inner = _arcs([(verb.verb, sum(noun.rows for noun in verb.nouns)) for verb in shown], 0, 360)
    for place, (arc, verb) in enumerate(zip(inner, shown, strict=True)):
        color = theme.series[place % len(theme.series)]
        # Six colours and five hatches: no two of 20 verbs look alike.
        hatch = HATCHES[1:][place % (len(HATCHES) - 1)]
        axes.add_patch(_wedge(arc, _RADII[:2], theme, facecolor=color, hatch=hatch))
        nouns = _arcs([(noun.word, noun.rows) for noun in verb.nouns], arc.start, arc.size)
        for noun in nouns:
            axes.add_patch(_wedge(noun, _RADII[1:], theme, facecolor=color, alpha=0.45))
        _write(axes, nouns, _RADII[2], _NOUN_POINTS)
    box = {"facecolor": theme.paper, "edgecolor": "none", "pad": 1.0}
    _write(axes, inner, _RADII[1], _VERB_POINTS, inwards=True, bbox=box)
    axes.text(0, 0, "angle: rows with\nthe nouns shown", ha="center", va="center")
    return figure


def _arcs(parts: Sequence[tuple[str, int]], start: float, size: float) -> list[_Arc]:
    total, arcs = sum(rows for _, rows in parts), list[_Arc]()
    for text, rows in parts:
        arcs.append(_Arc(start, size * rows / total, label(text)))
        start += arcs[-1].size
    return arcs


def _wedge(arc: _Arc, radii: Sequence[float], theme: Theme, **look: Any) -> Wedge:  # noqa: ANN401
    inner, outer = radii
    start, end = 90 - arc.start - arc.size, 90 - arc.start
    line = {"edgecolor": theme.paper, "linewidth": 0.6}
    return Wedge((0, 0), outer, start, end, width=outer - inner, **line, **look)


def _write(
    axes: Axes,
    arcs: Sequence[_Arc],
    radius: float,
    points: float,
    *,
    inwards: bool = False,
    **look: Any,  # noqa: ANN401
) -> None:
    narrow = radius - _LONGEST_VERB if inwards else radius
    least = 360 * _LINE * points / (2 * pi * narrow * _POINTS_PER_UNIT)
    for arc in arcs:
        if arc.size < least:
            continue
        angle, far = radians(90 - arc.middle), radius + (-_GAP if inwards else _GAP)
        left = arc.middle > 180
        axes.text(
            far * cos(angle), far * sin(angle), arc.text, fontsize=points,
            rotation=(270 if left else 90) - arc.middle, rotation_mode="anchor",
            ha="right" if left is not inwards else "left", va="center", **look,
        )  # fmt: skip
