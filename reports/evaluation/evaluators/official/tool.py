"""The base class of official evaluators that run as a program of their own, with shared helpers.

Each writes a predictions file, names the commands to run, and reads the result files. Everything
else is the same for all of them: ``reports.evaluation.evaluators.official.running``.
"""

from __future__ import annotations

import json
import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

from core.errors import UserError
from core.parsing.untrusted import MIB, read_object
from core.processes import without_secrets
from reports.data.verdicts import VerdictStatus
from reports.evaluation.evaluators.base import EvaluationTask, Tasks
from runs.keys import is_safe_key

_PROBE_SECONDS = 120.0
# Prints, as JSON, the modules that cannot be found and the version of a package.
_PROBE = """\
import importlib.util, json, sys
from importlib.metadata import PackageNotFoundError, version
def lacks(name):
    try:
        return importlib.util.find_spec(name) is None
    except ImportError:
        return True
try:
    found = version(sys.argv[1])
except PackageNotFoundError:
    found = ""
print(json.dumps([[name for name in sys.argv[2:] if lacks(name)], found]))
"""
_LONGEST_LOG = 64 * MIB


@dataclass(frozen=True)
class ToolSettings:
    python: str  # the interpreter that runs it
    workers: int  # instances at a time
    timeout: float  # seconds for one instance's tests
    dataset: str  # its resolved name
    split: str


@dataclass(frozen=True)
class EvaluationFolder:
    """The fresh folders of one evaluation: no tool finds results of an earlier one."""

    inputs: Path  # for rows, which hold the answers; removed at the end
    outputs: Path  # for logs and results; the command's working folder
    run_id: str  # unique to this evaluation; containers carry it in their names
    patches_id: str  # the same for the same patches of a run

    @property
    def rows(self) -> Path:
        return self.inputs / "rows.jsonl"

    def predictions(self, suffix: str = "json") -> Path:
        return self.inputs / f"predictions.{suffix}"


@dataclass(frozen=True)
class ToolResult:
    status: VerdictStatus
    reason: str = ""
    log: str = ""
    details: Mapping[str, object] = field(
        default_factory=dict
    )  # for the instance's report


class OfficialTool(ABC):
    """An official evaluator: states what it needs, writes its inputs, reads its results."""

    name: ClassVar[str] = ""  # the value of ``--evaluator``
    package: ClassVar[str] = ""  # on the package index
    modules: ClassVar[tuple[str, ...]] = ()  # that the interpreter needs
    needed: ClassVar[tuple[str, ...]] = ()  # keys of a row that may not be empty
    allowance: ClassVar[float] = (
        0.0  # seconds that the commands may take beyond the tests
    )
    uses_engine: ClassVar[bool] = True  # whether it runs containers on the local engine

    def __init__(self, settings: ToolSettings) -> None:
        self.settings = settings

    @abstractmethod
    def write(self, tasks: Tasks, folder: EvaluationFolder) -> None:
        """Write one prediction for each row, and the rows, which hold no gold patch."""

    @abstractmethod
    def commands(self, tasks: Tasks, folder: EvaluationFolder) -> list[list[str]]:
        """Return the commands to run one after the other, each a list of words."""

    @abstractmethod
    def read(self, task: EvaluationTask, folder: EvaluationFolder) -> ToolResult | None:
        """Return the result on one prediction; None if the tool left none.

        A result that may come from a crash as well as from a wrong patch is ``NOT_EVALUATED``.
        """

    def identifier(self, task: EvaluationTask) -> str:
        """Return the id of the instance in what the tool prints."""
        return row_id(task)

    def lacking(self, task: EvaluationTask) -> str:
        """Return what the row lacks for this tool, in words; empty if it lacks nothing."""
        row = task.evaluation.row
        return ", ".join(
            key for key in self.needed if row.get(key) in (None, "", [], {})
        )

    def groups(self, tasks: Tasks) -> Sequence[Tasks]:
        """Return ``tasks`` in groups that one call of the tool may evaluate together."""
        return [tasks]

    def environment(self) -> Mapping[str, str]:
        """Return variables for the commands; rows are given as files, so no hub is asked."""
        return {"HF_HUB_OFFLINE": "1"}

    def check(self) -> str:
        """Return the version of the package in words."""
        lacks, version = self._probe()
        if lacks:
            raise UserError(
                f"evaluation.python {self.settings.python} lacks {', '.join(lacks)}: install "
                f"what --evaluator {self.name} needs in an environment of its own, and name that"
            )
        return f"{self.package} {version}"

    def _probe(self) -> tuple[list[str], str]:
        """Return the modules that the interpreter lacks, and the version of the package."""
        python = self.settings.python
        try:
            result = subprocess.run(
                [python, "-c", _PROBE, self.package, *self.modules],
                env=without_secrets(os.environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                timeout=_PROBE_SECONDS,
                cwd="/",
            )
            lacks, version = json.loads(result.stdout)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise UserError(
                f"evaluation.python {python} does not run: {error}; give a Python interpreter"
            ) from error
        return list(lacks), str(version)

    def command(self, start: Sequence[str], options: Mapping[str, object]) -> list[str]:
        """Return a command of the tool's interpreter."""
        words = [self.settings.python, *start]
        for name, value in options.items():
            words += [name, str(value)]
        return words


def row_id(task: EvaluationTask) -> str:
    """Return the id by which official tools know the instance of a prediction.

    It is the row's own: the harness may use a neutral one, which hides the instance from an agent.
    """
    name = task.evaluation.instance_id
    if not is_safe_key(name):
        raise UserError(f"instance {name!r}: an id holds only letters, digits and ._+-")
    return name


def write_values(path: Path, values: Collection[object]) -> None:
    """Write JSON, or a line of it for each value if ``path`` ends with ``.jsonl``."""
    # Dates of a dataset become texts.
    dumps = partial(json.dumps, default=str)
    lines = path.suffix == ".jsonl"
    text = "".join(dumps(value) + "\n" for value in values) if lines else dumps(values)
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
