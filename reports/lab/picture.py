"""The picture of the lab: shares against dollars, with the Pareto front."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from core.redaction import Redactor
from reports.lab.replay import ORACLE, RECORDED, Front, LabReport
from reports.plots.style import Theme, label, new_figure, percent_axis
from reports.plots.write import drawn, write_picture


def write_front(report: LabReport, folder: Path, redact: Redactor) -> Path | None:
    """Write ``pareto.svg`` and ``pareto.png``; None if no dollars are known."""
    if not any(each.dollars.value for each in report.policies):
        return None
    picture = drawn("pareto", "Policies", "", partial(_draw, report, redact))
    write_picture(picture, folder)
    return folder / f"{picture.name}.svg"


def _draw(report: LabReport, redact: Redactor, theme: Theme) -> Figure:
    figure, axes = new_figure(height=4.2)
    named: dict[tuple[float, float], list[str]] = {}
    for each in report.policies:
        x, share, bound = each.dollars.value, each.resolved, each.name == ORACLE
        on_front = each.front is Front.YES
        colour = theme.good if on_front else theme.unknown if bound else theme.bad
        around = [share.interval.low, share.interval.high]
        axes.plot([x, x], around, color=theme.faint, linewidth=1, zorder=1)
        if share.low < share.high:  # what the recording cannot tell
            axes.plot(
                [x, x], [share.low, share.high], color=colour, linewidth=3, zorder=2
            )
        filled = (
            colour if each.dollars.complete and share.low == share.high else theme.paper
        )
        mark = "D" if bound else "o"
        axes.plot(
            x,
            share.low,
            mark,
            color=colour,
            markerfacecolor=filled,
            markersize=6,
            zorder=3,
        )
        if on_front or each.name in (RECORDED, ORACLE):
            named.setdefault((x, share.low), []).append(label(redact(each.name)))
    for place, names in named.items():
        text = names[0] + (f" + {len(names) - 1}" if names[1:] else "")
        axes.annotate(text, place, (5, 4), textcoords="offset points", fontsize=7)
    front = [each for each in report.policies if each.front is Front.YES]
    front.sort(key=lambda each: each.dollars.value)
    steps = (
        [each.dollars.value for each in front],
        [each.resolved.low for each in front],
    )
    axes.step(*steps, where="post", color=theme.good, linewidth=1.2, zorder=2)
    highest = max(each.resolved.interval.high for each in report.policies)
    axes.set(xlabel="dollars in all", ylabel="resolved; 95 % interval (bootstrap)")
    axes.xaxis.set_major_formatter(StrMethodFormatter("${x:,.4g}"))
    axes.set_xlim(0, max(each.dollars.value for each in report.policies) * 1.2)
    percent_axis(axes.yaxis, 0, min(highest * 1.1, 1.0))
    axes.grid(visible=True)
    axes.set_axisbelow(True)
    return figure
