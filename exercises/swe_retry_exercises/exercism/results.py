"""What a run is by its ``run.json``, and the one codec of the result of an exercise in a column.

A result has the keys that the published benchmark writes for an exercise, and ours under ``extra``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import (
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PlainSerializer,
    ValidationError,
    model_validator,
)

from swe_retry.kit import (
    Attempt,
    DamagedFileError,
    InstanceResult,
    InstanceStatus,
    Recorded,
    RunStore,
    UserError,
    invalid,
    is_safe_key,
    read_object,
)
from swe_retry_exercises.values import JsonObject

KEY = "exercism"
"""The part of ``run.json`` that describes the exercises."""
READER = "python -m swe_retry_exercises.exercism report"
"""The command that reads a run."""
FIX = "delete it and run the same command again"
_RESULTS = "results"
_UNSAFE = re.compile(r"[^\w.+-]")
Cost = Annotated[Decimal, Field(ge=0), PlainSerializer(float, return_type=float)]


class _Frozen(Recorded):
    model_config = ConfigDict(allow_inf_nan=False)


class ColumnName(_Frozen):
    """One model in one edit format, once: a column of the matrix; ``repeat`` is from 1."""

    model: str
    edit_format: str
    repeat: int = Field(default=1, ge=1)

    @property
    def label(self) -> str:
        label = f"{self.model}@{self.edit_format}"
        if self.repeat > 1:
            label += f" #{self.repeat}"
        return label

    @property
    def folder(self) -> str:
        """The column's folder; characters that no file name should have become ``_``.

        Different models may get one name, and then they cannot be in one run.
        """
        return f"{_UNSAFE.sub('_', self.model)}.{self.edit_format}.{self.repeat}"

    def result_path(self, run: Path, key: str) -> Path:
        """Return the path of a result below a run's folder; ``key`` is ``language/name``."""
        return run / _RESULTS / self.folder / f"{key}.json"

    def job_key(self, exercise: str) -> str:
        """Return the key of a job: ``gpt-4o.diff.1.python.acronym``."""
        language, _, name = exercise.partition("/")
        if "." in name or not is_safe_key(name):
            raise UserError(
                f"{exercise}: files are named by exercises; use letters, digits, _, + and - only"
            )
        return f"{self.folder}.{language}.{name}"


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


class Extra(_Frozen):
    """What the published benchmark does not record; docs/exercism.md defines the counters.

    ``error`` is the provider's refusal, or what failed.
    """

    status: InstanceStatus
    language: str
    repeat: int = Field(default=1, ge=1)
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
        return ColumnName(
            model=self.model,
            edit_format=self.edit_format,
            repeat=repeat,
        )

    @property
    def status(self) -> InstanceStatus:
        return self.extra.status

    @property
    def solved_at(self) -> int | None:
        """The try that solved the exercise, from 1; None if none did."""
        if True in self.tests_outcomes:
            return self.tests_outcomes.index(True) + 1
        return None

    @model_validator(mode="after")
    def _check(self) -> ExerciseResult:
        if self.status not in RESULT_STATUSES:
            raise ValueError(f"{self.status} is not the status of a result")
        if (self.status is InstanceStatus.SOLVED) != any(self.tests_outcomes):
            raise ValueError("`status` and `tests_outcomes` disagree")
        if any(self.tests_outcomes[:-1]):
            raise ValueError("a try follows the one that solved the exercise")
        return self


def read_result(path: Path) -> ExerciseResult:
    """Return the result at ``path``; FileNotFoundError: there is none."""
    result = result_of(read_object(path, FIX), path)
    expected = result.column.result_path(Path(), result.key)
    if path.parts[-len(expected.parts) :] != expected.parts:
        raise DamagedFileError(path, f"is the result for {expected}", FIX)
    return result


def result_of(data: JsonObject, path: Path) -> ExerciseResult:
    try:
        return ExerciseResult.model_validate(data)
    except ValidationError as error:
        raise invalid(path, error, "a result", FIX) from error


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
    tries: int = Field(default=2, ge=1)
    timeout: float = Field(default=180.0, gt=0)
    test_lines: int | None = None
    command: str = ""
    started: str = ""
    version: str = ""


def read_facts(run: Path) -> RunFacts:
    store = RunStore.of_folder(run, READER)
    description = store.read_run()
    if not description.has(KEY):
        hint = ""
        if store.run_file.exists():
            hint = "; read this one with python report.py"
        raise UserError(
            f"{run} is not a run of Exercism: give one of python -m swe_retry_exercises.exercism, "
            f"or a folder of aider's benchmark, with .aider.results.json of exercises{hint}"
        )
    try:
        return RunFacts.model_validate(getattr(description, KEY))
    except ValidationError as error:
        fix = "fix it, or run it again"
        raise invalid(
            store.run_file,
            error,
            "a run's description",
            fix,
        ) from error


@dataclass(frozen=True)
class ExerciseStore(RunStore):
    """The files of a run; ids of instances are keys of jobs, and predictions are results."""

    def prediction(self, instance_id: str) -> Path:
        column, language, name = instance_id.rsplit(".", 2)
        return self.folder / _RESULTS / column / language / f"{name}.json"

    def name_of(self, prediction: Path) -> str:
        return ".".join((*prediction.parts[-3:-1], prediction.stem))

    def prediction_paths(self) -> Iterator[Path]:
        yield from sorted((self.folder / _RESULTS).glob("*/*/*.json"))

    def read_prediction(self, path: Path) -> InstanceResult:
        result = read_result(path)
        attempts = []
        for number, outcome in enumerate(result.tests_outcomes, 1):
            attempts.append(Attempt(attempt=number, test_outcome=outcome))
        return InstanceResult(
            instance_id=self.name_of(path),
            status=result.status,
            reason=result.extra.error,
            cost=result.cost,
            attempts=tuple(attempts),
        )
