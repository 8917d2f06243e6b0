"""Draw plausible against resolved."""

from __future__ import annotations

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from reports.plots.style import Theme, new_figure
from reports.statistics.confusion import Confusion

# Weights of Rec. 601 for the brightness of a colour.
_WEIGHTS = (0.299, 0.587, 0.114)


def draw_confusion(confusion: Confusion, theme: Theme) -> Figure:
    """Draw the table of evaluated predictions, shaded by count, with the shares of each row."""
    figure, axes = new_figure(4.4, 3.0)
    rows = (
        (confusion.plausible_resolved, confusion.plausible_unresolved),
        (confusion.implausible_resolved, confusion.implausible_unresolved),
    )
    most = max(max(row) for row in rows)
    for y, row in enumerate(rows):
        for x, count in enumerate(row):
            _draw_cell(axes, (x, y), count, sum(row), Normalize(0, most * 1.3 or 1), theme)
    axes.set_xticks([0.5, 1.5], ["resolved", "not resolved"])
    axes.set_yticks([0.5, 1.5], ["plausible", "not plausible"])
    axes.set(xlim=(0, 2), ylim=(2, 0))
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure


def _draw_cell(
    axes: Axes, place: tuple[int, int], count: int, of: int, norm: Normalize, theme: Theme
) -> None:
    x, y = place
    colour = colormaps[theme.shades](norm(count))
    light = sum(w * c for w, c in zip(_WEIGHTS, colour, strict=False)) > 0.5
    axes.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor=theme.paper, linewidth=2))
    text = f"{count}\n{count / of:.1%} of {of}" if of else str(count)
    axes.text(
        x + 0.5, y + 0.5, text, ha="center", va="center", color="#000000" if light else "#ffffff"
    )
