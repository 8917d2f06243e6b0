"""What the reports of benchmarks write alike: CSV, and charts for light and dark pages."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from core.atomic import write_bytes_atomic, write_text_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from reports.plots.style import Theme


CHART = "--chart"


def csv_text(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    stream = StringIO()
    csv.writer(stream, lineterminator="\n").writerows([headings, *rows])
    return stream.getvalue()


def write_chart(path: Path, draw: Callable[[Theme], Figure]) -> tuple[Path, ...]:
    """Write ``.png``, or ``.svg`` with ``-dark.svg`` beside it, and return the paths."""
    # Imported here: matplotlib takes half a second, which only charts need.
    from reports.plots.style import DARK, LIGHT, as_png, as_svg, drawing

    if path.suffix == ".png":
        with drawing(LIGHT):
            write_bytes_atomic(path, as_png(draw(LIGHT)))
        return (path,)
    dark = path.with_name(f"{path.stem}-dark.svg")
    for file, theme in ((path, LIGHT), (dark, DARK)):
        with drawing(theme):
            write_text_atomic(file, as_svg(draw(theme)))
    return path, dark
