"""A picture: drawn for paper and for a dark page, written as SVG and PNG."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from swe_retry.core.atomic import write_bytes_atomic, write_text_atomic
from swe_retry.report.plots.style import DARK, LIGHT, as_png, as_svg, drawing

PlottedRow = Mapping[str, Any]


@dataclass(frozen=True)
class Picture:
    """A drawn picture: SVG for paper and for a dark page, PNG for paper, and alternative text."""

    name: str
    title: str
    description: str
    light: str
    dark: str
    png: bytes


def draw_picture(
    name: str,
    title: str,
    description: str,
    draw: Callable[..., Figure],
    *values: object,
) -> Picture:
    """Return the picture that ``draw`` makes of the values and of a theme, for each theme."""
    with drawing(LIGHT):
        figure = draw(*values, LIGHT)
        light = as_svg(figure)
        png = as_png(figure)
    with drawing(DARK):
        dark = as_svg(draw(*values, DARK))
    return Picture(name, title, description, light, dark, png)


def write_picture(picture: Picture, folder: Path) -> None:
    write_text_atomic(folder / f"{picture.name}.svg", picture.light)
    write_bytes_atomic(folder / f"{picture.name}.png", picture.png)


def sentence(text: str, rows: Sequence[PlottedRow]) -> str:
    return "; ".join(map(text.format_map, rows)).replace("%", " %")
