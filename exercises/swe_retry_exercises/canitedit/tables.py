"""A report in its forms: text, Markdown, CSV, JSON and a chart. Pure; see ``report.report_on``."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from swe_retry.kit import one_line, percent, quantity, table
from swe_retry_exercises.canitedit.metrics import EXCESS, SAMPLING, SHARES, ScoreRow
from swe_retry_exercises.canitedit.problems import (
    FIRST_PAPER,
    KINDS,
    TABLE_3,
    describe_problems,
)
from swe_retry_exercises.values import NONE, csv_text, number_text, values_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from swe_retry.kit import Theme

_SCORES_NOTE = """\
Intervals: 95%, percentile bootstrap over problems. ExcessCode with its standard \
error; m problems have a passing completion
with known coverage."""
_BEYOND_NOTE = """\
Lines: changed, of those that the solution changes. Distance: from before, characters.
The others: per cent of the completions."""
_HEADINGS = {
    "code": "ExcessCode code",
    "without_fence": "no fence",
    "not_parsing": "do not parse",
}


def report_json(rows: Sequence[ScoreRow], differences: Sequence[ScoreRow]) -> str:
    """Return all figures: shares from 0 to 1, ExcessCode in per cent."""
    report = {"rows": rows, "differences": differences}
    return json.dumps(report, indent=1, ensure_ascii=False)


def report_csv(rows: Sequence[ScoreRow]) -> str:
    """Return a line for each row, with all digits; empty for unknown."""
    cells = [map(_csv_cell, row.values()) for row in rows]
    return csv_text(rows[0], cells).removesuffix("\n")


def _csv_cell(value: object) -> object:
    """Return a value for a cell that no spreadsheet takes for a formula."""
    if not isinstance(value, str):
        return value
    text = one_line(value)
    if text.startswith(("=", "+", "-", "@")):
        return f"'{text}"
    return text


def report_text(
    rows: Sequence[ScoreRow], differences: Sequence[ScoreRow], *, markdown: bool
) -> str:
    """Return the tables; those in Markdown begin with the first paper's Table 3."""
    lines = list(_heads(rows))
    if markdown:
        lines += _section("First paper's Table 3", _table_3(rows), markdown)
    scores = list(map(_score_cells, rows))
    lines += _section("pass@k and ExcessCode, in per cent", scores, markdown)
    lines.append(_SCORES_NOTE)
    beyond = list(map(_beyond_cells, rows))
    lines += _section("Beyond the paper", beyond, markdown)
    lines.append(_BEYOND_NOTE)
    if differences:
        cells = list(map(_difference_cells, differences))
        lines += _section("Paired differences, in points", cells, markdown)
    return "\n".join(lines).strip("\n")


def _totals(rows: Sequence[ScoreRow]) -> dict[str, list[ScoreRow]]:
    """Return the rows over all problems by model, one for each instruction."""
    totals = defaultdict(list)
    for row in rows:
        if not row["by"]:
            totals[row["model"]].append(row)
    return totals


def _heads(rows: Sequence[ScoreRow]) -> Iterator[str]:
    for model, totals in _totals(rows).items():
        row = totals[0]
        parts = [row["problem_set"]]
        for name in SAMPLING:
            if row[name] is not None:
                parts.append(f"{name} {row[name]}")
        unknown = sum(values_of(totals, "unknown_coverage"))
        if unknown:
            completions = quantity(unknown, "passing completion")
            parts.append(f"{completions} without known coverage")
        yield one_line(f"{model}: {', '.join(parts)}")
        if row["faults"]:
            yield one_line(f"partial: {model}: {row['faults']}")


def _section(title: str, rows: Sequence[ScoreRow], markdown: bool) -> Iterator[str]:
    yield from ("", f"## {title}", "")
    cells = [list(row.values()) for row in rows]
    numbers = range(3, len(rows[0]))
    yield from table(list(rows[0]), cells, numbers=numbers, markdown=markdown)
    yield ""


def _percent(share: float | None, form: str = ".2f") -> str:
    if share is None:
        return NONE
    return format(100 * share, form)


def _name_cells(row: ScoreRow) -> ScoreRow:
    group = row["problem_set"]
    if row["by"]:
        group = f"{row['by']}: {row['group']}"
    return {
        "model": row["model"],
        "instruction": row["instruction"],
        "of": group,
        "problems": row["problems"],
    }


def _score_cells(row: ScoreRow) -> ScoreRow:
    cells = {**_name_cells(row), "completions": row["completions"]}
    for name, share in row.items():
        if name.startswith("pass@") and name[5:].isdigit():
            cells[name] = NONE
            if share is not None:
                cells[name] = f"{_percent(share)} ({_interval(row, f'{name}_')})"
    for name in EXCESS:
        heading = _HEADINGS.get(name, name)
        excess = row[f"excess_{name}"]
        cells[heading] = NONE
        if excess is not None:
            cells[heading] = f"{excess:.2f} ({row[f'excess_{name}_se']:.2f})"
    cells["m"] = row["m"]
    return cells


def _beyond_cells(row: ScoreRow) -> ScoreRow:
    cells = _name_cells(row)
    cells["lines"] = number_text(row["lines"], ".2f")
    cells["distance"] = number_text(row["distance"], ".1f")
    for name in SHARES:
        cells[_HEADINGS.get(name, name)] = _percent(row[name])
    return cells


def _difference_cells(row: ScoreRow) -> ScoreRow:
    problems = str(row["problems"] or NONE)
    if row["left_out"]:
        problems = f"{row['problems']}, {row['left_out']} left out"
    return {
        "B": row["b"],
        "less A": row["a"],
        "problems": problems,
        "pass@": row["k"],
        "difference": _percent(row["difference"], "+.2f"),
        "interval": _interval(row, "", "+.2f"),
    }


def _interval(row: ScoreRow, prefix: str, form: str = ".2f") -> str:
    low = row[f"{prefix}low"]
    if low is None:
        return NONE
    return f"{_percent(low, form)} to {_percent(row[f'{prefix}high'], form)}"


def _table_3(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    """Return our rows, then the published ones."""
    lines = []
    for model, totals in _totals(rows).items():
        source = "this report"
        if totals[0]["partial"]:
            source = "this report (partial)"
        problems = max(values_of(totals, "problems"))
        cells = {"source": source, "model": model, "size": "", "problems": problems}
        for name in ("pass@1", "ExcessCode v1"):
            for kind in KINDS:
                cells[f"{name} {kind}"] = NONE
        for row in totals:
            kind = row["instruction"]
            cells[f"pass@1 {kind}"] = _percent(row.get("pass@1"))
            cells[f"ExcessCode v1 {kind}"] = number_text(row["excess_v1"], ".2f")
        lines.append(cells)
    problems = "54 (other problems)"
    if set(values_of(rows, "problem_set")) == {describe_problems(FIRST_PAPER)}:
        problems = "54"
    for line in TABLE_3:
        group, model, size, *values = line.split(",")
        texts = [f"first paper, {group}", model, size, problems, *values]
        lines.append(dict(zip(cells, texts, strict=True)))
    return lines


_LINE = 0.6  # inches for a model
_FRAME = 1.1
_BAR = 0.38
_HATCHES = ("", "////")


def draw_scores(rows: Sequence[ScoreRow], theme: Theme) -> Figure:
    """Draw a bar for each model and instruction, the first model at the top."""
    from swe_retry.kit import label, new_figure, percent_axis

    models = list(dict.fromkeys(values_of(rows, "model")))
    figure, axes = new_figure(height=_FRAME + _LINE * len(models))
    bars_by_kind = defaultdict(list)
    for row in rows:
        if not row["by"] and row["pass@1"] is not None:
            bars_by_kind[row["instruction"]].append(row)
    for position, kind in enumerate(KINDS):
        bars = bars_by_kind[kind]
        offset = (position - 0.5) * _BAR
        shares = values_of(bars, "pass@1")
        container = axes.barh(
            [models.index(row["model"]) + offset for row in bars],
            shares,
            _BAR,
            xerr=[
                [abs(row["pass@1"] - row["pass@1_low"]) for row in bars],
                [abs(row["pass@1_high"] - row["pass@1"]) for row in bars],
            ],
            label=kind,
            capsize=3,
            color=theme.series[position],
            hatch=_HATCHES[position],
            ecolor=theme.ink,
        )
        axes.bar_label(container, list(map(percent, shares)), padding=5, fontsize=8)
    axes.set_yticks(range(len(models)), list(map(label, models)))
    axes.invert_yaxis()
    highs = values_of(chain.from_iterable(bars_by_kind.values()), "pass@1_high")
    highest = max(highs, default=1.0)
    percent_axis(axes.xaxis, 0, min(1.0, highest * 1.25))
    axes.set_xlabel("pass@1; 95 % interval (bootstrap over problems)")
    figure.legend(loc="outside upper right", ncols=2)
    return figure
