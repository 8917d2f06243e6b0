"""What a run is, as its ``run.json`` tells under ``exercism``: columns, exercises, settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.errors import UserError
from core.parsing.untrusted import damage_at
from runs.storage.store import RunStore

KEY = "exercism"
READER = "python -m exercises.exercism report"
"""The command that reads a run."""


class ColumnName(BaseModel):
    """One model in one edit format, once: a column of the matrix; ``repeat`` is from 1."""

    model_config = ConfigDict(frozen=True)

    model: str
    edit_format: str
    repeat: int = Field(1, ge=1)

    @property
    def label(self) -> str:
        repeat = f" #{self.repeat}" if self.repeat > 1 else ""
        return f"{self.model}@{self.edit_format}{repeat}"


class RunFacts(BaseModel):
    """The part of ``run.json`` that reports need.

    Attributes:
        exercises: keys of the selected exercises, in the order of the run; languages whose tools
            are missing are not among them.
        timeout: seconds for the tests of a try.
        test_lines: of their output that the model receives; None for all.
        started: date, YYYY-MM-DD.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    columns: tuple[ColumnName, ...]
    exercises: tuple[str, ...]
    exercises_commit: str = ""
    exercises_sha256: str = ""
    profile: str = ""
    tries: int = Field(2, ge=1)
    timeout: float = Field(180.0, gt=0)
    test_lines: int | None = None
    command: str = ""
    started: str = ""
    version: str = ""

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


def read_facts(run: Path) -> RunFacts:
    store = RunStore.of_folder(run, READER)
    described = store.read_run()
    if described is None or KEY not in described:
        other = "; read this one with python report.py" if described is not None else ""
        raise UserError(
            f"{run} is not a run of Exercism: give one of python -m exercises.exercism, or a "
            f"folder of aider's benchmark, with .aider.results.json of exercises{other}"
        )
    try:
        return RunFacts.model_validate(described[KEY])
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"is not a run's description: {first['msg']}"
        keys = (KEY, *first["loc"])
        raise damage_at(store.run_file, keys, problem, "fix it, or run it again") from error
