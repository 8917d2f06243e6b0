"""The static page of runs: columns, chart, and the matrix exercise × column with transcripts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from core.atomic import write_text_atomic
from core.redaction import Redactor
from exercises.exercism.reporting.chart import ChartBar, chart_words, draw_chart
from exercises.exercism.reporting.columns import Column
from exercises.exercism.reporting.records import Record
from exercises.exercism.reporting.report import cell, chart_bars, column_rows, report_of
from reports.pages.tables import Table

_CHART = "exercises"


@dataclass(frozen=True)
class MatrixCell:
    """One exercise in one column: its outcome, and the address of its transcript or nothing."""

    words: str
    style: str
    link: str


@dataclass(frozen=True)
class MatrixRow:
    """One exercise; ``agreement`` is who solved it."""

    exercise: str
    language: str
    solved: int
    agreement: str
    cells: tuple[MatrixCell, ...]


@dataclass(frozen=True)
class ExercisesView:
    """What the page shows; ``open`` is the number of results that are missing."""

    title: str
    labels: tuple[str, ...]
    columns: Table
    rows: tuple[MatrixRow, ...]
    open: int


def write_page(folder: Path, columns: Sequence[Column], published: Sequence[Record]) -> Path:
    """Write ``report.html`` and its figure into ``folder``; return the path of the page."""
    # Imported here: only pages need jinja2 and pygments.
    from reports.pages.render import Renderer
    from reports.pages.write import PagePicture
    from reports.plots.write import drawn, write_picture

    redact = Redactor.of_environment(os.environ)
    bars = [_redacted(bar, redact) for bar in chart_bars(columns, published)]
    pictures = []
    if bars:
        picture = drawn(
            _CHART, "Exercises solved", chart_words(bars), lambda theme: draw_chart(bars, theme)
        )
        write_picture(picture, folder / "figures")
        pictures.append(PagePicture.of(picture))
    view = exercises_view(folder, columns, published)
    path = folder / "report.html"
    write_text_atomic(path, Renderer(redact).exercises(view=view, pictures=pictures))
    return path


def _redacted(bar: ChartBar, redact: Redactor) -> ChartBar:
    names = redact(bar.model), redact(bar.edit_format)
    return ChartBar(*names, bar.last, bar.first, bar.published)


def exercises_view(
    folder: Path, columns: Sequence[Column], published: Sequence[Record]
) -> ExercisesView:
    """Return the content of a page that will lie in ``folder``."""
    head, rows = column_rows(report_of(columns, published))
    keys = dict.fromkeys(key for column in columns for key in column.facts.exercises)
    runs = dict.fromkeys(column.run for column in columns)
    return ExercisesView(
        title=f"Exercism: {', '.join(runs)}",
        labels=tuple(column.label for column in columns),
        columns=Table("Columns", head, tuple(tuple(map(str, row)) for row in rows)),
        rows=tuple(_row(folder, key, columns) for key in keys),
        open=sum(len(column.open) for column in columns),
    )


def _row(folder: Path, key: str, columns: Sequence[Column]) -> MatrixRow:
    solved = [column.verdicts[key] for column in columns if key in column.verdicts]
    some = "every column" if all(solved) else "some columns"
    agreement = some if any(solved) else "no column"
    return MatrixRow(
        exercise=key,
        language=key.partition("/")[0],
        solved=sum(solved),
        agreement=agreement,
        cells=tuple(_cell(folder, key, column) for column in columns),
    )


def _cell(folder: Path, key: str, column: Column) -> MatrixCell:
    words = cell(column, key)
    solved = column.verdicts.get(key)
    style = "wait" if solved is None else "good" if solved else "bad"
    transcript = column.chats.get(key, Path())
    link = quote(Path(os.path.relpath(transcript, folder)).as_posix())
    return MatrixCell(words, style, link if transcript.is_file() else "")
