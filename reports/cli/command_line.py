"""Evaluate and report on runs: ``python report.py predictions/run1``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import typer

from bench.cli.cli import About
from core.atomic import check_folder
from core.errors import UserError
from core.options import built, command
from reports.cli.options import Asked, EvaluatorKind, ReportOptions, SubmissionOptions
from reports.data.jsonvalues import mapping
from runs.storage.store import RunStore


@command(ReportOptions, Asked, SubmissionOptions, About)
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Write all_preds.jsonl, have it evaluated, and print the counts, tables or statistics."""
    asked = built(Asked, values)
    # A run that has just started may not have made its cache yet.
    at_once = values["follow"] and _given(asked.runs, "cache")
    values["cache"] = values["cache"] or at_once or _recorded(asked.runs, "cache")
    values["repos"] = values["repos"] or _recorded(asked.runs, "repos")
    for option in ("image-disk", "image-prefix"):
        key = option.replace("-", "_")
        values[key] = values[key] or _given(asked.runs, option)
    options = built(ReportOptions, values)
    looks = options.table or options.as_json or options.compare or options.verify
    if options.evaluator not in (None, EvaluatorKind.NONE) or not looks:
        check_folder("--cache", options.cache)
    raise typer.Exit(_run(asked, options, values))


def _run(asked: Asked, options: ReportOptions, values: dict[str, Any]) -> int:
    """Do what is asked for; the modules of a command are imported when it runs."""
    if asked.validate or asked.submission:
        return _package(asked, built(SubmissionOptions, values | {"cache": options.cache}))
    if not asked.runs:
        raise UserError("no run given; usage: report.py predictions/RUN")
    from reports.cli.commands import report_command

    # What was asked for stands alone on standard output, so that it can be sent to a file.
    alone = options.table or options.as_json
    # Who follows a run sees each line at once, also in a file.
    shown = partial(print, flush=True) if options.follow else print
    say = partial(print, file=sys.stderr, flush=True) if alone else shown
    return report_command(asked.runs, options, say, print)


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
