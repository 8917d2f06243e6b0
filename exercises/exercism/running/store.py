"""The files of a run of exercises: a job's key, and where its result lies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import UserError
from core.money import as_number
from exercises.exercism.results import RESULTS, ColumnName, column_folder, read_result, result_paths
from runs.storage.store import RunStore, is_safe_key


def job_key(column: ColumnName, exercise: str) -> str:
    """Return the key of a job: ``gpt-4o.diff.1.python.acronym``."""
    language, _, name = exercise.partition("/")
    if "." in name or not is_safe_key(name):
        raise UserError(
            f"{exercise}: files are named by exercises; use letters, digits, _, + and - only"
        )
    return f"{column_folder(column.model, column.edit_format, column.repeat)}.{language}.{name}"


@dataclass(frozen=True)
class ExerciseStore(RunStore):
    """The files of a run; ids of instances are keys of jobs, and predictions are results."""

    def prediction(self, instance_id: str) -> Path:
        rest, _, name = instance_id.rpartition(".")
        column, _, language = rest.rpartition(".")
        return self.folder / RESULTS / column / language / f"{name}.json"

    def name_of(self, prediction: Path) -> str:
        return ".".join((*prediction.parts[-3:-1], prediction.stem))

    def prediction_paths(self) -> Iterator[Path]:
        return result_paths(self.folder)

    def read_prediction(self, path: Path) -> dict[str, Any]:
        result = read_result(path)
        return {
            "instance_id": self.name_of(path),
            "status": result.status.value,
            "reason": result.extra.error,
            "cost": as_number(result.cost),
            "all_results": [{"solved": solved} for solved in result.tests_outcomes],
        }
