"""What ``report`` says of columns: one value, and its tables and matrix. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import TypeAdapter

from core.money import column as column_of_dollars
from core.money import in_words
from core.plaintext import table
from exercises.exercism.reporting.columns import (
    Column,
    ColumnPair,
    ColumnSummary,
    RankedExercise,
    RepeatSpread,
    Variants,
    by_language,
    column_pairs,
    ranking,
    spreads,
    summary,
    variants,
)
from exercises.exercism.reporting.records import Record
from exercises.reporting import csv_text
from reports.data.jsonvalues import dollars, number, whole
from reports.pages.markdown import NONE, of, percent, within
from reports.statistics.methods import Share

_OPEN = "not completed"
Lay = Callable[..., Iterator[str]]


@dataclass(frozen=True)
class ExercismReport:
    columns: tuple[ColumnSummary, ...]
    repeats: tuple[RepeatSpread, ...]
    pairs: tuple[ColumnPair, ...]
    languages: Mapping[str, Mapping[str, Share]]
    ranking: tuple[RankedExercise, ...]
    variants: Variants
    open: Mapping[str, tuple[str, ...]]
    published: tuple[Record, ...] = ()

    def as_json(self) -> Any:  # noqa: ANN401 - any JSON value
        """Return the report as a value of JSON; dates of records become texts."""
        return TypeAdapter(ExercismReport).dump_python(self, mode="json")


def report_of(columns: Sequence[Column], published: Sequence[Record] = ()) -> ExercismReport:
    return ExercismReport(
        columns=tuple(map(summary, columns)),
        repeats=spreads(columns),
        pairs=column_pairs(columns),
        languages=by_language(columns),
        ranking=ranking(columns),
        variants=variants(columns),
        open={column.label: column.open for column in columns if column.open},
        published=tuple(published),
    )


def report_lines(report: ExercismReport, width: int | None = None) -> Iterator[str]:
    """Yield the tables of a report as text, at most so wide where their columns allow it."""
    lay = partial(table, width=width)
    head, rows = column_rows(report)
    yield from lay(head, rows, numbers=range(1, len(head)))
    if report.published:
        yield "* published by others, as their file says; not recomputed"
    for label, keys in report.open.items():
        yield f"{_OPEN}: {label}: {len(keys)}: {', '.join(keys[:5])}{' …' if keys[5:] else ''}"
    yield from _repeats(report, lay)
    yield from _languages(report, lay)
    yield from _pairs(report, lay)
    if len(report.columns) > 1:
        ranked = [(one.exercise, f"{one.solved} of {one.completed}") for one in report.ranking]
        yield from ("", *lay(("exercise", "solved by"), ranked, numbers=(1,)))


def column_rows(report: ExercismReport) -> tuple[tuple[str, ...], list[list[object]]]:
    tries = max((len(one.solved) for one in report.columns), default=0)
    costs = column_of_dollars([one.dollars for one in report.columns])
    each = column_of_dollars([one.dollars_per_solved for one in report.columns])
    rows = [_row(one, tries, costs[place], each[place]) for place, one in enumerate(report.columns)]
    rows += [_published_row(record, tries) for record in report.published]
    numbered = [h for n in range(1, tries + 1) for h in (f"try {n}", "95 % interval")]
    head = (
        "column", "completed", *numbered, "well-formed", "tokens in", "tokens out", "dollars",
        "seconds each", "per solved",
    )  # fmt: skip
    return head, rows


def _row(one: ColumnSummary, tries: int, cost: str, each: str) -> list[object]:
    solved = []
    for share in one.solved:
        solved += [percent(share.share), NONE if share.interval is None else within(share.interval)]
    return [
        one.label,
        f"{one.completed} of {one.selected}",
        *solved,
        *[NONE] * (2 * tries - len(solved)),
        percent(one.well_formed.share),
        f"{one.sums['prompt_tokens']:,}",
        f"{one.sums['completion_tokens']:,}",
        cost,
        _seconds(one.seconds_each),
        NONE if one.dollars_per_solved is None else each,
    ]


def _published_row(record: Record, tries: int) -> list[object]:
    cells: list[object] = [f"{record['model']}@{record.get('edit_format', NONE)}*"]
    cases = whole(record.get("test_cases"))
    cells.append(NONE if cases is None else cases)
    for place in range(1, tries + 1):
        cells += [_plain_percent(record.get(f"pass_rate_{place}")), _published_reach(record, place)]
    cells.append(_plain_percent(record.get("percent_cases_well_formed")))
    for key in ("prompt_tokens", "completion_tokens"):
        tokens = whole(record.get(key))
        cells.append(NONE if tokens is None else f"{tokens:,}")
    cost = dollars(record.get("total_cost"))
    seconds = _seconds(number(record.get("seconds_per_case")))
    return [*cells, in_words(cost) if cost else NONE, seconds, NONE]


def _seconds(each: float | None) -> str:
    return NONE if each is None else f"{each:,.1f}"


def _published_reach(record: Record, place: int) -> str:
    cases, solved = whole(record.get("test_cases")), whole(record.get(f"pass_num_{place}"))
    if not cases or solved is None or solved > cases:
        return NONE
    return within(Share.made(solved, cases).interval)


def _plain_percent(value: object) -> str:
    rate = number(value)
    return NONE if rate is None else f"{rate:.1f} %"


def _repeats(report: ExercismReport, lay: Lay) -> Iterator[str]:
    if report.repeats:
        rows = []
        for one in report.repeats:
            shares = map(percent, (one.mean, one.least, one.greatest))
            rows.append((one.label, one.tries, len(one.shares), *shares))
        head = ("repeats of", "tries", "repeats", "mean", "minimum", "maximum")
        yield from ("", *lay(head, rows, numbers=range(1, 6)))


def _languages(report: ExercismReport, lay: Lay) -> Iterator[str]:
    names = sorted({name for found in report.languages.values() for name in found})
    if len(names) > 1:
        rows = [
            (label, *(of(found[name]) if name in found else NONE for name in names))
            for label, found in report.languages.items()
        ]
        yield from ("", *lay(("solved by language", *names), rows, numbers=range(1, 9)))


def _pairs(report: ExercismReport, lay: Lay) -> Iterator[str]:
    if report.pairs:
        rows = [
            (f"{pair.a}, {pair.b}", pair.table.only_a, pair.table.only_b, *_difference(pair))
            for pair in report.pairs
        ]
        head = ("A, B", "only A", "only B", "B less A", "95 % interval", "McNemar p")
        yield from ("", *lay(head, rows, numbers=range(1, 6)))


def _difference(pair: ColumnPair) -> tuple[str, str, str]:
    if pair.difference is None or pair.interval is None or pair.p_value is None:
        return NONE, NONE, NONE
    low, high = 100 * pair.interval.low, 100 * pair.interval.high
    return f"{100 * pair.difference:+.1f}", f"{low:+.1f} to {high:+.1f}", f"{pair.p_value:.4g}"


def variant_lines(found: Variants) -> Iterator[str]:
    yield f"requests sent more than once   {found.requests}"
    yield f"with different replies         {found.varied} ({found.replies} replies)"
    for label, keys in found.bubble.items():
        yield f"on the bubble: {label}: {len(keys)}: {', '.join(keys)}"
    if not found.bubble:
        yield "on the bubble: none"


def matrix_csv(columns: Sequence[Column]) -> str:
    """Return exercise × column as CSV: status, with the try that solved it."""
    keys = dict.fromkeys(key for column in columns for key in column.facts.exercises)
    rows = ([key, *(cell(column, key) for column in columns)] for key in keys)
    return csv_text(["exercise", *(column.label for column in columns)], rows)


def cell(column: Column, key: str) -> str:
    """Return how an exercise ended in a column; empty where the run has no such exercise."""
    result = column.results.get(key)
    if result is None:
        return _OPEN if key in column.open else ""
    return result.status.value + (f" {result.solved_at}" if result.solved_at else "")
