"""Draw the pictures of a report and write them as SVG and PNG."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from core.atomic import write_bytes_atomic, write_text_atomic
from core.redaction import Redactor
from reports.plots.attempts import draw_cost_against_score, draw_score_by_attempt
from reports.plots.comparison import draw_comparison
from reports.plots.confusion import draw_confusion
from reports.plots.data import FigureData, redacted
from reports.plots.repositories import draw_models_by_repository
from reports.plots.style import DARK, LIGHT, Theme, as_png, as_svg, drawing
from reports.plots.words import (
    words_of_attempts,
    words_of_confusion,
    words_of_repositories,
    words_of_scores,
    words_of_steps,
)

Draw = Callable[[Theme], Figure]


@dataclass(frozen=True)
class Picture:
    """A drawn picture.

    Attributes:
        name: of its files, without the suffix.
        words: the alternative text.
        light, dark: SVG for paper and for a dark page.
        png: the light picture.
    """

    name: str
    title: str
    words: str
    light: str
    dark: str
    png: bytes


def write_figures(
    data: FigureData, folder: Path, redact: Redactor | None = None
) -> tuple[Picture, ...]:
    """Write ``<name>.svg`` and ``<name>.png`` of each picture into ``folder``; return the pictures.

    ``redact`` removes secrets from the names of models, runs and repositories.
    """
    pictures = draw_figures(redacted(data, redact) if redact else data)
    for picture in pictures:
        write_picture(picture, folder)
    return pictures


def write_picture(picture: Picture, folder: Path) -> None:
    """Write ``<name>.svg`` and ``<name>.png`` of one picture into ``folder``."""
    write_text_atomic(folder / f"{picture.name}.svg", picture.light)
    write_bytes_atomic(folder / f"{picture.name}.png", picture.png)


def draw_figures(data: FigureData) -> tuple[Picture, ...]:
    """Draw the pictures that have data."""
    return tuple(map(_picture, _drawings(data)))


@dataclass(frozen=True)
class _Drawing:
    """A picture to draw."""

    name: str
    title: str
    words: str
    draw: Draw


def _drawings(data: FigureData) -> Iterator[_Drawing]:
    if bars := data.attempts:
        draw = partial(draw_score_by_attempt, bars)
        yield _Drawing("score-by-attempt", "Score by attempt", words_of_attempts(bars), draw)
    steps = data.steps
    if steps and steps[-1].dollars:
        draw = partial(draw_cost_against_score, steps)
        yield _Drawing("cost-against-score", "Cost against score", words_of_steps(steps), draw)
    if own := data.repositories:
        draw = partial(draw_models_by_repository, own)
        words = words_of_repositories(own)
        yield _Drawing("models-by-repository", "Models by repository", words, draw)
    if known := data.confusion:
        draw, words = partial(draw_confusion, known), words_of_confusion(known)
        yield _Drawing("plausible-resolved", "Plausible against resolved", words, draw)
    if len(data.scores) > 1:
        draw = partial(draw_comparison, data.scores, data.differences)
        words = words_of_scores(data.scores, data.differences)
        yield _Drawing("comparison", "Comparison of runs", words, draw)


def _picture(planned: _Drawing) -> Picture:
    return drawn(planned.name, planned.title, planned.words, planned.draw)


def drawn(name: str, title: str, words: str, draw: Draw) -> Picture:
    """Draw a picture in both themes; see ``Picture``."""
    with drawing(LIGHT):
        figure = draw(LIGHT)
        light, png = as_svg(figure), as_png(figure)
    with drawing(DARK):
        dark = as_svg(draw(DARK))
    return Picture(name, title, words, light, dark, png)
