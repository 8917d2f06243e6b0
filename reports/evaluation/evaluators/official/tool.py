"""The protocol of official evaluators that run as a program of their own.

Each writes a predictions file, names the commands to run, and reads the result files. Everything
else is the same for all of them: ``reports.evaluation.evaluators.official.running``.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from core.errors import UserError
from core.parsing.untrusted import MIB, read_object
from reports.evaluation.evaluators.base import EvaluationTask, VerdictStatus
from runs.storage.layouts import is_safe_key

MODEL = "candidate"
"""The model in predictions files: a tool names folders by it, so a run's own name is not used."""

_LONGEST_LOG = 64 * MIB
_RESULT_LINE = re.compile(
    r"^(?:(?:PASSED|FAILED|SKIPPED|XFAIL|PASS|FAIL|ok|not ok|--- (?:PASS|FAIL))\b|ERROR \S)"
    r"|\s(?:\.\.\. (?:ok|FAIL|ERROR|FAILED|ignored|skipped)|PASSED|FAILED)\b"
    r"|^=+ .*\b(?:passed|failed|errors?)\b",
    re.MULTILINE,
)


@dataclass(frozen=True)
class ToolSettings:
    """What the options say of an official evaluator.

    Attributes:
        python: the interpreter that runs it.
        checkout: the folder of its repository; None if it is an installed package.
        workers: instances at a time.
        timeout: seconds for one instance's tests.
        dataset: the resolved name of the dataset.
    """

    python: str
    checkout: Path | None
    workers: int
    timeout: float
    dataset: str
    split: str


@dataclass(frozen=True)
class EvaluationFolder:
    """The fresh folders of one evaluation: no tool finds results of an earlier one.

    Attributes:
        inputs: for rows, which hold the answers; removed at the end.
        outputs: for logs and results; the command's working folder.
        run_id: unique to this evaluation; containers carry it in their names.
        patches_id: the same for the same patches of a run.
    """

    inputs: Path
    outputs: Path
    run_id: str
    patches_id: str


@dataclass(frozen=True)
class ToolResult:
    """What a tool's result files say of one prediction.

    Attributes:
        details: goes into the report of the instance.
    """

    status: VerdictStatus
    reason: str = ""
    log: str = ""
    details: Mapping[str, object] = field(default_factory=dict)


class OfficialTool(Protocol):
    """An official evaluator."""

    @property
    def name(self) -> str:
        """The value of ``--evaluator``."""

    @property
    def links(self) -> Sequence[str]:
        """The entries of the checkout that the working folder must have."""

    @property
    def allowance(self) -> float:
        """Seconds that the commands may take beyond the tests."""

    @property
    def uses_engine(self) -> bool:
        """Whether it runs containers on the local engine."""

    @property
    def names_images(self) -> bool:
        """Whether it may use other images than those that the rows name."""

    def check(self) -> str:
        """Return the version: the checkout's revision, or that of the package."""

    def environment(self) -> Mapping[str, str]:
        """Return variables for the commands, besides those that hold no secret."""

    def identifier(self, task: EvaluationTask) -> str:
        """Return the id of the instance in what the tool prints."""

    def lacking(self, task: EvaluationTask) -> str:
        """Return what the row lacks for this tool; empty if it lacks nothing."""

    def groups(self, tasks: Sequence[EvaluationTask]) -> Sequence[Sequence[EvaluationTask]]:
        """Return ``tasks`` in groups that one call of the tool may evaluate together."""

    def write(self, tasks: Sequence[EvaluationTask], folder: EvaluationFolder) -> None:
        """Write predictions and rows, one prediction for each row."""

    def commands(
        self, tasks: Sequence[EvaluationTask], folder: EvaluationFolder
    ) -> Sequence[Sequence[str]]:
        """Return the commands to run one after the other, each a list of words."""

    def read(self, task: EvaluationTask, folder: EvaluationFolder) -> ToolResult | None:
        """Return the result on one prediction; None if the tool left none.

        A result that may come from a crash as well as from a wrong patch is ``NOT_EVALUATED``.
        """


def row_id(task: EvaluationTask) -> str:
    """Return the id by which official tools know the instance of a prediction.

    It is the row's own: the harness may use a neutral one, which tells an agent nothing.
    """
    name = task.evaluation.instance_id
    if not is_safe_key(name):
        raise UserError(f"instance {name!r}: an id holds only letters, digits and ._+-")
    return name


def missing_keys(task: EvaluationTask, needed: Sequence[str]) -> str:
    """Return which of the ``needed`` values a row lacks, as words."""
    row = task.evaluation.row
    return ", ".join(key for key in needed if row.get(key) in (None, "", [], {}))


def names_in(value: object) -> list[str]:
    """Return the texts in a list, or in the JSON or Python text of one; empty if it is none.

    SWE-bench Pro writes lists as Python text and evaluates them.
    """
    if isinstance(value, str):
        read: object = None
        with suppress(ValueError):
            read = json.loads(value)
        if read is None:
            with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                read = ast.literal_eval(value)
        value = read
    return [str(name) for name in value] if isinstance(value, Sequence) else []


def write_json(path: Path, value: object) -> None:
    """Write ``value`` as JSON; dates of a dataset become texts."""
    path.write_text(json.dumps(value, default=str), encoding="utf-8")


def write_lines(path: Path, values: Sequence[object]) -> None:
    """Write ``values`` as JSON, one a line."""
    text = "".join(json.dumps(value, default=str) + "\n" for value in values)
    path.write_text(text, encoding="utf-8")


def read_result(path: Path) -> Mapping[str, object] | None:
    """Return the object in a result file; None if there is none that can be read."""
    try:
        return read_object(path, "evaluate again")
    except (FileNotFoundError, UserError):
        return None


def read_text(path: Path) -> str:
    """Return the text of a log, at most 64 MiB of it; empty if there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        return stream.read(_LONGEST_LOG).decode("utf-8", "replace")


def shows_results(output: str) -> bool:
    """Return whether any line of a test output looks like the result of a test."""
    return bool(_RESULT_LINE.search(output))


def resolved_if(
    resolved: bool, log: str, details: Mapping[str, object] | None = None
) -> ToolResult:
    """Return the outcome of a complete evaluation."""
    status = VerdictStatus.RESOLVED if resolved else VerdictStatus.UNRESOLVED
    return ToolResult(status, log=log, details=details or {})


def tests_status(task: EvaluationTask, passed: Collection[str]) -> dict[str, object]:
    """Return which of the deciding tests passed, in the form of swebench's report."""
    wanted = {
        "FAIL_TO_PASS": task.evaluation.fail_to_pass,
        "PASS_TO_PASS": task.evaluation.pass_to_pass,
    }
    return {
        "tests_status": {
            kind: {
                "success": [name for name in names if name in passed],
                "failure": [name for name in names if name not in passed],
            }
            for kind, names in wanted.items()
        }
    }


def unclear(log: str, why: str = "no test result could be read") -> ToolResult:
    """Return the outcome where a crash and a wrong patch look the same."""
    words = f"{why}: the tool cannot tell a crash from a wrong patch"
    return ToolResult(VerdictStatus.NOT_EVALUATED, words, log)
