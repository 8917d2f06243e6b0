"""The commands that read results: ``report``, ``diff`` and ``check``."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from shutil import get_terminal_size
from typing import Any
from urllib.parse import quote

import typer

from core.atomic import write_text_atomic
from core.errors import UserError
from core.options import built, command, option, option_group
from core.plaintext import counted, table
from core.redaction import Redactor
from exercises.exercism.reporting.chart import chart_svg, chart_words, draw_chart
from exercises.exercism.reporting.columns import Column, read_columns
from exercises.exercism.reporting.comparing import outcome_differences
from exercises.exercism.reporting.records import (
    RECORD,
    Record,
    read_records,
    record_of,
    write_records,
)
from exercises.exercism.reporting.report import (
    cell,
    chart_bars,
    column_rows,
    matrix_csv,
    report_lines,
    report_of,
    variant_lines,
)
from reports.cli.options import csv_option, json_option, partial_option
from reports.data.jsonvalues import number, whole
from reports.pages.tables import Table
from reports.statistics.methods.intervals import wilson

_RUNS = "give folders under predictions/"


@option_group
class ReportAsked:
    runs: tuple[Path, ...] = option((), "Runs: folders under predictions/.", "runs", argument=True)
    chart: Path | None = option(
        None, "Draw the chart: FILE.svg, and FILE-dark.svg for dark pages.", "--chart"
    )
    published: tuple[Path, ...] = option(
        (), "Records of others (YAML) to show beside; repeatable.", "--published"
    )
    only: tuple[str, ...] = option(
        (), "Show the columns and records whose MODEL@FORMAT fits, as gpt-4*; repeatable.", "--only"
    )
    as_json: bool = json_option("Print everything as JSON alone.")
    as_csv: bool = csv_option("Print the matrix exercise × column as CSV alone.")
    variants: bool = option(
        False, "Print which requests received different replies alone.", "--variants"
    )
    page: bool = option(
        True, "Write the page of the runs into the first one's folder.", "--page/--no-page"
    )
    allow_partial: bool = partial_option("Leave broken results out; exit 0 if some are missing.")


@option_group
class DiffAsked:
    runs: tuple[Path, ...] = option((), "Two runs.", "runs", argument=True)
    allow_partial: bool = partial_option("Leave broken results out.")


@option_group
class CheckAsked:
    files: tuple[Path, ...] = option((), "Records (YAML).", "files", argument=True)


def _say(line: str) -> None:
    print(line, file=sys.stderr)


@command(ReportAsked)
def report(context: typer.Context, values: dict[str, Any]) -> None:
    """Report on runs: tables, chart, matrix, published records beside them."""
    asked = built(ReportAsked, values)
    if not asked.runs:
        raise UserError(f"report needs a run: {_RUNS}")
    alone = asked.as_json + asked.as_csv + asked.variants
    if alone > 1:
        raise UserError("--json, --csv and --variants exclude each other; give one")
    every = [record for path in asked.published for record in read_records(path)]
    found = read_columns(asked.runs, _say, allow_partial=asked.allow_partial)
    if not found:
        raise UserError(f"{asked.runs[0]} has no columns; run it again")
    write_run_records(found)
    columns = [c for c in found if _fits(asked, c.name.model, c.name.edit_format)]
    published = [r for r in every if _fits(asked, r["model"], r.get("edit_format"))]
    if not columns:
        raise UserError(f"--only {' '.join(asked.only)}: no column of the runs fits; see --help")
    for line in _asked_for(asked, columns, published):
        print(line)
    if asked.chart:
        _say(f"chart          {_write_chart(asked.chart, columns, published)}")
    if asked.page and not alone:
        _say(f"page           {write_page(found[0].folder / 'report', columns, published)}")
    if left := sum(len(column.open) for column in columns):
        fix = "" if asked.allow_partial else "; run the same command again, or pass --allow-partial"
        _say(f"not completed: {counted(left, 'exercise')}{fix}")
    raise typer.Exit(int(left > 0 and not asked.allow_partial))


def _fits(asked: ReportAsked, model: str, edit_format: object) -> bool:
    name = f"{model}@{edit_format}".lower()
    return not asked.only or any(fnmatchcase(name, one.lower()) for one in asked.only)


def _asked_for(
    asked: ReportAsked, columns: Sequence[Column], published: Sequence[Record]
) -> Iterable[str]:
    if asked.as_csv:
        return [matrix_csv(columns).rstrip("\n")]
    found = report_of(columns, published)
    if asked.as_json:
        return [json.dumps(found.as_json(), indent=1)]
    width = get_terminal_size().columns if sys.stdout.isatty() else None
    return variant_lines(found.variants) if asked.variants else report_lines(found, width)


def write_run_records(columns: Sequence[Column]) -> None:
    for folder in dict.fromkeys(column.folder for column in columns):
        own = [record_of(column) for column in columns if column.folder == folder]
        write_records(folder / RECORD, own)


def _write_chart(path: Path, columns: Sequence[Column], published: Sequence[Record]) -> Path:
    if path.suffix != ".svg":
        raise UserError(f"--chart {path}: the chart is SVG; give a name that ends in .svg")
    from reports.plots.style import DARK, LIGHT

    bars = chart_bars(columns, published)
    if not bars:
        raise UserError("--chart: no column has a result; run the exercises first")
    write_text_atomic(path, chart_svg(bars, LIGHT))
    write_text_atomic(path.with_name(f"{path.stem}-dark.svg"), chart_svg(bars, DARK))
    return path


@command(DiffAsked)
def diff(context: typer.Context, values: dict[str, Any]) -> None:
    """List the exercises whose outcome differs between two runs."""
    asked = built(DiffAsked, values)
    if len(asked.runs) != 2:
        raise UserError(f"diff compares two runs: {_RUNS}")
    a, b = (read_columns([run], _say, allow_partial=asked.allow_partial) for run in asked.runs)
    found, alone = outcome_differences(a, b)
    if len(alone) == len(a) + len(b):
        raise UserError("the runs have no column in common: their models or formats differ")
    for name in alone:
        _say(f"only in one run: {name}")
    missing = "not completed"
    rows = [
        (one.column, one.exercise, one.a.value if one.a else missing,
         one.b.value if one.b else missing)
        for one in found
    ]  # fmt: skip
    lines = table(("column", "exercise", "first run", "second run"), rows)
    print("\n".join(lines) if found else "no outcome differs")
    raise typer.Exit(int(bool(found)))


@command(CheckAsked)
def check(context: typer.Context, values: dict[str, Any]) -> None:
    """Recompute the ratios of records from their own counts, and name each that differs."""
    files = built(CheckAsked, values).files
    if not files:
        raise UserError("check needs a file of records: FILE.yml")
    every = [(path, record) for path in files for record in read_records(path)]
    found = [(path, fault) for path, record in every for fault in ratio_faults(record)]
    for path, fault in found:
        print(f"{path}: {fault.record}: {fault.key} is {fault.written}, but {fault.why}")
    faulty = len({(path, fault.record) for path, fault in found})
    print(f"checked        {counted(len(every), 'record')}, {faulty} with a wrong ratio")
    raise typer.Exit(int(bool(found)))


# Half of the last printed decimal, and what floating point adds.
_HALF = 0.05 + 1e-9
_RATE = re.compile(r"pass_rate_(\d+)")
_INTERVAL = re.compile(r"pass_interval_(\d+)")


@dataclass(frozen=True)
class RatioFault:
    """A ratio of a record that its counts do not give; ``why`` says what they give."""

    record: str
    key: str
    written: object
    why: str


def ratio_faults(record: Record) -> Iterator[RatioFault]:
    """Yield the ratios of a record that differ from what its own counts give.

    ``pass_rate_i`` is 100 × ``pass_num_i`` / ``test_cases``; where the number is missing, some
    whole number of cases must give the rate. The share of well-formed cases is 100 × (1 −
    ``num_with_malformed_responses`` / ``test_cases``); where that number is missing,
    ``num_malformed_responses`` bounds it. All have one decimal.
    """
    name = str(record.get("dirname") or record.get("model"))
    cases = whole(record.get("test_cases"))
    for key, written in record.items():
        why = _why(record, str(key), cases) if cases else ""
        if why:
            yield RatioFault(name, str(key), written, why)


def _why(record: Record, key: str, cases: int) -> str:
    if rate := _RATE.fullmatch(key):
        return _wrong_rate(record, key, whole(record.get(f"pass_num_{rate[1]}")), cases)
    if key == "percent_cases_well_formed":
        return _wrong_well_formed(record, key, cases)
    if around := _INTERVAL.fullmatch(key):
        return _wrong_interval(record, key, whole(record.get(f"pass_num_{around[1]}")), cases)
    return ""


def _wrong_rate(record: Record, key: str, solved: int | None, cases: int) -> str:
    written = number(record.get(key))
    if written is None:
        return ""
    if solved is None:
        return "" if _reachable(written, cases) else _unreachable(cases)
    if _equal(written, solved, cases):
        return ""
    every = whole(record.get("total_tests"))
    other = every is not None and every != cases and _equal(written, solved, every)
    hint = f"; of all {every} it is {_rate(solved, every)}" if other and every else ""
    return f"{solved} of {cases} is {_rate(solved, cases)}{hint}"


def _wrong_well_formed(record: Record, key: str, cases: int) -> str:
    written = number(record.get(key))
    if written is None:
        return ""
    malformed = whole(record.get("num_with_malformed_responses"))
    replies = whole(record.get("num_malformed_responses"))
    if malformed is None and replies == 0:
        malformed = 0
    if malformed is not None:
        if _equal(written, cases - malformed, cases):
            return ""
        well = cases - malformed
        return f"{malformed} malformed cases of {cases} leave {well}, {_rate(well, cases)}"
    if not _reachable(written, cases):
        return _unreachable(cases)
    if replies is None:
        return ""
    # Each malformed case has at least one malformed reply, and each reply belongs to a case.
    most = _rate(cases - 1, cases)
    if _equal(written, cases, cases):
        return f"{replies} malformed replies give at most {most}"
    least = max(0, cases - replies)
    if written + _HALF < 100 * least / cases:
        return f"{replies} malformed replies give at least {_rate(least, cases)}"
    return ""


def _wrong_interval(record: Record, key: str, solved: int | None, cases: int) -> str:
    written = record.get(key)
    bounds = written if isinstance(written, list) else []
    if solved is None or solved > cases or len(bounds) != 2:
        return ""
    found = wilson(solved, cases)
    wanted = [100 * found.low, 100 * found.high]
    pairs = zip(map(number, bounds), wanted, strict=True)
    if all(given is not None and abs(given - own) <= _HALF for given, own in pairs):
        return ""
    return f"{solved} of {cases} has {wanted[0]:.1f} to {wanted[1]:.1f} (Wilson, 95 %)"


def _equal(written: float, count: int, of: int) -> bool:
    return abs(100 * count / of - written) <= _HALF


def _reachable(written: float, cases: int) -> bool:
    near = written * cases / 100
    return any(
        0 <= count <= cases and _equal(written, count, cases)
        for count in (math.floor(near), math.ceil(near))
    )


def _unreachable(cases: int) -> str:
    return f"no whole number of {cases} cases gives it"


def _rate(count: int, of: int) -> str:
    return f"{100 * count / of:.1f}"


_CHART = "exercises"


@dataclass(frozen=True)
class MatrixCell:
    """One exercise in one column: its outcome, and the address of its transcript or nothing."""

    words: str
    style: str
    link: str


@dataclass(frozen=True)
class MatrixRow:
    exercise: str
    language: str
    solved: int
    agreement: str
    cells: tuple[MatrixCell, ...]


@dataclass(frozen=True)
class ExercisesView:
    """The content of the page; ``open`` is the number of results that are missing."""

    title: str
    labels: tuple[str, ...]
    columns: Table
    rows: tuple[MatrixRow, ...]
    open: int


def write_page(folder: Path, columns: Sequence[Column], published: Sequence[Record]) -> Path:
    # Imported here: only pages need jinja2 and pygments.
    from reports.pages.render import Renderer
    from reports.pages.write import PagePicture
    from reports.plots.write import drawn, write_picture

    redact = Redactor.of_environment(os.environ)
    bars = [
        replace(bar, model=redact(bar.model), edit_format=redact(bar.edit_format))
        for bar in chart_bars(columns, published)
    ]
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


def exercises_view(
    folder: Path, columns: Sequence[Column], published: Sequence[Record]
) -> ExercisesView:
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
    cells = []
    for column in columns:
        verdict = column.verdicts.get(key)
        style = "wait" if verdict is None else "good" if verdict else "bad"
        transcript = column.chats.get(key, Path())
        link = quote(Path(os.path.relpath(transcript, folder)).as_posix())
        link = link if transcript.is_file() else ""
        cells.append(MatrixCell(cell(column, key), style, link))
    return MatrixRow(
        exercise=key,
        language=key.partition("/")[0],
        solved=sum(solved),
        agreement=agreement,
        cells=tuple(cells),
    )
