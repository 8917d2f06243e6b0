"""What a run is by its ``run.json``, and the one codec of the result of an exercise in a column.

A result has the keys that the published benchmark writes for an exercise, and ours under ``extra``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PlainSerializer,
    ValidationError,
    model_validator,
)

from core.errors import DamagedFileError, UserError
from core.parsing.untrusted import invalid, read_object
from runs.keys import is_safe_key
from runs.records import Attempt, InstanceResult, InstanceStatus
from runs.storage.store import RunStore

RESULTS = "results"
_FIX = "delete it and run the same command again"
_AIDER_RESULT, AIDER_CHAT = ".aider.results.json", ".aider.chat.history.md"
_UNSAFE = re.compile(r"[^\w.+-]")
Cost = Annotated[Decimal, Field(ge=0), PlainSerializer(float, return_type=float)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


class ColumnName(_Frozen):
    """One model in one edit format, once: a column of the matrix; ``repeat`` is from 1."""

    model: str
    edit_format: str
    repeat: int = Field(1, ge=1)

    @property
    def label(self) -> str:
        repeat = f" #{self.repeat}" if self.repeat > 1 else ""
        return f"{self.model}@{self.edit_format}{repeat}"

    @property
    def folder(self) -> str:
        """The column's folder; characters that no file name should have become ``_``.

        Different models may get one name, and then they cannot be in one run.
        """
        return f"{_UNSAFE.sub('_', self.model)}.{self.edit_format}.{self.repeat}"

    def result_path(self, run: Path, key: str) -> Path:
        """Return the path of a result below a run's folder; ``key`` is ``language/name``."""
        return run / RESULTS / self.folder / f"{key}.json"


class TryResult(_Frozen):
    """One try.

    Attributes:
        patch: from the stubs to the solution files that were tested.
        output: of the tests, cleaned.
        tests_passed, tests_failed, tests_skipped: None without a credible report.
    """

    solved: bool
    timed_out: bool = False
    patch: str = ""
    output: str = ""
    tests_passed: NonNegativeInt | None = None
    tests_failed: NonNegativeInt | None = None
    tests_skipped: NonNegativeInt | None = None
    seconds: NonNegativeFloat = 0.0


RESULT_STATUSES = (
    InstanceStatus.SOLVED,
    InstanceStatus.FAILED,
    InstanceStatus.CONTEXT,
    InstanceStatus.REFUSED,
    InstanceStatus.BUDGET,
)
"""How an exercise may end with a result; others are redone and count nowhere."""


def _checked_status(status: InstanceStatus) -> InstanceStatus:
    if status not in RESULT_STATUSES:
        raise ValueError(f"{status} is not the status of a result")
    return status


class Extra(_Frozen):
    """What the published benchmark does not record; docs/exercism.md defines the counters.

    ``error`` is the provider's refusal, or what failed.
    """

    status: Annotated[InstanceStatus, AfterValidator(_checked_status)]
    language: str
    repeat: int = Field(1, ge=1)
    exercise_sha256: str = ""
    tries: tuple[TryResult, ...] = ()
    whole_file_blocks: NonNegativeInt = 0
    hallucinated_functions: NonNegativeInt = 0
    foreign_edits: NonNegativeInt = 0
    ambiguous_edits: NonNegativeInt = 0
    truncated: NonNegativeInt = 0
    error: str = ""


class ExerciseResult(_Frozen):
    """A result file; tokens are sums over calls.

    Attributes:
        cost: dollars; None if the price of a call is unknown.
        commit_hash: of the harness, or its version.
        chat_hashes: for each call, SHA-256 of the exchange as sent and of the reply with its calls.
        duration: seconds of the calls; those of tests are in ``extra``.
    """

    testdir: str
    testcase: str
    model: str
    edit_format: str
    tests_outcomes: tuple[bool, ...]
    cost: Cost | None = None
    duration: NonNegativeFloat = 0.0
    test_timeouts: NonNegativeInt = 0
    commit_hash: str = ""
    num_error_outputs: NonNegativeInt = 0
    num_user_asks: NonNegativeInt = 0
    num_exhausted_context_windows: NonNegativeInt = 0
    num_malformed_responses: NonNegativeInt = 0
    syntax_errors: NonNegativeInt = 0
    indentation_errors: NonNegativeInt = 0
    lazy_comments: NonNegativeInt = 0
    editor_model: str | None = None
    editor_edit_format: str | None = None
    reasoning_effort: str | None = None
    prompt_tokens: NonNegativeInt = 0
    completion_tokens: NonNegativeInt = 0
    thinking_tokens: int | str | None = None
    chat_hashes: tuple[tuple[str, str], ...] = ()
    extra: Extra

    @property
    def key(self) -> str:
        return f"{self.extra.language}/{self.testcase}"

    @property
    def column(self) -> ColumnName:
        repeat = self.extra.repeat
        return ColumnName(model=self.model, edit_format=self.edit_format, repeat=repeat)

    @property
    def status(self) -> InstanceStatus:
        return self.extra.status

    @property
    def solved_at(self) -> int | None:
        """The try that solved the exercise, from 1; None if none did."""
        return (
            self.tests_outcomes.index(True) + 1 if True in self.tests_outcomes else None
        )

    @model_validator(mode="after")
    def _agrees(self) -> ExerciseResult:
        if (self.status is InstanceStatus.SOLVED) != any(self.tests_outcomes):
            raise ValueError("`status` and `tests_outcomes` disagree")
        if any(self.tests_outcomes[:-1]):
            raise ValueError("a try follows the one that solved the exercise")
        return self


def read_result(path: Path) -> ExerciseResult:
    result = _result(read_object(path, _FIX), path)
    expected = result.column.result_path(Path(), result.key)
    if path.parts[-len(expected.parts) :] != expected.parts:
        raise DamagedFileError(path, f"is the result for {expected}", _FIX)
    return result


def _result(data: dict[str, Any], path: Path) -> ExerciseResult:
    try:
        return ExerciseResult.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        problem = f"{place}: {first['msg']}" if place else first["msg"]
        raise DamagedFileError(path, f"is not a result ({problem})", _FIX) from error


def aider_folders(run: Path) -> dict[str, Path]:
    """Return the folders of exercises in a run of aider's benchmark, by key; none in another run.

    They are ``LANGUAGE/exercises/practice/NAME``, and ``NAME`` in runs of 2023.
    """
    found = {
        f"{p.parents[2].name}/{p.name}": p for p in run.glob("*/exercises/practice/*/")
    }
    if not found:
        marks = (*run.glob("*/.docs"), *run.glob(f"*/{_AIDER_RESULT}"))
        found = {f"python/{mark.parent.name}": mark.parent for mark in marks}
    some = any((folder / _AIDER_RESULT).exists() for folder in found.values())
    return dict(sorted(found.items())) if some else {}


def read_aider_result(folder: Path) -> ExerciseResult:
    """Return the result in a folder of ``aider_folders``, as ``read_result``; a crash has none."""
    path = folder / _AIDER_RESULT
    data = {
        k: value for k, value in read_object(path, _FIX).items() if value is not None
    }
    if "exception" in data:
        raise FileNotFoundError(path)
    outcomes = data.get("tests_outcomes")
    solved = isinstance(outcomes, list) and True in outcomes
    status = InstanceStatus.SOLVED if solved else InstanceStatus.FAILED
    return _result({**data, "extra": {"status": status, "language": ""}}, path)


def result_paths(run: Path) -> Iterator[Path]:
    yield from sorted((run / RESULTS).glob("*/*/*.json"))


KEY = "exercism"
READER = "python -m exercises.exercism report"
"""The command that reads a run."""


class RunFacts(_Frozen):
    """The part of ``run.json`` that reports need.

    Attributes:
        exercises: keys of the selected exercises, in the order of the run; languages whose tools
            are missing are not among them.
        timeout: seconds for the tests of a try.
        test_lines: of their output that the model receives; None for all.
        started: date, YYYY-MM-DD.
    """

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


def read_facts(run: Path) -> RunFacts:
    store = RunStore.of_folder(run, READER)
    described = store.read_run()
    if described is None or not described.has(KEY):
        other = "; read this one with python report.py" if described is not None else ""
        raise UserError(
            f"{run} is not a run of Exercism: give one of python -m exercises.exercism, or a "
            f"folder of aider's benchmark, with .aider.results.json of exercises{other}"
        )
    try:
        return RunFacts.model_validate(getattr(described, KEY))
    except ValidationError as error:
        fix = "fix it, or run it again"
        raise invalid(store.run_file, error, "a run's description", fix) from error


def job_key(column: ColumnName, exercise: str) -> str:
    """Return the key of a job: ``gpt-4o.diff.1.python.acronym``."""
    language, _, name = exercise.partition("/")
    if "." in name or not is_safe_key(name):
        raise UserError(
            f"{exercise}: files are named by exercises; use letters, digits, _, + and - only"
        )
    return f"{column.folder}.{language}.{name}"


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

    def read_prediction(self, path: Path) -> InstanceResult:
        result = read_result(path)
        tries = enumerate(result.tests_outcomes, 1)
        return InstanceResult(
            instance_id=self.name_of(path),
            status=result.status,
            reason=result.extra.error,
            cost=result.cost,
            attempts=tuple(Attempt(attempt=n, test_outcome=ok) for n, ok in tries),
        )
