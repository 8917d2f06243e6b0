"""Print how far runs of exercises are: ``python -m exercises.exercism status RUN…``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from core.errors import UserError
from core.options import built, command, option, option_group
from core.plaintext import Say
from exercises.exercism.reporting.columns import read_columns
from exercises.exercism.results import READER, read_facts
from exercises.exercism.running.progress import RunProgress
from exercises.exercism.running.store import ExerciseStore
from runs.upkeep import status_command


@option_group
class ExercismStatus:
    runs: tuple[Path, ...] = option((), "Runs: folders under predictions/.", "runs", argument=True)


@command(ExercismStatus)
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Print how far runs are: solved by column, dollars, and what is not completed."""
    asked = built(ExercismStatus, values)
    if not asked.runs:
        raise UserError("status needs a run: give folders under predictions/")
    raise typer.Exit(max(print_status(run, print) for run in asked.runs))


def print_status(run: Path, say: Say) -> int:
    """Print the status of a run; return 1 if a file is broken, else 0."""
    run = run.expanduser().resolve()
    facts = read_facts(run)
    if run.parent.name != "predictions":
        raise UserError(f"{run} does not lie in a folder predictions/: its logs are not found")
    # The table names broken results.
    columns = read_columns([run], lambda _: None, allow_partial=True)
    results = (result for column in columns for result in column.results.values())
    for line in RunProgress.of(facts.columns, len(facts.exercises), results).lines():
        say(line)
    return status_command(ExerciseStore(run.parents[1], run.name, reader=READER), say)
