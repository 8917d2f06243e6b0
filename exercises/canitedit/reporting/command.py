"""Evaluate completions and score them: ``python -m exercises.canitedit report DIR…``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from pydantic import TypeAdapter

from core.errors import StoppedError, UserError
from core.plaintext import counted, one_line, table
from core.settings import CommandLine, SettingFlag, command
from exercises.canitedit.evaluation.evaluate import evaluate
from exercises.canitedit.problems import (
    FIRST_PAPER,
    TABLE_3,
    InstructionKind,
)
from exercises.canitedit.reporting.report import (
    EditingReport,
    Estimate,
    ExcessMean,
    GroupFigures,
    ModelReport,
    describe_problems,
    editing_report,
    model_folders_in,
    read_folder,
)
from exercises.canitedit.settings import CompletionReportSettings
from exercises.reporting import CHART, csv_text, write_chart
from reports.statistics.methods import CONFIDENCE, Interval
from runs.signals import INTERRUPTED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from reports.plots.style import Theme

EVALUATION = "Evaluation"
OutputForm = Literal["text", "markdown", "csv", "json"]


FLAGS = (
    SettingFlag("evaluation.environment", "--environment", "PLACE", EVALUATION),
    SettingFlag("evaluation.workers", "--workers", "N", EVALUATION, "-w"),
)


@command(CompletionReportSettings, FLAGS)
def main(
    line: CommandLine[CompletionReportSettings],
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DIR",
            help="Score these runs, or folders of files *.json.gz, one for each model.",
            show_default=False,
        ),
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option(
            CHART, metavar="FILE", help="Draw a chart of pass@1: .svg or .png."
        ),
    ] = None,
    format: Annotated[
        OutputForm,
        typer.Option(
            help="Print the report as text, markdown (the first paper's Table 3 first), csv or "
            "json."
        ),
    ] = "text",
) -> int:
    """Run the programs that were not evaluated, and report pass@k, ExcessCode and more."""
    settings = line.load()
    first_word = str(folders[0]) if folders else ""
    if line.prints(settings, first_word):
        return 0
    if not folders:
        raise UserError(
            "no folder given; usage: python -m exercises.canitedit report DIR…"
        )
    _check_chart(chart, settings.report.k)
    of_models = list(chain.from_iterable(map(model_folders_in, folders)))
    if len({folder.resolve() for folder in of_models}) < len(of_models):
        raise UserError("a folder is given twice; leave one of them out")
    try:
        evaluated = evaluate(of_models, settings)
    except StoppedError:
        return INTERRUPTED
    v1 = settings.problems.v1
    allow_partial = settings.report.allow_partial
    scored = [read_folder(p, v1=v1, allow_partial=allow_partial) for p in evaluated]
    report = editing_report(scored, settings.report.k, settings.report.by)
    if chart is not None:
        for path in write_chart(chart, partial(draw_scores, report)):
            print(f"wrote {path}", file=sys.stderr)
    print(printed(report, format))
    return 0


def _check_chart(chart: Path | None, ks: Sequence[int]) -> None:
    if chart is None:
        return
    if 1 not in ks:
        raise UserError(f"--chart {chart} shows pass@1; add 1 to report.k")
    if chart.suffix not in (".svg", ".png"):
        raise UserError(f"--chart {chart}: give a name that ends in .svg or .png")


def printed(report: EditingReport, form: OutputForm) -> str:
    """Return a report in a form; JSON has shares from 0 to 1, ExcessCode in per cent."""
    if form == "json":
        plain = TypeAdapter(EditingReport).dump_python(report, mode="json")
        return json.dumps(plain, indent=1, ensure_ascii=False)
    if form == "csv":
        # A line for each model, instruction and group, with all digits; empty for unknown.
        rows = [_flat(*row) for row in _rows(report)]
        return csv_text(rows[0], (row.values() for row in rows)).removesuffix("\n")
    lines = report_lines(report, markdown=form == "markdown")
    return "\n".join(lines).strip("\n")


_LINE = 0.6  # inches for a model
_FRAME = 1.1
_BAR = 0.38


def draw_scores(report: EditingReport, theme: Theme) -> Figure:
    """Draw a bar for each model and instruction, the first model at the top."""
    from reports.plots.style import HATCHES, label, new_figure, percent_axis

    figure, axes = new_figure(height=_FRAME + _LINE * len(report.models))
    for place, kind in enumerate(InstructionKind):
        found = [
            (y, one) for y, m in enumerate(report.models) if (one := _pass_1(m, kind))
        ]
        heights = [y + (place - 0.5) * _BAR for y, _ in found]
        means = [one.mean for _, one in found]
        around = [one.interval or Interval(one.mean, one.mean) for _, one in found]
        below = [
            max(mean - one.low, 0) for mean, one in zip(means, around, strict=True)
        ]
        above = [
            max(one.high - mean, 0) for mean, one in zip(means, around, strict=True)
        ]
        axes.barh(
            heights,
            means,
            _BAR,
            xerr=[below, above],
            label=kind.value,
            capsize=3,
            color=theme.series[place],
            hatch=HATCHES[place],
            ecolor=theme.ink,
        )
        for y, mean, bounds in zip(heights, means, around, strict=True):
            axes.annotate(
                f"{100 * mean:.1f} %",
                (bounds.high, y),
                (5, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
            )
    axes.set_yticks(
        range(len(report.models)), [label(model.name) for model in report.models]
    )
    axes.invert_yaxis()
    shown = [
        one
        for m in report.models
        for kind in InstructionKind
        if (one := _pass_1(m, kind))
    ]
    highest = max((one.interval.high for one in shown if one.interval), default=1.0)
    percent_axis(axes.xaxis, 0, min(1.0, highest * 1.25))
    axes.set_xlabel("pass@1; 95 % interval (bootstrap over problems)")
    figure.legend(loc="outside upper right", ncols=2)
    return figure


def _pass_1(model: ModelReport, kind: InstructionKind) -> Estimate | None:
    return model.figures[kind][0].pass_at_k.get(1) if kind in model.figures else None


UNKNOWN = "–"
_OTHER = "54 (other problems)"
_INTERVALS = f"Intervals: {CONFIDENCE:.0%}, percentile bootstrap over problems."


def report_lines(report: EditingReport, *, markdown: bool) -> Iterator[str]:
    """Yield the tables of a report, in Markdown after the first paper's Table 3 with its rows."""
    for model in report.models:
        names = ("prompt", "temperature", "top_p", "max_tokens")
        known = {name: getattr(model, name) for name in names}
        said = [f"{name} {value}" for name, value in known.items() if value is not None]
        if lacking := sum(
            found[0].unknown_coverage for found in model.figures.values()
        ):
            said += [f"{counted(lacking, 'passing completion')} without known coverage"]
        yield one_line(f"{model.name}: {', '.join([model.problems, *said])}")
        yield from (
            f"partial: {one_line(model.name)}: {fault}" for fault in model.faults
        )
    if markdown:
        yield from _section("First paper's Table 3", _table_3(report))
    yield from _section("pass@k and ExcessCode, in per cent", _scores(report, markdown))
    yield f"{_INTERVALS} ExcessCode with its standard error; m problems have a passing completion"
    yield "with known coverage."
    yield from _section("Beyond the paper", _beyond(report, markdown))
    yield "Lines: changed, of those that the solution changes. Distance: from before, characters."
    yield "The others: per cent of the completions."
    if report.differences:
        yield from _section(
            "Paired differences, in points", _differences(report, markdown)
        )


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    yield from ("", f"## {title}", "", *lines, "")


def _rows(
    report: EditingReport,
) -> Iterator[tuple[ModelReport, InstructionKind, GroupFigures]]:
    for model in report.models:
        for kind, found in model.figures.items():
            yield from ((model, kind, figures) for figures in found)


def _named(
    model: ModelReport, kind: InstructionKind, figures: GroupFigures
) -> list[object]:
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
            *(
                UNKNOWN
                if found is None
                else f"{_percent(found.mean)} ({_interval(found.interval)})"
                for found in (one.pass_at_k[k] for k in report.ks)
            ),
            *(
                UNKNOWN
                if found is None
                else f"{found.mean:.2f} ({found.standard_error:.2f})"
                for found in (one.code, one.changed, one.v1)
            ),
            one.code.problems if one.code else 0,
        ]
        for model, kind, one in _rows(report)
    ]
    return table(headings, rows, numbers=range(3, len(headings)), markdown=markdown)


def _beyond(report: EditingReport, markdown: bool) -> Iterator[str]:
    headings = [
        *_NAMES,
        "lines",
        "distance",
        "unchanged",
        "truncated",
        "no fence",
        "empty",
    ]
    headings += ["do not parse"]
    rows = [
        [
            *_named(model, kind, one),
            UNKNOWN if one.lines is None else f"{one.lines:.2f}",
            UNKNOWN if one.distance is None else f"{one.distance:.1f}",
            *map(
                _percent, (one.unchanged, one.truncated, one.without_fence, one.empty)
            ),
            _percent(one.not_parsing),
        ]
        for model, kind, one in _rows(report)
    ]
    return table(headings, rows, numbers=range(3, len(headings)), markdown=markdown)


def _differences(report: EditingReport, markdown: bool) -> Iterator[str]:
    headings = ("B", "less A", "problems", "pass@", "difference", "interval")
    rows: list[list[object]] = []
    for one in report.differences:
        problems = difference = interval = UNKNOWN
        if (means := one.means) is not None:
            problems = str(means.problems) + f", {means.left_out} left out" * bool(
                means.left_out
            )
            if means.difference is not None:
                difference = f"{100 * means.difference:+.2f}"
                interval = _interval(means.interval, "+.2f")
        rows.append([one.b, one.a, problems, one.k, difference, interval])
    return table(headings, rows, numbers=(3, 4, 5), markdown=markdown)


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.2f}"


def _interval(interval: Interval | None, form: str = ".2f") -> str:
    if interval is None:
        return UNKNOWN
    return f"{100 * interval.low:{form}} to {100 * interval.high:{form}}"


def _table_3(report: EditingReport) -> Iterator[str]:
    headings = [
        "source",
        "model",
        "size",
        "problems",
        "pass@1 descriptive",
        "pass@1 lazy",
    ]
    headings += ["ExcessCode v1 descriptive", "ExcessCode v1 lazy"]
    same = all(
        model.problems == describe_problems(FIRST_PAPER) for model in report.models
    )
    rows = list[list[object]]()
    for model in report.models:
        every = [model.figures.get(kind) for kind in InstructionKind]
        first = [found[0] if found else None for found in every]
        passed = [one.pass_at_k.get(1) if one else None for one in first]
        means = [UNKNOWN if one is None else _percent(one.mean) for one in passed]
        excess = [one.v1 if one else None for one in first]
        means += [UNKNOWN if one is None else f"{one.mean:.2f}" for one in excess]
        source = "this report" + " (partial)" * bool(model.faults)
        rows.append(
            [source, model.name, "", max(one.problems for one in first if one), *means]
        )
    for row in TABLE_3:
        cells = (
            row.pass_descriptive,
            row.pass_lazy,
            row.excess_descriptive,
            row.excess_lazy,
        )
        named = [
            f"first paper, {row.group}",
            row.model,
            row.size,
            "54" if same else _OTHER,
        ]
        rows.append([*named, *(f"{value:.2f}" for value in cells)])
    return table(headings, rows, numbers=range(3, len(headings)), markdown=True)


def _flat(
    model: ModelReport, kind: InstructionKind, figures: GroupFigures
) -> dict[str, object]:
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
    for name in ("code", "changed", "v1"):
        excess: ExcessMean | None = getattr(figures, name)
        row |= {f"excess_{name}": excess.mean if excess else None}
        row |= {f"excess_{name}_se": excess.standard_error if excess else None}
    row |= {"m": figures.code.problems if figures.code else 0}
    return row | {name: getattr(figures, name) for name in _PLAIN}


_PLAIN: Sequence[str] = (
    "lines",
    "distance",
    "unchanged",
    "truncated",
    "without_fence",
    "empty",
    "not_parsing",
    "unknown_coverage",
)


def _cell(text: str) -> str:
    """Return a text of others for a cell that no spreadsheet takes for a formula."""
    plain = one_line(text)
    return f"'{plain}" if plain.startswith(("=", "+", "-", "@")) else plain
