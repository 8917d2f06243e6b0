"""The style of pictures: readable in print, with colour blindness, and on a dark page.

Adjacent areas also differ in hatching, for print without colour.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO, StringIO

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from swe_retry.core.data import read_yaml
from swe_retry.core.money import in_words
from swe_retry.core.plaintext import one_line

_DOTS_PER_INCH = 200
_LONGEST_LABEL = 30


@dataclass(frozen=True)
class Theme:
    """The colours of pictures; ``style.yaml`` says what each is for."""

    name: str
    ink: str
    faint: str
    paper: str
    good: str
    bad: str
    unknown: str
    series: Sequence[str]
    shades: str


_STYLE = read_yaml(__file__, "style.yaml")
LIGHT = Theme("light", **_STYLE["light"])
DARK = Theme("dark", **_STYLE["dark"])
HATCHES = ("", "////", "\\\\\\\\", "xxxx", "----", "++++")


@contextmanager
def drawing(theme: Theme) -> Iterator[None]:
    inked = (
        "text.color",
        "axes.labelcolor",
        "axes.titlecolor",
        "xtick.color",
        "ytick.color",
        "axes.edgecolor",
        "hatch.color",
    )
    settings = {
        **_STYLE["settings"],
        **dict.fromkeys(inked, theme.ink),
        "axes.facecolor": theme.paper,
        "figure.facecolor": theme.paper,
        "savefig.facecolor": theme.paper,
        "grid.color": theme.faint,
    }
    with matplotlib.rc_context(), warnings.catch_warnings():
        # A file matplotlibrc in the current folder does not count.
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(settings)
        # Names may be in any script; an SVG viewer has fonts for it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def new_figure(width: float = 6.4, height: float = 3.6) -> tuple[Figure, Axes]:
    """Return an empty picture with its axes; sizes are in inches."""
    figure = Figure(
        figsize=(width, height),
        layout="constrained",
    )
    return figure, figure.add_subplot()


def percent_axis(axis: Axis, low: float, high: float) -> None:
    """Label ``axis``, for shares between ``low`` and ``high``, with distinct whole percents.

    The view is at least five percent points wide; labels are between -100 % and 100 %.
    """
    lowest = min(low, 0.0)
    highest = max(high, low + 0.05)
    locator = MaxNLocator(
        nbins=6,
        steps=[1, 2, 5, 10],
        integer=True,
    )
    ticks = []
    for percents in locator.tick_values(100 * lowest, 100 * highest):
        tick = percents / 100
        if max(lowest, -1.0) <= tick <= min(highest, 1.0):
            ticks.append(tick)
    axis.set_ticks(ticks)
    axis.set_view_interval(lowest, highest, ignore=True)
    axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def dollar_axis(axis: Axis) -> None:
    """Label ``axis`` with dollars, of as many decimals as the distance of two ticks needs."""
    ticks = axis.get_ticklocs()
    distance = ticks[1] - ticks[0]
    decimals = 0
    if distance < 1:
        decimals = max(2, math.ceil(-math.log10(distance)))
    axis.set_major_formatter(lambda dollars, _: in_words(dollars, decimals))


def as_svg(figure: Figure) -> str:
    stream = StringIO()
    figure.savefig(
        stream,
        format="svg",
        metadata={"Date": None, "Creator": None},
    )
    return stream.getvalue()


def as_png(figure: Figure) -> bytes:
    stream = BytesIO()
    figure.savefig(
        stream, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None}
    )
    return stream.getvalue()


def label(text: str) -> str:
    """Return the name of a model, run or repository for a picture.

    Control characters, which SVG does not allow, are removed. Long names lose their middle, because
    both ends distinguish them.
    """
    plain = "".join(filter(str.isprintable, one_line(text)))
    if len(plain) <= _LONGEST_LABEL:
        return plain
    half = (_LONGEST_LABEL - 1) // 2
    return f"{plain[:half]}…{plain[-half:]}"
