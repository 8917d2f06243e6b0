"""Draw all pictures of a report, and write them as SVG and PNG."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from agent.atomic import write_bytes_atomic, write_text_atomic
from reports.plots.attempts import draw_cost_against_score, draw_score_by_attempt
from reports.plots.comparison import draw_comparison
from reports.plots.confusion import draw_confusion
from reports.plots.data import FigureData
from reports.plots.repositories import draw_models_by_repository
from reports.plots.style import DARK, LIGHT, Theme, as_png, as_svg, drawing

Draw = Callable[[Theme], Figure]


@dataclass(frozen=True)
class Picture:
    """One picture, drawn.

    Attributes:
        name: of its files, without the ending.
        light, dark: SVG for paper and for a dark page.
        png: the light one in pixels.
    """

    name: str
    title: str
    light: str
    dark: str
    png: bytes


def write_figures(data: FigureData, folder: Path) -> tuple[Picture, ...]:
    """Write ``<name>.svg`` and ``<name>.png`` of each picture into ``folder`` and return them."""
    pictures = draw_figures(data)
    for picture in pictures:
        write_text_atomic(folder / f"{picture.name}.svg", picture.light)
        write_bytes_atomic(folder / f"{picture.name}.png", picture.png)
    return pictures


def draw_figures(data: FigureData) -> tuple[Picture, ...]:
    """Return the pictures for which there is something to show."""
    return tuple(_picture(name, title, draw) for name, title, draw in _drawings(data))


def _drawings(data: FigureData) -> Iterator[tuple[str, str, Draw]]:
    if data.attempts:
        draw = partial(draw_score_by_attempt, data.attempts)
        yield "score-by-attempt", "Score by attempt", draw
    if data.steps:
        draw = partial(draw_cost_against_score, data.steps)
        yield "cost-against-score", "Cost against score", draw
    if data.repositories:
        draw = partial(draw_models_by_repository, data.repositories)
        yield "models-by-repository", "Models by repository", draw
    if data.confusion:
        yield "plausible-resolved", "Plausible against resolved", partial(
            draw_confusion, data.confusion
        )
    if len(data.scores) > 1:
        yield "comparison", "Comparison of runs", partial(draw_comparison, data.scores)


def _picture(name: str, title: str, draw: Draw) -> Picture:
    with drawing(LIGHT):
        figure = draw(LIGHT)
        light, png = as_svg(figure), as_png(figure)
    with drawing(DARK):
        dark = as_svg(draw(DARK))
    return Picture(name, title, light, dark, png)
