"""Draw the scores of a report: pass@1 by model and instruction, with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from core.atomic import write_bytes_atomic, write_text_atomic
from core.errors import UserError
from exercises.canitedit.problems import InstructionKind
from exercises.canitedit.reporting.figures import Estimate
from exercises.canitedit.reporting.report import EditingReport, ModelReport
from reports.statistics.methods.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from reports.plots.style import Theme

_LINE = 0.6  # inches for a model
_FRAME = 1.1
_BAR = 0.38


def write_plot(report: EditingReport, path: Path) -> tuple[Path, ...]:
    """Write the picture: ``.png``, or ``.svg`` with ``-dark.svg`` beside it for dark pages.

    Raises:
        UserError: the suffix is another, or pass@1 was not asked for.
    """
    if 1 not in report.ks:
        raise UserError(f"--plot {path} shows pass@1; add 1 to --k")
    if path.suffix not in (".svg", ".png"):
        raise UserError(f"--plot {path}: give a name that ends in .svg or .png")
    # Imported here: matplotlib takes half a second, which only plots need.
    from reports.plots.style import DARK, LIGHT, as_png, as_svg, drawing

    if path.suffix == ".png":
        with drawing(LIGHT):
            write_bytes_atomic(path, as_png(draw_scores(report, LIGHT)))
        return (path,)
    dark = path.with_name(f"{path.stem}-dark.svg")
    for place, theme in ((path, LIGHT), (dark, DARK)):
        with drawing(theme):
            write_text_atomic(place, as_svg(draw_scores(report, theme)))
    return path, dark


def draw_scores(report: EditingReport, theme: Theme) -> Figure:
    """Draw a bar for each model and instruction, the first model at the top."""
    from reports.plots.style import HATCHES, label, new_figure, percent_axis

    figure, axes = new_figure(height=_FRAME + _LINE * len(report.models))
    for place, kind in enumerate(InstructionKind):
        found = [(y, one) for y, m in enumerate(report.models) if (one := _pass_1(m, kind))]
        heights = [y + (place - 0.5) * _BAR for y, _ in found]
        means = [one.mean for _, one in found]
        around = [one.interval or Interval(one.mean, one.mean) for _, one in found]
        below = [max(mean - one.low, 0) for mean, one in zip(means, around, strict=True)]
        above = [max(one.high - mean, 0) for mean, one in zip(means, around, strict=True)]
        axes.barh(
            heights, means, _BAR, xerr=[below, above], label=kind.value, capsize=3,
            color=theme.series[place], hatch=HATCHES[place], ecolor=theme.ink,
        )  # fmt: skip
        for y, mean, bounds in zip(heights, means, around, strict=True):
            axes.annotate(
                f"{100 * mean:.1f} %", (bounds.high, y), (5, 0),
                textcoords="offset points", va="center", fontsize=8,
            )  # fmt: skip
    axes.set_yticks(range(len(report.models)), [label(model.name) for model in report.models])
    axes.invert_yaxis()
    percent_axis(axes.xaxis, 0, min(1.0, _highest(report) * 1.25))
    axes.set_xlabel("pass@1; 95 % interval (bootstrap over problems)")
    figure.legend(loc="outside upper right", ncols=2)
    return figure


def _pass_1(model: ModelReport, kind: InstructionKind) -> Estimate | None:
    return model.figures[kind][0].pass_at_k.get(1) if kind in model.figures else None


def _highest(report: EditingReport) -> float:
    found = (_pass_1(model, kind) for model in report.models for kind in InstructionKind)
    return max((one.interval.high for one in found if one and one.interval), default=1.0)
