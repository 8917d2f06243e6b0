"""Draw models by repository."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from reports.plots.data import RepositoryBar
from reports.plots.style import HATCHES, Theme, label, new_figure

_GROUP = 0.8  # share of the space of a repository; the rest separates it from the next


def draw_models_by_repository(bars: Sequence[RepositoryBar], theme: Theme) -> Figure:
    """Draw the resolved share of each model's predictions, by repository."""
    repositories = sorted({bar.repository for bar in bars}, reverse=True)
    models = list(dict.fromkeys(bar.model for bar in bars))
    height = 1.3 + 0.22 * len(repositories) * max(len(models), 1.6)
    figure, axes = new_figure(height=height)
    for number, model in enumerate(models):
        own = {bar.repository: bar for bar in bars if bar.model == model}
        _draw_model(axes, [own.get(name) for name in repositories], number, len(models), theme)
    axes.set_yticks(range(len(repositories)), [label(name) for name in repositories])
    axes.set_xlim(0, 1.12)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_xlabel("resolved, of the model's evaluated predictions there (counts at the bars)")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(visible=True, axis="x")
    axes.set_axisbelow(True)
    keys = [Patch(**_look(number, theme)) for number in range(len(models))]
    figure.legend(keys, [label(model) for model in models], loc="outside upper center", ncols=2)
    return figure


def _look(number: int, theme: Theme) -> dict[str, Any]:
    """Return the colour and hatching of the model with this number."""
    colour = theme.series[number % len(theme.series)]
    return {"facecolor": colour, "hatch": HATCHES[number % len(HATCHES)]}


def _draw_model(
    axes: Axes, bars: Sequence[RepositoryBar | None], number: int, models: int, theme: Theme
) -> None:
    thickness = _GROUP / models
    shift = _GROUP / 2 - thickness * (number + 0.5)
    shares = [bar.resolved / bar.evaluated if bar and bar.evaluated else 0.0 for bar in bars]
    drawn = axes.barh(
        [place + shift for place in range(len(bars))],
        shares,
        thickness,
        **_look(number, theme),
    )
    counts = [f"{bar.resolved}/{bar.evaluated}" if bar and bar.evaluated else "" for bar in bars]
    axes.bar_label(drawn, counts, padding=3, fontsize=7)
