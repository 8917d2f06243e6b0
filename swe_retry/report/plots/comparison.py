"""The picture of a comparison of runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swe_retry.core.redaction import Redactor
from swe_retry.report.plots.picture import Picture, PlottedRow, draw_picture, sentence
from swe_retry.report.plots.style import Theme, label, percent_axis
from swe_retry.report.statistics.collect import RunStats
from swe_retry.report.statistics.comparing import RunComparison
from swe_retry.report.statistics.methods import percent
from swe_retry.results.jsonvalues import values_of

# As a part of the width of an axis, for the text after an interval.
_TEXT_SPACE = 0.4


def comparison_pictures(
    runs: Sequence[RunStats],
    comparisons: Sequence[RunComparison],
    redact: Redactor,
) -> Iterator[Picture]:
    """Yield the picture of a comparison, unless fewer than two runs have a score."""
    scores = []
    for run in runs:
        score = run.scores.selected
        if score.share is not None:
            name = redact(run.run)
            row = {
                "name": name,
                "label": label(name),
                "value": score.share,
                "interval": score.interval,
                "text": f"{percent(score.share)} ({score.count}/{score.of})",
                "official": run.official,
            }
            scores.append(row)
    differences = []
    for pair in comparisons:
        if pair.interval and pair.difference is not None:
            a = redact(pair.a)
            b = redact(pair.b)
            row = {
                "name": f"{b} less {a}",
                "label": f"{label(b)}\nless {label(a)}",
                "value": pair.difference,
                "interval": pair.interval,
                "text": f"{100 * pair.difference:+.1f} points",
                "official": True,
            }
            differences.append(row)
    if len(scores) > 1:
        description = sentence(
            "{name}: {value:.1%} ({interval.low:.1%} to {interval.high:.1%})",
            [*scores, *differences],
        )
        yield draw_picture(
            "comparison",
            "Comparison of runs",
            description,
            _draw_comparison,
            scores,
            differences,
        )


def _draw_comparison(
    scores: Sequence[PlottedRow],
    differences: Sequence[PlottedRow],
    theme: Theme,
) -> Figure:
    # In inches: an axis and its lines.
    heights = [1.0 + 0.45 * len(rows) for rows in (scores, differences) if rows]
    figure = Figure(
        figsize=(6.4, sum(heights)),
        layout="constrained",
    )
    panels = figure.subplots(
        len(heights),
        1,
        squeeze=False,
        height_ratios=heights,
    )
    axes = panels[0][0]
    _draw_intervals(axes, scores, theme)
    high = max(row["interval"].high for row in scores)
    percent_axis(axes.xaxis, 0, high * (1 + _TEXT_SPACE))
    axes.set_xlabel("resolved, of the selected instances; 95 % interval (Wilson)")
    if differences:
        axes = panels[1][0]
        _draw_intervals(axes, differences, theme)
        low = min(0.0, *(row["interval"].low for row in differences))
        high = max(0.0, *(row["interval"].high for row in differences))
        # Runs that never differ give an interval without width.
        width = high - low or 0.1
        axes.axvline(
            0,
            color=theme.ink,
            linewidth=0.8,
        )
        percent_axis(axes.xaxis, low - 0.05 * width, high + _TEXT_SPACE * width)
        axes.set_xlabel("difference where both have a verdict; 95 % interval")
    return figure


def _draw_intervals(axes: Axes, rows: Sequence[PlottedRow], theme: Theme) -> None:
    for y, row in enumerate(rows):
        value = row["value"]
        interval = row["interval"]
        axes.errorbar(
            value,
            y,
            xerr=[[max(value - interval.low, 0)], [max(interval.high - value, 0)]],
            # A hollow mark means unofficial verdicts.
            markerfacecolor=theme.good if row["official"] else theme.paper,
            color=theme.good,
            fmt="o",
            capsize=4,
            markersize=7,
        )
        axes.annotate(
            row["text"],
            (interval.high, y),
            (8, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.set_yticks(range(len(rows)), values_of(rows, "label"))
    axes.set_ylim(len(rows) - 0.5, -0.7)
    axes.grid(visible=True, axis="x")
