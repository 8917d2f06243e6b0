"""Evaluate and report on runs: ``python report.py predictions/run1``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import typer

from bench.cli.cli import About
from bench.cli.selection import Selection
from core.atomic import check_folder
from core.errors import UserError
from core.options import built, command
from reports.cli.options import Asked, EvaluatorKind, ReportOptions, Say, SubmissionOptions
from reports.data.jsonvalues import mapping
from runs.signals import sigterm_as_interrupt
from runs.storage.store import RunStore


@command(ReportOptions, Asked, SubmissionOptions, Selection, About)
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Write all_preds.jsonl, have it evaluated, and print the counts, tables or statistics."""
    asked = built(Asked, values)
    named = asked.runs or tuple(filter(None, [asked.audit]))
    # A run that has just started may not have made its cache yet.
    at_once = values["follow"] and _given(named, "cache")
    values["cache"] = values["cache"] or at_once or _recorded(named, "cache")
    values["repos"] = values["repos"] or _recorded(named, "repos")
    for option in ("image-disk", "image-prefix"):
        key = option.replace("-", "_")
        values[key] = values[key] or _given(asked.runs, option)
    options = built(ReportOptions, values)
    looks = options.table or options.as_json or options.compare or options.verify
    if options.evaluator not in (None, EvaluatorKind.NONE) or not looks:
        check_folder("--cache", options.cache)
    with sigterm_as_interrupt():
        code = _run(asked, options, values)
    raise typer.Exit(code)


def _run(asked: Asked, options: ReportOptions, values: dict[str, Any]) -> int:
    """Do what is asked for; the modules of a command are imported when it runs."""
    if options.evaluator:
        from reports.evaluation.evaluators.choice import check_evaluator

        check_evaluator(options.evaluator)
    selection = built(Selection, values)
    if asked.gold:
        return _gold(asked, options, selection)
    if selection != Selection():
        raise UserError("--instances, --filter, --slice and --shuffle are for --gold alone")
    if asked.audit or asked.export:
        return _exchange(asked, options)
    # What was asked for stands alone on standard output, so that it can be sent to a file.
    alone = options.table or options.as_json
    # Who follows a run sees each line at once, also in a file.
    shown = partial(print, flush=True) if options.follow else print
    say = partial(print, file=sys.stderr, flush=True) if alone else shown
    asked, options = _imported(asked, options, say)
    if asked.validate or asked.submission:
        return _package(asked, built(SubmissionOptions, values | {"cache": options.cache}))
    if not asked.runs:
        raise UserError("no run given; usage: report.py predictions/RUN")
    from reports.cli.commands import report_command

    return report_command(asked.runs, options, say, print)


def _gold(asked: Asked, options: ReportOptions, selection: Selection) -> int:
    from reports.validity.command import gold_command

    if asked.runs or options.dataset:
        raise UserError("--gold names a dataset and takes no run and no --dataset; leave them out")
    # Such a command takes hours, and its lines are often sent to a file.
    say = partial(print, flush=True)
    return gold_command(replace(options, dataset=asked.gold), asked.repeat, selection, say)


def _imported(asked: Asked, options: ReportOptions, say: Say) -> tuple[Asked, ReportOptions]:
    """Return what is asked for with runs of other harnesses replaced by their imports."""
    # The import needs most of the harness.
    from reports.foreign.recognise import is_foreign

    foreign = [is_foreign(run) for run in asked.runs]
    if not any(foreign):
        return asked, options
    from reports.foreign.importing import import_run

    name = options.name if len(asked.runs) == 1 else ""
    runs = tuple(
        import_run(run, asked.out, name, say).folder if other else run
        for run, other in zip(asked.runs, foreign, strict=True)
    )
    return replace(asked, runs=runs), replace(options, name="") if name else options


def _exchange(asked: Asked, options: ReportOptions) -> int:
    """Search a run for hidden data, or write it in another layout."""
    if asked.audit:
        from reports.foreign.audit.command import audit_command

        if asked.runs or asked.export:
            raise UserError("--audit takes one path, and no other run; audit each by itself")
        return audit_command(asked.audit, options, print)
    from reports.foreign.export.command import export_command

    if len(asked.runs) != 1 or asked.export is None:
        raise UserError("--export LAYOUT DIR writes one run; name one")
    layout, folder = asked.export
    return export_command(asked.runs[0], layout, folder, print)


def _package(asked: Asked, options: SubmissionOptions) -> int:
    from reports.submission.commands import submission_command, validate_command

    if asked.validate:
        return validate_command(asked.validate, options, print)
    folder = asked.submission or Path()
    return submission_command(asked.runs, folder, options, print)


def _recorded(runs: Sequence[Path], option: str) -> Path | None:
    """Return the folder that the first run was given with ``option``, where it still exists."""
    folder = _given(runs, option)
    return Path(folder) if isinstance(folder, str) and Path(folder).is_dir() else None


def _given(runs: Sequence[Path], option: str) -> object:
    """Return what the first run was given with ``option``; None if it was not."""
    if not runs or not runs[0].expanduser().is_dir():
        return None
    described = RunStore.of_folder(runs[0]).read_run() or {}
    return mapping(described.get("options")).get(option)
