"""Evaluate and report on runs: ``python report.py predictions/run1``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bench.cli import run_cli
from bench.commands import default_cache
from reports.commands import EvaluatorKind, ReportOptions, report_command

Runs = Annotated[list[Path], typer.Argument(help="Folders under predictions/.")]
Evaluator = Annotated[
    EvaluatorKind | None,
    typer.Option("--evaluator", help="Who judges; default: docker when an engine answers."),
]
DatasetName = Annotated[str, typer.Option("--dataset", help="Default: as the run recorded it.")]
Split = Annotated[str, typer.Option("--split", help="Default: as the run recorded it.")]
Workers = Annotated[int, typer.Option("--workers", min=1, help="Evaluations at once (docker).")]
Timeout = Annotated[
    float, typer.Option("--timeout", min=1, help="Seconds for one instance's tests.")
]
Cache = Annotated[Path | None, typer.Option("--cache", help="Mirrors and environments.")]
Repos = Annotated[Path | None, typer.Option("--repos", help="Folder of bare mirrors.")]


def main(
    runs: Runs,
    evaluator: Evaluator = None,
    dataset: DatasetName = "",
    split: Split = "",
    workers: Workers = 2,
    timeout: Timeout = 1800,
    cache: Cache = None,
    repos: Repos = None,
) -> None:
    """Write all_preds.jsonl, have it evaluated, and print the counts."""
    options = ReportOptions(
        evaluator=evaluator,
        dataset=dataset,
        split=split,
        workers=workers,
        timeout=timeout,
        cache=(cache or default_cache()).expanduser().resolve(),
        repos=repos.expanduser().resolve() if repos else None,
    )
    raise typer.Exit(report_command(runs, options, print))


if __name__ == "__main__":
    sys.exit(run_cli(main))
