"""Pure: a report as text, Markdown, CSV and JSON."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

from pydantic import TypeAdapter

from core.plaintext import counted, one_line, table
from exercises.canitedit.problems import InstructionKind
from exercises.canitedit.published import FIRST_PAPER, TABLE_3, PublishedRow
from exercises.canitedit.reporting.figures import Estimate, ExcessMean, GroupFigures
from exercises.canitedit.reporting.folder import describe_problems
from exercises.canitedit.reporting.report import EditingReport, ModelReport, PassDifference
from reports.statistics.methods.intervals import CONFIDENCE, Interval

UNKNOWN = "–"
_OTHER = "54 (other problems)"
_INTERVALS = f"Intervals: {CONFIDENCE:.0%}, percentile bootstrap over problems."


def report_lines(report: EditingReport, *, markdown: bool) -> Iterator[str]:
    """Yield the tables of a report, in Markdown after the first paper's Table 3 with its rows."""
    for model in report.models:
        yield _described(model)
        yield from (f"partial: {one_line(model.name)}: {fault}" for fault in model.faults)
    if markdown:
        yield from _section("First paper's Table 3", _table_3(report))
    yield from _section("pass@k and ExcessCode, in per cent", _scores(report, markdown))
    yield f"{_INTERVALS} ExcessCode with its standard error; m problems have a passing completion"
    yield "with known coverage."
    yield from _section("Beyond the paper", _beyond(report, markdown))
    yield "Lines: changed, of those that the solution changes. Distance: from before, characters."
    yield "The others: per cent of the completions."
    if report.differences:
        yield from _section("Paired differences, in points", _differences(report, markdown))


def _described(model: ModelReport) -> str:
    names = ("prompt", "temperature", "top_p", "max_tokens")
    known = {name: getattr(model, name) for name in names}
    said = [f"{name} {value}" for name, value in known.items() if value is not None]
    lacking = sum(found[0].unknown_coverage for found in model.figures.values())
    if lacking:
        said += [f"{counted(lacking, 'passing completion')} without known coverage"]
    return one_line(f"{model.name}: {', '.join([model.problems, *said])}")


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    yield from ("", f"## {title}", "", *lines, "")


def _rows(report: EditingReport) -> Iterator[tuple[ModelReport, InstructionKind, GroupFigures]]:
    for model in report.models:
        for kind, found in model.figures.items():
            yield from ((model, kind, figures) for figures in found)


def _named(model: ModelReport, kind: InstructionKind, figures: GroupFigures) -> list[object]:
    group = f"{figures.by}: {figures.group}" if figures.by else model.problems
    return [model.name, kind.value, group, figures.problems]


_NAMES = ("model", "instruction", "of", "problems")


def _scores(report: EditingReport, markdown: bool) -> Iterator[str]:
    headings = [*_NAMES, "completions", *(f"pass@{k}" for k in report.ks)]
    headings += ["ExcessCode code", "changed", "v1", "m"]
    rows = [
        [
            *_named(model, kind, one),
            one.completions,
            *(_estimate(one.pass_at_k[k]) for k in report.ks),
            *map(_excess, (one.code, one.changed, one.v1)),
            one.code.problems if one.code else 0,
        ]
        for model, kind, one in _rows(report)
    ]
    return table(headings, rows, numbers=range(3, len(headings)), markdown=markdown)


def _beyond(report: EditingReport, markdown: bool) -> Iterator[str]:
    headings = [*_NAMES, "lines", "distance", "unchanged", "truncated", "no fence", "empty"]
    headings += ["do not parse"]
    rows = [
        [
            *_named(model, kind, one),
            UNKNOWN if one.lines is None else f"{one.lines:.2f}",
            UNKNOWN if one.distance is None else f"{one.distance:.1f}",
            *map(_percent, (one.unchanged, one.truncated, one.without_fence, one.empty)),
            _percent(one.not_parsing),
        ]
        for model, kind, one in _rows(report)
    ]
    return table(headings, rows, numbers=range(3, len(headings)), markdown=markdown)


def _differences(report: EditingReport, markdown: bool) -> Iterator[str]:
    headings = ("B", "less A", "problems", "pass@", "difference", "interval")
    rows = [[one.b, one.a, *_difference(one)] for one in report.differences]
    return table(headings, rows, numbers=(3, 4, 5), markdown=markdown)


def _difference(one: PassDifference) -> list[object]:
    means = one.means
    if means is None:
        return [UNKNOWN, one.k, UNKNOWN, UNKNOWN]
    problems = str(means.problems) + f", {means.left_out} left out" * bool(means.left_out)
    if means.difference is None:
        return [problems, one.k, UNKNOWN, UNKNOWN]
    return [problems, one.k, f"{100 * means.difference:+.2f}", _interval(means.interval, "+.2f")]


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.2f}"


def _interval(interval: Interval | None, form: str = ".2f") -> str:
    if interval is None:
        return UNKNOWN
    return f"{100 * interval.low:{form}} to {100 * interval.high:{form}}"


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return UNKNOWN
    return f"{_percent(estimate.mean)} ({_interval(estimate.interval)})"


def _excess(excess: ExcessMean | None) -> str:
    return UNKNOWN if excess is None else f"{excess.mean:.2f} ({excess.standard_error:.2f})"


def _table_3(report: EditingReport) -> Iterator[str]:
    """Yield the form of the first paper's Table 3: our rows first, then the published ones."""
    headings = ["source", "model", "size", "problems", "pass@1 descriptive", "pass@1 lazy"]
    headings += ["ExcessCode v1 descriptive", "ExcessCode v1 lazy"]
    same = all(model.problems == describe_problems(FIRST_PAPER) for model in report.models)
    rows = [[_own(model), *_own_cells(model)] for model in report.models]
    rows += [["first paper, " + row.group, *_published(row, same=same)] for row in TABLE_3]
    return table(headings, rows, numbers=range(3, len(headings)), markdown=True)


def _own(model: ModelReport) -> str:
    return "this report" + (" (partial)" if model.faults else "")


def _own_cells(model: ModelReport) -> list[object]:
    every = [model.figures.get(kind) for kind in InstructionKind]
    first = [found[0] if found else None for found in every]
    passed = [one.pass_at_k.get(1) if one else None for one in first]
    excess = [one.v1 if one else None for one in first]
    cells = [UNKNOWN if one is None else _percent(one.mean) for one in passed]
    cells += [UNKNOWN if one is None else f"{one.mean:.2f}" for one in excess]
    return [model.name, "", max(one.problems for one in first if one), *cells]


def _published(row: PublishedRow, *, same: bool) -> list[object]:
    cells = (row.pass_descriptive, row.pass_lazy, row.excess_descriptive, row.excess_lazy)
    problems = "54" if same else _OTHER
    return [row.model, row.size, problems, *(f"{value:.2f}" for value in cells)]


def report_json(report: EditingReport) -> dict[str, Any]:
    """Return a report as JSON: shares from 0 to 1, ExcessCode in per cent, null for unknown."""
    plain: dict[str, Any] = TypeAdapter(EditingReport).dump_python(report, mode="json")
    return plain


def report_csv(report: EditingReport) -> str:
    """Return a line for each model, instruction and group, with all digits; empty for unknown."""
    rows = [_flat(model, kind, one) for model, kind, one in _rows(report)]
    stream = StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _flat(model: ModelReport, kind: InstructionKind, figures: GroupFigures) -> dict[str, object]:
    row: dict[str, object] = {
        "model": _cell(model.name),
        "instruction": kind.value,
        "by": figures.by,
        "group": _cell(figures.group),
        "temperature": model.temperature,
        "partial": bool(model.faults),
        "problems": figures.problems,
        "completions": figures.completions,
    }
    for k, estimate in figures.pass_at_k.items():
        interval = estimate.interval if estimate else None
        row |= {f"pass@{k}": estimate.mean if estimate else None}
        row |= {f"pass@{k}_low": interval.low if interval else None}
        row |= {f"pass@{k}_high": interval.high if interval else None}
    for name, excess in _excesses(figures).items():
        row |= {f"excess_{name}": excess.mean if excess else None}
        row |= {f"excess_{name}_se": excess.standard_error if excess else None}
    row |= {"m": figures.code.problems if figures.code else 0}
    return row | {name: getattr(figures, name) for name in _PLAIN}


_PLAIN: Sequence[str] = (
    "lines", "distance", "unchanged", "truncated", "without_fence", "empty", "not_parsing",
    "unknown_coverage",
)  # fmt: skip


def _excesses(figures: GroupFigures) -> Mapping[str, ExcessMean | None]:
    return {"code": figures.code, "changed": figures.changed, "v1": figures.v1}


def _cell(text: str) -> str:
    """Return a text of others for a cell that no spreadsheet takes for a formula."""
    plain = one_line(text)
    return f"'{plain}" if plain.startswith(("=", "+", "-", "@")) else plain
