"""Runs compared: each score with its interval."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from reports.plots.data import Score
from reports.plots.style import Theme, label, new_figure


def draw_comparison(scores: Sequence[Score], theme: Theme) -> Figure:
    """Draw the score of each run, in the order given from the top, with its 95 % interval."""
    figure, axes = new_figure(height=1.1 + 0.45 * len(scores))
    for y, score in enumerate(scores):
        reach = [[score.share - score.low], [score.high - score.share]]
        axes.errorbar(
            score.share,
            y,
            xerr=reach,
            # Hollow where swebench itself did not evaluate.
            mfc=theme.good if score.official else theme.paper,
            color=theme.good,
            fmt="o",
            capsize=4,
            markersize=7,
        )
        text = f"{score.share:.1%} ({score.resolved}/{score.selected})"
        axes.annotate(
            text, (score.share, y), (0, 8), textcoords="offset points", ha="center", fontsize=8
        )
    axes.set_yticks(range(len(scores)), [label(score.run) for score in scores])
    axes.set_ylim(len(scores) - 0.5, -0.6)
    axes.set_xlim(0, min(1.0, max((s.high for s in scores), default=0) * 1.15 or 1.0))
    axes.set_xlabel("resolved, of the selected instances; 95 % interval (Wilson)")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(visible=True, axis="x")
    axes.set_axisbelow(True)
    return figure
