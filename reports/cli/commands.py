"""What ``report.py`` does with its options."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import UserError
from core.redaction import Redactor
from reports.cli.console import count_lines
from reports.cli.options import EvaluatorKind, ReportOptions, Say
from reports.cli.reporting import Report, report_on
from reports.pages.markdown import comparison_table, run_tables
from reports.statsfile import comparison_json, stats_json
from runs.storage.store import RunStore

if TYPE_CHECKING:
    from reports.statistics.comparing import RunComparison

__all__ = ["EvaluatorKind", "ReportOptions", "report_command"]


def report_command(
    runs: Sequence[Path], options: ReportOptions, say: Say, show: Say | None = None
) -> int:
    """Report on a run, on the combination of several, or compare them; return the exit code.

    Args:
        runs: their folders.
        options: of the command line.
        say: takes the lines that tell how it goes.
        show: takes what was asked for; as ``say`` when None.

    Returns:
        1 when something was to be evaluated and was not, else 0.

    Raises:
        UserError, InfrastructureError: a run cannot be read or nothing can be evaluated.
    """
    if options.verify:
        # Imported here, and the page below: they need most of the harness, numpy or matplotlib.
        from reports.verification.verify import verify_command

        return verify_command(runs, options, show or say)
    stores = [RunStore.of_folder(run) for run in runs]
    _check(stores, options)
    show = show or say
    if options.compare:
        return _compare(stores, options, say, show)
    store = stores[0]
    if len(stores) > 1:
        from reports.combine.write import combine

        store = combine(stores, options.name, say)
    if options.follow:
        from reports.following import follow

        follow(store, options, say)
    report = report_on(store, options, say)
    _show(_asked_for(report, options), show)
    return report.exit_code


def _check(stores: Sequence[RunStore], options: ReportOptions) -> None:
    folders = [store.folder for store in stores]
    if len({*folders}) < len(folders):
        raise UserError("a run is given twice; name each once")
    if options.compare and (len(stores) < 2 or options.name):
        raise UserError("--compare takes two runs or more, and no --name")
    if options.name and len(stores) < 2:
        raise UserError("--name is for the combination of several runs; give two runs or more")
    if options.follow and (len(stores) > 1 or options.only_reads or options.regrade):
        raise UserError(
            "--follow evaluates one run; give no second run and no --compare, --table, "
            "--json or --regrade"
        )
    if options.table and options.as_json:
        raise UserError("--table and --json exclude each other; give one")


def _asked_for(report: Report, options: ReportOptions) -> Iterator[str]:
    if options.as_json:
        yield _text(stats_json(report.stats))
    elif options.table:
        yield from run_tables(report.stats)
    else:
        yield from report.lines()
        yield from count_lines(report.stats)
        yield f"predictions    {report.all_preds}"
        if report.page:
            yield f"page           {report.page}"


def _compare(stores: Sequence[RunStore], options: ReportOptions, say: Say, show: Say) -> int:
    """Report on each run, then compare each with each."""
    from reports.combine.merge import labels
    from reports.statistics.comparing import compare

    reports = [report_on(store, options, say) for store in stores]
    runs = [
        replace(report.run, name=label)
        for report, label in zip(reports, labels(stores), strict=True)
    ]
    found = [compare(a, b) for a, b in combinations(runs, 2)]
    _show(_compared(reports, found, options), show)
    if options.page:
        from reports.pages.comparison import Compared
        from reports.pages.write import write_comparison

        compared = [
            Compared(run, replace(report.stats, run=run.name))
            for report, run in zip(reports, runs, strict=True)
        ]
        redact = Redactor.of_environment(os.environ)
        say(f"page           {write_comparison(stores[0].out, compared, found, redact)}")
    return max(report.exit_code for report in reports)


def _compared(
    reports: Sequence[Report], found: Sequence[RunComparison], options: ReportOptions
) -> Iterator[str]:
    if options.as_json:
        every = [stats_json(report.stats) for report in reports]
        yield _text({"runs": every, "comparisons": [comparison_json(one) for one in found]})
        return
    for report in reports:
        yield f"## {report.run.name}\n"
        yield from run_tables(report.stats)
        yield ""
    for one in found:
        yield f"## {one.a} and {one.b}\n"
        yield from comparison_table(one)
        yield ""


def _text(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=True)


def _show(lines: Iterable[str], show: Callable[[str], None]) -> None:
    for line in lines:
        show(line)
