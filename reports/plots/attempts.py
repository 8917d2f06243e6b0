"""Draw the score by attempt, and cost against score."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from reports.plots.data import AttemptBar, CostStep
from reports.plots.style import Theme, new_figure, percent_axis


def draw_score_by_attempt(bars: Sequence[AttemptBar], theme: Theme) -> Figure:
    """Draw predictions by attempt number, stacked by verdict, and the score so far as a line."""
    figure, axes = new_figure()
    places = [bar.attempt for bar in bars]
    parts = (
        ("resolved", [bar.resolved for bar in bars], theme.good, ""),
        ("not resolved", [bar.unresolved for bar in bars], theme.bad, "////"),
        ("not evaluated", [bar.not_evaluated for bar in bars], theme.unknown, "\\\\\\\\"),
    )
    below = [0] * len(bars)
    for name, heights, colour, hatch in parts:
        if not any(heights):
            continue
        axes.bar(places, heights, 0.65, below, color=colour, hatch=hatch, label=name)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    axes.set(xlabel="attempt that gave the prediction", ylabel="instances", xticks=places)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(0, max(below, default=0) * 1.18 + 0.5)
    _score_line(axes, places, [bar.score for bar in bars], theme)
    figure.legend(loc="outside upper center", ncols=4)
    return figure


def _score_line(axes: Axes, places: Sequence[int], scores: Sequence[float], theme: Theme) -> None:
    line = axes.twinx()
    line.plot(places, scores, color=theme.ink, marker="o", markersize=4, label="score so far")
    line.set_ylabel("score so far")
    line.spines["right"].set_visible(True)
    percent_axis(line.yaxis, 0, max(scores, default=0.0) * 1.25)
    if scores:
        _note(line, f"{scores[-1]:.1%}", (places[-1], scores[-1]), theme)


def draw_cost_against_score(steps: Sequence[CostStep], theme: Theme) -> Figure:
    """Draw the score over the cost, with a point for each limit of attempts."""
    figure, axes = new_figure()
    dollars, scores = [float(step.dollars) for step in steps], [step.score for step in steps]
    axes.plot(dollars, scores, color=theme.good, marker="o", linewidth=1.6)
    for step, x, y in zip(steps, dollars, scores, strict=True):
        _note(axes, str(step.attempts), (x, y), theme)
    axes.set(
        xlabel="dollars in all (numbers: limit of attempts per instance)",
        ylabel="score",
    )
    axes.set_xlim(0, max(dollars, default=0.0) * 1.08 or 1.0)
    axes.xaxis.set_major_formatter(StrMethodFormatter(_dollar_format(axes)))
    percent_axis(axes.yaxis, 0, max(scores, default=0.0) * 1.2)
    axes.grid(visible=True)
    axes.set_axisbelow(True)
    return figure


def _dollar_format(axes: Axes) -> str:
    """Return the format of the x axis: with as many decimals as its step needs."""
    ticks = axes.get_xticks()
    step = float(ticks[1] - ticks[0]) if len(ticks) > 1 else 1.0
    if step >= 1:
        return "${x:,.0f}"
    return f"${{x:,.{max(2, math.ceil(-math.log10(step)))}f}}"


def _note(axes: Axes, text: str, place: tuple[float, float], theme: Theme) -> None:
    axes.annotate(
        text, place, xytext=(0, 6), textcoords="offset points", ha="center", color=theme.ink
    )
