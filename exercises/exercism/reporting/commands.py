"""The command that reads results: ``report``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated, Any, Literal
from urllib.parse import quote

import typer
from pydantic import Field

from core.atomic import write_text_atomic
from core.errors import UserError
from core.plaintext import counted
from core.redaction import Redactor
from core.settings import CommandLine, Commas, Section, command
from exercises.exercism.reporting.columns import Column, read_columns
from exercises.exercism.reporting.records import (
    RECORD,
    Record,
    ratio_faults,
    read_records,
    record_of,
    write_records,
)
from exercises.exercism.reporting.report import (
    cell,
    chart_bars,
    chart_words,
    column_rows,
    draw_chart,
    matrix_csv,
    report_lines,
    report_of,
)
from exercises.reporting import CHART, write_chart
from reports.pages.overview import Table


class ReportedColumns(Section):
    """What of the runs is reported, and where."""

    page: bool = Field(
        default=True,
        description="Write the page of the runs into the first one's folder.",
    )
    only: Annotated[tuple[str, ...], Commas] = Field(
        default=(),
        description="Show the columns and records whose MODEL@FORMAT fits, as gpt-4*.",
    )
    allow_partial: bool = Field(
        default=False,
        description="Leave broken results out; exit 0 if some are missing.",
    )

    def shows(self, model: str, edit_format: object) -> bool:
        name = f"{model}@{edit_format}".lower()
        fits = (fnmatchcase(name, pattern.lower()) for pattern in self.only)
        return not self.only or any(fits)


class ExercismReportSettings(Section):
    """What the report is told."""

    report: ReportedColumns = ReportedColumns()


OutputFormat = Literal["text", "json", "csv"]


def _say(line: str) -> None:
    print(line, file=sys.stderr)


@command(ExercismReportSettings, ())
def report(
    line: CommandLine[ExercismReportSettings],
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN",
            help="Report on these runs: folders under predictions/.",
            show_default=False,
        ),
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option(
            CHART,
            metavar="FILE",
            help="Draw the chart: FILE.svg, and FILE-dark.svg for dark pages.",
        ),
    ] = None,
    published: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Show these records of others (YAML) beside the runs; repeatable.",
        ),
    ] = None,
    format: Annotated[
        OutputFormat,
        typer.Option(
            help="Print the report as text or json, or the matrix exercise × column as csv."
        ),
    ] = "text",
) -> int:
    """Report on runs: tables, chart, matrix, published records beside them."""
    settings = line.load()
    first_word = str(runs[0]) if runs else ""
    if line.prints(settings, first_word):
        return 0
    if not runs:
        raise UserError("report needs a run: give folders under predictions/")
    chosen = settings.report
    records = [record for path in published or () for record in read_records(path)]
    read = read_columns(runs, _say, allow_partial=chosen.allow_partial)
    if not read:
        raise UserError(f"{runs[0]} has no columns; run it again")
    write_run_records(read)
    columns = [c for c in read if chosen.shows(c.name.model, c.name.edit_format)]
    if not columns:
        patterns = ",".join(chosen.only)
        raise UserError(f"report.only {patterns}: no column of the runs fits")
    records = [r for r in records if chosen.shows(r["model"], r.get("edit_format"))]
    for text in _output_lines(format, columns, records):
        print(text)
    name_wrong_ratios(records)
    if chart:
        _draw(chart, columns, records)
    if chosen.page:
        folder = read[0].folder / "report"
        _say(f"page           {write_page(folder, columns, records)}")
    open_count = sum(len(column.open) for column in columns)
    if not open_count:
        return 0
    fix = "; run the same command again, or set report.allow_partial=true"
    if chosen.allow_partial:
        fix = ""
    _say(f"not completed: {counted(open_count, 'exercise')}{fix}")
    return int(not chosen.allow_partial)


def _draw(chart: Path, columns: Sequence[Column], published: Sequence[Record]) -> None:
    if chart.suffix != ".svg":
        raise UserError(
            f"--chart {chart}: the chart is SVG; give a name that ends in .svg"
        )
    bars = chart_bars(columns, published)
    if not bars:
        raise UserError("--chart: no column has a result; run the exercises first")
    write_chart(chart, partial(draw_chart, bars))
    _say(f"chart          {chart}")


def _output_lines(
    format: OutputFormat, columns: Sequence[Column], published: Sequence[Record]
) -> Iterable[str]:
    if format == "csv":
        return [matrix_csv(columns).rstrip("\n")]
    value = report_of(columns, published)
    if format == "json":
        return [json.dumps(value.as_json(), indent=1)]
    width = None
    if sys.stdout.isatty():
        width = get_terminal_size().columns
    return report_lines(value, width)


def name_wrong_ratios(records: Sequence[Record]) -> None:
    for record in records:
        for fault in ratio_faults(record):
            _say(
                f"wrong ratio    {fault.record}: {fault.key} is {fault.written}, but {fault.why}"
            )


def write_run_records(columns: Sequence[Column]) -> None:
    for folder in dict.fromkeys(column.folder for column in columns):
        own = [record_of(column) for column in columns if column.folder == folder]
        write_records(folder / RECORD, own)


def write_page(
    folder: Path, columns: Sequence[Column], published: Sequence[Record]
) -> Path:
    # Imported here: only pages need jinja2 and pygments.
    from reports.pages.render import Renderer
    from reports.plots.write import draw_picture, write_picture

    redact = Redactor.of_environment(os.environ)
    bars = [
        replace(bar, model=redact(bar.model), edit_format=redact(bar.edit_format))
        for bar in chart_bars(columns, published)
    ]
    pictures = []
    if bars:
        draw = partial(draw_chart, bars)
        picture = draw_picture("exercises", "Exercises solved", chart_words(bars), draw)
        write_picture(picture, folder / "figures")
        pictures.append(picture)
    head, rows = column_rows(report_of(columns, published))
    keys = dict.fromkeys(key for column in columns for key in column.facts.exercises)
    view = {
        "title": f"Exercism: {', '.join(dict.fromkeys(column.run for column in columns))}",
        "labels": [column.label for column in columns],
        "columns": Table("Columns", head, tuple(rows)),
        "rows": [_row(folder, key, columns) for key in keys],
        "open": sum(len(column.open) for column in columns),
    }
    path = folder / "report.html"
    write_text_atomic(
        path, Renderer(redact).page("exercises", view=view, pictures=pictures)
    )
    return path


def _row(folder: Path, key: str, columns: Sequence[Column]) -> dict[str, Any]:
    solved = [column.verdicts[key] for column in columns if key in column.verdicts]
    some = "every column" if all(solved) else "some columns"
    cells = []
    for column in columns:
        verdict = column.verdicts.get(key)
        transcript = column.chats.get(key, Path())
        link = quote(Path(os.path.relpath(transcript, folder)).as_posix())
        cells.append(
            {
                "words": cell(column, key),
                "style": "wait" if verdict is None else "good" if verdict else "bad",
                "link": link if transcript.is_file() else "",
            }
        )
    return {
        "exercise": key,
        "language": key.partition("/")[0],
        "solved": sum(solved),
        "agreement": some if any(solved) else "no column",
        "cells": cells,
    }
