"""Draw the scores and the differences of runs, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.plots.data import Score, ScoreDifference
from reports.plots.style import Theme, label, percent_axis
from reports.statistics.methods.intervals import Interval

_LINE = 0.45  # inches
_AXIS = 1.0
_ROOM = 1.4  # for the text after an interval


def draw_comparison(
    scores: Sequence[Score], differences: Sequence[ScoreDifference], theme: Theme
) -> Figure:
    """Draw the score of each run, and below the difference of each two runs."""
    heights = [_AXIS + _LINE * len(scores)]
    if differences:
        heights.append(_AXIS + _LINE * len(differences))
    figure = Figure(figsize=(6.4, sum(heights)), layout="constrained")
    panels = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)
    _draw_scores(panels[0][0], scores, theme)
    if differences:
        _draw_differences(panels[1][0], differences, theme)
    return figure


def _draw_scores(axes: Axes, scores: Sequence[Score], theme: Theme) -> None:
    for y, score in enumerate(scores):
        share = score.share.share or 0.0
        words = f"{share:.1%} ({score.share.count}/{score.share.of})"
        _draw_interval(axes, y, share, score.share.interval, words, theme, filled=score.official)
    highest = max((s.share.interval.high for s in scores if s.share.interval), default=1.0)
    _label_lines(axes, [label(score.run) for score in scores], 0, highest * _ROOM)
    axes.set_xlabel("resolved, of the selected instances; 95 % interval (Wilson)")


def _draw_differences(axes: Axes, differences: Sequence[ScoreDifference], theme: Theme) -> None:
    for y, one in enumerate(differences):
        words = f"{100 * one.difference:+.1f} points"
        _draw_interval(axes, y, one.difference, one.interval, words, theme, filled=True)
    low = min(0.0, *(one.interval.low for one in differences))
    high = max(0.0, *(one.interval.high for one in differences))
    # Runs that never differ give an interval without width.
    width = high - low or 0.1
    axes.axvline(0, color=theme.ink, linewidth=0.8)
    names = [f"{label(one.b)}\nless {label(one.a)}" for one in differences]
    _label_lines(axes, names, low - 0.05 * width, high + (_ROOM - 1) * width)
    axes.set_xlabel("difference where both have a verdict; 95 % interval (bootstrap)")


def _draw_interval(
    axes: Axes,
    y: int,
    value: float,
    interval: Interval | None,
    words: str,
    theme: Theme,
    *,
    filled: bool,
) -> None:
    """Draw one line; a hollow mark means unofficial verdicts."""
    around = interval or Interval(value, value)
    axes.errorbar(
        value,
        y,
        xerr=[[max(value - around.low, 0)], [max(around.high - value, 0)]],
        markerfacecolor=theme.good if filled else theme.paper,
        color=theme.good,
        fmt="o",
        capsize=4,
        markersize=7,
    )
    axes.annotate(
        words, (around.high, y), (8, 0), textcoords="offset points", va="center", fontsize=8
    )


def _label_lines(axes: Axes, names: Sequence[str], low: float, high: float) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.7)
    percent_axis(axes.xaxis, low, high)
    axes.grid(visible=True, axis="x")
    axes.set_axisbelow(True)
