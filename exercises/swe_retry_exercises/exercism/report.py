"""Report on runs: ``python -m swe_retry_exercises.exercism report``."""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path
from shutil import get_terminal_size
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import quote

import typer
from pydantic_core import to_jsonable_python

from swe_retry.kit import (
    Interval,
    Redactor,
    Section,
    Share,
    Table,
    TextList,
    UserError,
    compare_verdicts,
    dollars,
    find_run,
    in_words,
    integer,
    number,
    of,
    percent,
    points,
    quantity,
    settings_command,
    some,
    table,
    write_text_atomic,
)
from swe_retry_exercises.exercism.records import (
    NOT_COMPLETED,
    Column,
    Record,
    pass_interval,
    read_columns,
    read_records,
    series_of,
    write_run_records,
    wrong_ratios,
)
from swe_retry_exercises.options import CHART
from swe_retry_exercises.values import (
    NONE,
    JsonObject,
    csv_text,
    number_text,
    say_aside,
    values_of,
)

if TYPE_CHECKING:
    from swe_retry.kit import Picture


def report_json(columns: Sequence[Column], published: Sequence[Record]) -> JsonObject:
    """Return all that the tables say."""
    not_completed = {}
    for column in columns:
        if column.open:
            not_completed[column.label] = column.open
    return {
        "columns": record_rows(columns),
        **further_tables(columns),
        "open": not_completed,
        "published": published,
    }


def report_lines(
    columns: Sequence[Column],
    published: Sequence[Record],
    width: int | None = None,
) -> Iterator[str]:
    """Yield the tables of a report as text, at most so wide where their columns allow it."""

    def lines(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
        return table(
            head,
            rows,
            numbers=range(1, len(head)),
            width=width,
        )

    yield from lines(*column_table(columns, published))
    if published:
        yield "* published by others, as their file says; not recomputed"
    for column in columns:
        if column.open:
            names = some(column.open, 5)
            yield f"{NOT_COMPLETED}: {column.label}: {len(column.open)}: {names}"
    for rows in further_tables(columns).values():
        if rows:
            yield ""
            cells = []
            for row in rows:
                cells.append([_cell(*item) for item in row.items()])
            yield from lines(list(rows[0]), cells)


def _cell(
    name: str,
    value: Any,  # noqa: ANN401 - of any row
) -> object:
    if value is None:
        return NONE
    if isinstance(value, Share):
        return of(value)
    if isinstance(value, Interval):
        return points(value)
    if name == "B less A":
        return f"{100 * value:+.1f}"
    if name == "McNemar p":
        return f"{value:.4g}"
    if isinstance(value, float):
        return percent(value)
    return value


def record_rows(columns: Sequence[Column]) -> list[JsonObject]:
    """Return the records of columns with their labels in this report."""
    return [{"label": column.label, **column.record} for column in columns]


def column_table(
    columns: Sequence[Column], published: Sequence[Record]
) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the records, ours and those of others."""
    rows = record_rows(columns)
    tries = range(
        1,
        max(values_of(rows, "tries")) + 1,
    )
    head = ["column", "completed"]
    for attempt in tries:
        head += [f"try {attempt}", "95 % interval"]
    head += ["well-formed", "tokens in", "tokens out"]
    head += ["dollars", "seconds each", "per solved"]
    return head, [_record_cells(record, tries) for record in (*rows, *published)]


def _record_cells(record: Record, tries: Iterable[int]) -> list[str]:
    label = record.get("label")
    completed = number_text(integer(record.get("test_cases")), "d")
    if label:
        completed += f" of {record['total_tests']}"
    else:
        label = f"{record['model']}@{record.get('edit_format', NONE)}*"
    cells = [label, completed]
    for attempt in tries:
        rate = number(record.get(f"pass_rate_{attempt}"))
        cells.append(number_text(rate, ".1f", " %"))
        interval = pass_interval(record, attempt) or ()
        bounds = [f"{bound:.1f} %" for bound in interval]
        cells.append(" to ".join(bounds) or NONE)
    well_formed = number(record.get("percent_cases_well_formed"))
    cells.append(number_text(well_formed, ".1f", " %"))
    cells.append(number_text(integer(record.get("prompt_tokens")), ",d"))
    cells.append(number_text(integer(record.get("completion_tokens")), ",d"))
    cells.append(_dollars(record.get("total_cost")))
    cells.append(number_text(number(record.get("seconds_per_case")), ",.1f"))
    cells.append(_dollars(record.get("cost_per_solved")))
    return cells


def _dollars(value: object) -> str:
    amount = dollars(value)
    return NONE if amount is None else in_words(amount)


def further_tables(columns: Sequence[Column]) -> dict[str, list[JsonObject]]:
    """Return the tables beside the first, by their names in JSON."""
    return {
        "repeats": list(_repeats(columns)),
        "languages": _languages(columns),
        "pairs": list(_pairs(columns)),
        "ranking": _ranking(columns),
    }


def _repeats(columns: Sequence[Column]) -> Iterator[JsonObject]:
    """Yield mean, least and greatest share of those that have several repeats."""
    for repeats in series_of(columns):
        if len(repeats) == 1:
            continue
        for tries in range(1, repeats[0].facts.tries + 1):
            shares = []
            for column in repeats:
                solved = column.record[f"pass_num_{tries}"]
                shares.append(solved / len(column.results))
            yield {
                "repeats of": repeats[0].label.partition(" #")[0],
                "tries": tries,
                "repeats": len(shares),
                "mean": fmean(shares),
                "minimum": min(shares),
                "maximum": max(shares),
            }


def _languages(columns: Sequence[Column]) -> list[JsonObject]:
    """Return the solved exercises by language, where there are several."""
    languages: dict[str, None] = {}
    rows = []
    for column in columns:
        row = {}
        outcomes = defaultdict(list)
        for key, is_solved in sorted(column.verdicts.items()):
            outcomes[key.partition("/")[0]].append(is_solved)
        for language, solved in outcomes.items():
            row[language] = Share.compute(sum(solved), len(solved))
        languages |= dict.fromkeys(row)
        rows.append({"solved by language": column.label, **row})
    if len(languages) < 2:
        return []
    blank = dict.fromkeys(["solved by language", *sorted(languages)])
    return [{**blank, **row} for row in rows]


def _pairs(columns: Sequence[Column]) -> Iterator[JsonObject]:
    """Compare any two columns of the same repeat."""
    for a, b in combinations(columns, 2):
        if a.name.repeat != b.name.repeat:
            continue
        pair = compare_verdicts(
            a.label,
            a.verdicts,
            b.label,
            b.verdicts,
        )
        yield {
            "A, B": f"{a.label}, {b.label}",
            "only A": pair.table.only_a,
            "only B": pair.table.only_b,
            "B less A": pair.difference,
            "95 % interval": pair.interval,
            "McNemar p": pair.p_value,
        }


def _ranking(columns: Sequence[Column]) -> list[JsonObject]:
    """Return the exercises, those that the fewest columns solve first."""
    if len(columns) == 1:
        return []
    verdicts = defaultdict(list)
    for column in columns:
        for key, solved in column.verdicts.items():
            verdicts[key].append(solved)
    rows = []
    for key in sorted(
        verdicts,
        key=lambda key: (fmean(verdicts[key]), key),
    ):
        solved_by = f"{sum(verdicts[key])} of {len(verdicts[key])}"
        rows.append({"exercise": key, "solved by": solved_by})
    return rows


def matrix_csv(columns: Sequence[Column]) -> str:
    """Return exercise × column as CSV: status, with the try that solved it."""
    rows = []
    for key in exercise_keys(columns):
        rows.append([key, *(column.ending(key) for column in columns)])
    return csv_text(
        ["exercise", *(column.label for column in columns)],
        rows,
    )


def exercise_keys(columns: Sequence[Column]) -> list[str]:
    """Return the exercises of all columns, in the order of the runs."""
    keys = {}
    for column in columns:
        keys.update(dict.fromkeys(column.facts.exercises))
    return list(keys)


OutputFormat = Literal["text", "json", "csv"]


class ReportedColumns(Section):
    """What of the runs is reported, and where."""

    page: bool = True
    """Write the page of the runs into the first one's folder."""

    only: TextList = ()
    """Show the columns and records whose MODEL@FORMAT fits, as gpt-4*."""

    allow_partial: bool = False
    """Leave broken results out; exit 0 if some are missing."""

    def shows(self, record: Record) -> bool:
        name = f"{record['model']}@{record.get('edit_format')}".lower()
        matches = [fnmatchcase(name, pattern.lower()) for pattern in self.only]
        return not matches or any(matches)


class ExercismReportSettings(Section):
    """What the report is told."""

    report: ReportedColumns = ReportedColumns()


@settings_command(ExercismReportSettings, "runs")
def main(
    settings: ExercismReportSettings,
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN",
            parser=find_run,
            help="Report on these runs: names, or folders under predictions/.",
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
    if not runs:
        raise UserError("report needs a run: give folders under predictions/")
    if chart and chart.suffix != ".svg":
        raise UserError(
            f"--chart {chart}: the chart is SVG; give a name that ends in .svg"
        )
    chosen = settings.report
    records: list[Record] = []
    for path in published or ():
        records += filter(chosen.shows, read_records(path))
    every = read_columns(
        runs,
        say_aside,
        allow_partial=chosen.allow_partial,
    )
    if not every:
        raise UserError(f"{runs[0]} has no columns; run it again")
    write_run_records(every)
    columns = []
    for column in every:
        if chosen.shows(column.record):
            columns.append(column)
    if not columns:
        patterns = ",".join(chosen.only)
        raise UserError(f"report.only {patterns}: no column of the runs fits")
    _print_report(format, columns, records)
    for record in records:
        for key, fault in wrong_ratios(record):
            name = record.get("dirname") or record["model"]
            say_aside(f"wrong ratio    {name}: {key} is {record[key]}, but {fault}")
    _write_pictures(
        every[0].folder / "report",
        columns,
        records,
        chart,
        chosen.page,
    )
    open_count = _open_count(columns)
    if open_count:
        fix = "; run the same command again, or set report.allow_partial=true"
        if chosen.allow_partial:
            fix = ""
        say_aside(f"not completed: {quantity(open_count, 'exercise')}{fix}")
    return int(open_count > 0 and not chosen.allow_partial)


def _open_count(columns: Sequence[Column]) -> int:
    return sum(len(column.open) for column in columns)


def _print_report(
    format: OutputFormat,
    columns: Sequence[Column],
    published: Sequence[Record],
) -> None:
    if format == "csv":
        print(matrix_csv(columns), end="")
    elif format == "json":
        report = to_jsonable_python(report_json(columns, published))
        print(json.dumps(report, indent=1))
    else:
        width = get_terminal_size().columns if sys.stdout.isatty() else None
        for text in report_lines(columns, published, width):
            print(text)


def _write_pictures(
    folder: Path,
    columns: Sequence[Column],
    published: Sequence[Record],
    chart: Path | None,
    page: bool,
) -> None:
    if not chart and not page:
        return
    # Imported here: matplotlib takes half a second, which only charts need.
    from swe_retry_exercises.charts import write_chart
    from swe_retry_exercises.exercism.chart import draw_columns

    redact = Redactor.of_environment()
    picture = draw_columns(columns, published, redact)
    if chart:
        if picture is None:
            raise UserError("--chart: no column has a result; run the exercises first")
        write_chart(picture, chart)
        say_aside(f"chart          {chart}")
    if page:
        _write_page(folder, columns, published, picture, redact)
        say_aside(f"page           {folder / 'report.html'}")


def _write_page(
    folder: Path,
    columns: Sequence[Column],
    published: Sequence[Record],
    picture: Picture | None,
    redact: Redactor,
) -> None:
    # Imported here: only pages need jinja2 and pygments.
    from swe_retry.kit import Renderer, write_picture

    pictures = []
    if picture:
        write_picture(picture, folder / "figures")
        pictures.append(picture)
    head, rows = column_table(columns, published)
    runs = dict.fromkeys(column.folder.name for column in columns)
    view = {
        "title": f"Exercism: {', '.join(runs)}",
        "labels": [column.label for column in columns],
        "columns": Table(
            "Columns",
            tuple(head),
            tuple(rows),
        ),
        "rows": [_row(folder, key, columns) for key in exercise_keys(columns)],
        "open": _open_count(columns),
    }
    page = Renderer(redact).page(
        "exercises",
        view=view,
        pictures=pictures,
    )
    write_text_atomic(folder / "report.html", page)


def _row(folder: Path, key: str, columns: Sequence[Column]) -> JsonObject:
    """Return a row of the matrix exercise × column."""
    cells = []
    for column in columns:
        link = ""
        transcript = column.transcript(key)
        if transcript.is_file():
            link = quote(Path(os.path.relpath(transcript, folder)).as_posix())
        style = "wait"
        if key in column.results:
            style = "good" if column.verdicts[key] else "bad"
        cells.append({"words": column.ending(key), "style": style, "link": link})
    styles = values_of(cells, "style")
    agreement = "no column"
    if "good" in styles:
        agreement = "some columns" if "bad" in styles else "every column"
    return {
        "exercise": key,
        "language": key.partition("/")[0],
        "solved": styles.count("good"),
        "agreement": agreement,
        "cells": cells,
    }
