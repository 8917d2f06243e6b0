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
from typing import Any, Literal
from urllib.parse import quote

import typer

from core.atomic import write_text_atomic
from core.errors import UserError
from core.options import built, command, option, option_group
from core.plaintext import counted
from core.redaction import Redactor
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
from reports.cli.options import partial_option
from reports.pages.overview import Table
from runs.options import FORMAT


@option_group
class ReportAsked:
    runs: tuple[Path, ...] = option(
        (), "Report on these runs: folders under predictions/.", "runs", argument=True
    )
    chart: Path | None = option(
        None, "Draw the chart: FILE.svg, and FILE-dark.svg for dark pages.", CHART
    )
    published: tuple[Path, ...] = option(
        (),
        "Show these records of others (YAML) beside the runs; repeatable.",
        "--published",
    )
    only: tuple[str, ...] = option(
        (),
        "Show the columns and records whose MODEL@FORMAT fits, as gpt-4*; repeatable.",
        "--only",
    )
    format: Literal["text", "json", "csv"] = option(
        "text",
        "Print the report as text or json, or the matrix exercise × column as csv.",
        FORMAT,
    )
    page: bool = option(
        True,
        "Write the page of the runs into the first one's folder.",
        "--page/--no-page",
    )
    allow_partial: bool = partial_option(
        "Leave broken results out; exit 0 if some are missing."
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr)


@command(ReportAsked)
def report(context: typer.Context, values: dict[str, Any]) -> None:
    """Report on runs: tables, chart, matrix, published records beside them."""
    asked = built(ReportAsked, values)
    if not asked.runs:
        raise UserError("report needs a run: give folders under predictions/")
    every = [record for path in asked.published for record in read_records(path)]
    found = read_columns(asked.runs, _say, allow_partial=asked.allow_partial)
    if not found:
        raise UserError(f"{asked.runs[0]} has no columns; run it again")
    write_run_records(found)
    columns = [c for c in found if _fits(asked, c.name.model, c.name.edit_format)]
    published = [r for r in every if _fits(asked, r["model"], r.get("edit_format"))]
    if not columns:
        raise UserError(
            f"--only {' '.join(asked.only)}: no column of the runs fits; see --help"
        )
    for line in _asked_for(asked, columns, published):
        print(line)
    name_wrong_ratios(published)
    if asked.chart:
        if asked.chart.suffix != ".svg":
            raise UserError(
                f"--chart {asked.chart}: the chart is SVG; give a name that ends in .svg"
            )
        bars = chart_bars(columns, published)
        if not bars:
            raise UserError("--chart: no column has a result; run the exercises first")
        write_chart(asked.chart, partial(draw_chart, bars))
        _say(f"chart          {asked.chart}")
    if asked.page:
        _say(
            f"page           {write_page(found[0].folder / 'report', columns, published)}"
        )
    if left := sum(len(column.open) for column in columns):
        fix = (
            ""
            if asked.allow_partial
            else "; run the same command again, or pass --allow-partial"
        )
        _say(f"not completed: {counted(left, 'exercise')}{fix}")
    raise typer.Exit(int(left > 0 and not asked.allow_partial))


def _fits(asked: ReportAsked, model: str, edit_format: object) -> bool:
    name = f"{model}@{edit_format}".lower()
    return not asked.only or any(fnmatchcase(name, one.lower()) for one in asked.only)


def _asked_for(
    asked: ReportAsked, columns: Sequence[Column], published: Sequence[Record]
) -> Iterable[str]:
    if asked.format == "csv":
        return [matrix_csv(columns).rstrip("\n")]
    found = report_of(columns, published)
    if asked.format == "json":
        return [json.dumps(found.as_json(), indent=1)]
    width = get_terminal_size().columns if sys.stdout.isatty() else None
    return report_lines(found, width)


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
    from reports.plots.write import drawn, write_picture

    redact = Redactor.of_environment(os.environ)
    bars = [
        replace(bar, model=redact(bar.model), edit_format=redact(bar.edit_format))
        for bar in chart_bars(columns, published)
    ]
    pictures = []
    if bars:
        draw = partial(draw_chart, bars)
        picture = drawn("exercises", "Exercises solved", chart_words(bars), draw)
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
