"""The picture of the lab: shares against dollars, with the Pareto front."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swe_retry.core.atomic import write_bytes_atomic, write_text_atomic
from swe_retry.report.plots.style import (
    LIGHT,
    as_png,
    as_svg,
    dollar_axis,
    drawing,
    label,
    new_figure,
    percent_axis,
)
from swe_retry.study.lab.report import ORACLE, RECORDED, LabRow


def write_pictures(report: LabRow, folder: Path) -> list[Path]:
    """Write ``pareto`` if dollars are known and ``weights`` if verdicts are, as SVG and PNG."""
    paths = []
    with drawing(LIGHT):
        rows = report["policies"]
        if any(row["dollars"]["value"] for row in rows):
            figure = _draw(rows)
            paths.append(_write(figure, folder / "pareto.svg"))
        if report["weights"]:
            figure = _draw_weights(report["weights"])
            paths.append(_write(figure, folder / "weights.svg"))
    return paths


def _write(figure: Figure, path: Path) -> Path:
    write_text_atomic(path, as_svg(figure))
    write_bytes_atomic(path.with_suffix(".png"), as_png(figure))
    return path


def _draw_weights(weights: LabRow) -> Figure:
    """Draw how many classes are right against their weights, with the line of equality."""
    figure, axes = new_figure(height=4.2)
    axes.plot(
        [0, 1],
        [0, 1],
        color=LIGHT.faint,
        linewidth=1,
    )
    for row in weights["bins"]:
        point = (row["weight"], row["right"])
        axes.vlines(
            row["weight"],
            row["interval"]["low"],
            row["interval"]["high"],
            color=LIGHT.faint,
            linewidth=1,
        )
        axes.plot(
            *point,
            "o",
            color=LIGHT.good,
            markersize=6,
        )
        axes.annotate(
            str(row["classes"]),
            point,
            (5, 4),
            textcoords="offset points",
            fontsize=7,
        )
    brier = f"Brier's score {weights['brier']:.3f}"
    axes.set(
        xlabel=f"mean weight of a class; {brier}",
        ylabel="classes that are right; 95 % interval",
    )
    axes.set_xlim(0, 1)
    percent_axis(axes.yaxis, 0, 1)
    return figure


def _draw(rows: Sequence[LabRow]) -> Figure:
    figure, axes = new_figure(height=4.2)
    front = []
    names = defaultdict(list)
    for row in rows:
        dollars = row["dollars"]["value"]
        share = row["resolved"]["low"]
        _draw_policy(axes, row)
        if row["front"] == "yes":
            front.append((dollars, share))
        if row["front"] == "yes" or row["name"] in (RECORDED, ORACLE):
            names[dollars, share].append(label(row["name"]))
    for point, (name, *others) in names.items():
        if others:
            name += f" + {len(others)}"
        axes.annotate(
            name,
            point,
            (5, 4),
            textcoords="offset points",
            fontsize=7,
        )
    front.sort(key=itemgetter(0))
    x = [dollars for dollars, _ in front]
    y = [share for _, share in front]
    axes.step(
        x,
        y,
        where="post",
        color=LIGHT.good,
        linewidth=1.2,
        zorder=2,
    )
    axes.set(xlabel="dollars in all", ylabel="resolved; 95 % interval")
    axes.set_xlim(0, max(row["dollars"]["value"] for row in rows) * 1.2)
    dollar_axis(axes.xaxis)
    highest = max(row["resolved"]["interval"]["high"] for row in rows)
    percent_axis(axes.yaxis, 0, min(highest * 1.1, 1.0))
    axes.grid(visible=True)
    return figure


def _draw_policy(axes: Axes, row: LabRow) -> None:
    """Draw a point with its interval; it is hollow if it is not fully known."""
    dollars = row["dollars"]["value"]
    share = row["resolved"]
    interval = share["interval"]
    mark = "o"
    colour = LIGHT.bad
    if row["name"] == ORACLE:
        mark = "D"
        colour = LIGHT.unknown
    if row["front"] == "yes":
        colour = LIGHT.good
    filling = colour
    if row["unknown"] or not row["dollars"]["complete"]:
        filling = LIGHT.paper
    axes.vlines(
        dollars,
        interval["low"],
        interval["high"],
        color=LIGHT.faint,
        linewidth=1,
        zorder=1,
    )
    if share["low"] < share["high"]:  # what the recording cannot tell
        axes.vlines(
            dollars,
            share["low"],
            share["high"],
            color=colour,
            linewidth=3,
            zorder=2,
        )
    axes.plot(
        dollars,
        share["low"],
        mark,
        color=colour,
        markerfacecolor=filling,
        markersize=6,
        zorder=3,
    )
