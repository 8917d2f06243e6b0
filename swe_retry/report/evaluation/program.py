"""Evaluators that run an official program in a process group of its own."""

from __future__ import annotations

import math
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, ClassVar

from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.plaintext import Say, abbreviate
from swe_retry.core.processes import Tail, run_limited, without_secrets
from swe_retry.core.untrusted import MIB, read_object
from swe_retry.environments.leftovers import remove_mounted, remove_named
from swe_retry.report.evaluation.engine import EngineEvaluator, program_variables
from swe_retry.report.evaluation.evaluator import EvaluationTask, Tasks
from swe_retry.results.verdicts import Verdict, VerdictStatus

_FAILURE = re.compile(r"error|fail|exception|not found|no such", re.IGNORECASE)
_MAX_LOG = 64 * MIB
_MAX_LINE = 1 << 16
_PROBE_SECONDS = 120.0
_PROBE = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"


@dataclass(frozen=True)
class ProgramFolder:
    """The fresh folders of one evaluation: no program finds results of an earlier one.

    Attributes:
        inputs: for rows, which hold the answers, and predictions; removed at the end.
        outputs: for logs and results; the working folder. Containers carry its name.
        patches_id: the same for the same patches of a run.
    """

    inputs: Path
    outputs: Path
    patches_id: str


class OfficialEvaluator(EngineEvaluator):
    """Runs an official program in a process group of its own, in a fresh folder each time.

    A subclass states what the program needs, writes its inputs, and reads its results.

    Attributes:
        package: on the package index.
        allowance: seconds that the commands may take beyond the tests.
    """

    package: ClassVar[str]
    allowance: ClassVar[float] = 0.0

    def identifier(self, task: EvaluationTask) -> str:
        """Return the id of the instance in what the program prints."""
        return task.official_id

    def groups(self, tasks: Tasks) -> Sequence[Tasks]:
        """Return ``tasks`` in groups that one call of the program may evaluate together."""
        return [tasks]

    def variables(self) -> dict[str, str]:
        """Return variables for the commands."""
        return {}

    def commands(self, tasks: Tasks, folder: ProgramFolder) -> list[list[str]]:
        """Write the rows, without gold patch, and predictions; return the commands to run."""
        raise NotImplementedError

    def read(self, task: EvaluationTask, folder: ProgramFolder) -> Verdict | None:
        """Return the result on one prediction; None if the program left none.

        A result that may come from a crash as well as from a wrong patch is ``NOT_EVALUATED``.
        """
        raise NotImplementedError

    @property
    def python(self) -> str:
        return self.settings.evaluation.python or sys.executable

    @cached_property
    def version(self) -> str:
        """The package and its version; a UserError where the interpreter lacks it."""
        argv = [self.python, "-c", _PROBE, self.package]
        variables = without_secrets(os.environ)
        try:
            result = run_limited(argv, Path("/"), variables, _PROBE_SECONDS)
        except OSError as error:
            problem = str(error)
        else:
            line = result.output.strip().rpartition("\n")[2]
            if result.exit_code == 0:
                return f"{self.package} {line}"
            problem = abbreviate(line, 200) or "no output"
        raise UserError(
            f"evaluation.python {self.python} does not run {self.package}: {problem}; "
            "install the package in an environment of its own, and name that"
        )

    def prepare(self, tasks: Tasks) -> dict[str, str]:
        self.say(f"evaluator {self.name}: {self.version}")
        return super().prepare(tasks)

    def run(self, tasks: Tasks, run_id: str) -> Iterator[Verdict]:
        for group in self.groups(tasks):
            for verdict in self._evaluate_group(group, run_id):
                yield verdict.but(tool=self.version)

    def _evaluate_group(self, tasks: Tasks, run_id: str) -> list[Verdict]:
        self.folder.mkdir(parents=True, exist_ok=True)
        outputs = Path(tempfile.mkdtemp(prefix=f"{run_id}-", dir=self.folder))
        log = outputs / "console.log"
        verdicts = []
        with tempfile.TemporaryDirectory() as inputs:
            folder = ProgramFolder(Path(inputs), outputs, run_id)
            try:
                failure = self._run(tasks, folder, log)
            finally:
                self._remove_containers(folder)
            for task in tasks:
                verdict = self.read(task, folder)
                if verdict is None:
                    reason = self._printed_failure(task, log) or failure
                    reason = reason or f"{self.name} left no result; see {log}"
                    verdict = task.no_result(reason)
                verdicts.append(verdict)
        return verdicts

    def _run(self, tasks: Tasks, folder: ProgramFolder, log: Path) -> str:
        """Run the commands; return why one did not end well, empty if all did."""
        settings = self.settings.evaluation
        rounds = math.ceil(len(tasks) / settings.workers)
        limit = settings.timeout * (rounds + 1) + self.allowance
        # Programs leave files there that they mount into containers.
        temporary = folder.inputs / "tmp"
        temporary.mkdir()
        variables = program_variables(
            {
                "TMPDIR": str(temporary),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONUNBUFFERED": "1",
                **self.variables(),
            }
        )
        with log.open("wb") as stream:
            output = ConsoleLog(stream, lambda line: self.say(f"{self.name}: {line}"))
            for argv in self.commands(tasks, folder):
                result = run_limited(
                    argv, folder.outputs, variables, limit, tail=output
                )
                output.end()
                if result.timed_out:
                    return f"{self.name} was ended after {limit:.0f} s; see {log}"
                if result.exit_code:
                    line = output.last_line or "no output"
                    return f"{self.name} failed: {line}; see {log}"
        return ""

    def _remove_containers(self, folder: ProgramFolder) -> None:
        client = self.connect()
        if client is None:
            return
        with closing(client), suppress(InfrastructureError):
            pattern = re.compile(rf".*{re.escape(folder.outputs.name)}.*")
            names = remove_named(client, pattern)
            names += remove_mounted(client, (folder.inputs, folder.outputs))
            for name in names:
                self.say(f"removed what the evaluation left: container {name}")

    def _printed_failure(self, task: EvaluationTask, log: Path) -> str:
        """Return the program's last line about a failure of the instance; empty without one."""
        name = self.identifier(task)
        for line in reversed(read_log(log).splitlines()):
            if name in line and _FAILURE.search(line.replace(name, "")):
                return f"{self.name}: {abbreviate(line, 300)}; see {log}"
        return ""

    def result(
        self,
        task: EvaluationTask,
        resolved: object,
        log: str = "",
        reason: str = "",
        **details: object,
    ) -> Verdict:
        """Return the verdict of a complete evaluation; ``details`` are for swebench's report."""
        status = VerdictStatus.RESOLVED if resolved else VerdictStatus.UNRESOLVED
        report = {"resolved": bool(resolved), "patch_exists": True, **details}
        return task.verdict(
            status,
            reason,
            log=log,
            report=report,
        )


class ConsoleLog(Tail):
    """Writes output to ``stream`` and shows its lines; of a progress bar the end alone."""

    def __init__(self, stream: IO[bytes], show: Say) -> None:
        super().__init__()
        self.last_line = ""
        self._stream = stream
        self._show = show
        self._rest = b""

    def _add(self, chunk: bytes) -> None:
        self._stream.write(chunk)
        self._stream.flush()
        *lines, rest = (self._rest + chunk).split(b"\n")
        self._rest = rest[-_MAX_LINE:]
        for line in lines:
            self._show_line(line)

    def end(self) -> None:
        self._show_line(self._rest)
        self._rest = b""

    def _show_line(self, line: bytes) -> None:
        # A bar goes back to the start of its line.
        end = line.rstrip(b"\r").rpartition(b"\r")[2]
        text = abbreviate(end.decode("utf-8", "replace"), 200)
        if text:
            self.last_line = text
            self._show(text)


def read_result(path: Path) -> Mapping[str, object]:
    """Return the object in a result file; empty if there is none that can be read."""
    try:
        return read_object(path, "evaluate again")
    except (FileNotFoundError, UserError):
        return {}


def read_log(path: Path) -> str:
    """Return the text of a log, at most 64 MiB of it; empty if there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        return stream.read(_MAX_LOG).decode("utf-8", "replace")
