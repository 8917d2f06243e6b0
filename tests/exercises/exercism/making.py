"""Our six exercises, runs of their tests, and runs of the benchmark made of result files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from core.atomic import write_json_atomic
from exercises.dispatch import dispatch
from exercises.exercism.__main__ import COMMANDS
from exercises.exercism.catalog import read_catalog
from exercises.exercism.exercise import Exercise
from exercises.exercism.languages import REPORT
from exercises.exercism.results import (
    KEY,
    ColumnName,
    ExerciseResult,
    ExerciseStatus,
    Extra,
    RunFacts,
    result_path,
)
from exercises.exercism.testing.tester import argv_of
from exercises.exercism.testing.verdict import ExerciseTestRun

SIX = Path(__file__).parents[1] / "data" / "exercism"


def main(words: Sequence[object]) -> int:
    """Run a command of the benchmark in this process and return its exit code."""
    sys.argv = ["exercism", *map(str, words)]
    return dispatch("exercises.exercism", COMMANDS)


def six() -> dict[str, Exercise]:
    """Return our exercises by name."""
    return {exercise.name: exercise for exercise in read_catalog(SIX).exercises}


def run_tests(
    files: Mapping[str, bytes], exercise: Exercise, folder: Path, *, unittest: bool = False
) -> ExerciseTestRun:
    """Run the command of the language in ``folder`` made of ``files``."""
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    rules = exercise.rules
    argv = argv_of(exercise, unittest, None)
    env = {**os.environ, **dict(rules.environment)}
    done = subprocess.run(
        [sys.executable, *argv[1:]], cwd=folder, env=env, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    report = (folder / REPORT).read_text() if (folder / REPORT).exists() else ""
    return ExerciseTestRun(done.returncode, False, done.stdout, report, unittest)


def result(
    key: str,
    outcomes: Sequence[bool] = (True,),
    model: str = "gpt-4o",
    edit_format: str = "diff",
    repeat: int = 1,
    **values: Any,
) -> ExerciseResult:
    """Return a result; ``values`` are of the file and of its ``extra``."""
    language, _, name = key.partition("/")
    status = ExerciseStatus.SOLVED if any(outcomes) else ExerciseStatus.FAILED
    extra = {k: values.pop(k) for k in list(values) if k in Extra.model_fields}
    values = {"cost": Decimal("0.25"), "duration": 10.0, **values}
    return ExerciseResult(
        testdir=f"{language}/{name}", testcase=name, model=model, edit_format=edit_format,
        tests_outcomes=tuple(outcomes), **values,
        extra=Extra(**{"status": status, "language": language, "repeat": repeat, **extra}),
    )  # fmt: skip


def write_result(run: Path, one: ExerciseResult) -> Path:
    """Write a result and return its path."""
    path = result_path(run, one.model, one.edit_format, one.extra.repeat, one.key)
    write_json_atomic(path, one.as_json())
    return path


def write_run(
    folder: Path, results: Sequence[ExerciseResult], exercises: Sequence[str] = (), **facts: Any
) -> Path:
    """Write a run with these results, in the columns that they name."""
    names = dict.fromkeys((r.model, r.edit_format, r.extra.repeat) for r in results)
    columns = tuple(ColumnName(model=m, edit_format=f, repeat=n) for m, f, n in names)
    keys = tuple(exercises or dict.fromkeys(r.key for r in results))
    told = RunFacts(columns=columns, exercises=keys, profile="current", **facts)
    write_json_atomic(folder / "run.json", {KEY: told.as_json()})
    for one in results:
        write_result(folder, one)
    return folder
