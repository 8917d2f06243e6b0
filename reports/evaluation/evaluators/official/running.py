"""Evaluate with an official tool: a fresh folder, its commands, its results as verdicts."""

from __future__ import annotations

import math
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from core.errors import InfrastructureError, UserError
from core.plaintext import Say, shortened
from core.processes import Tail, run_limited, without_secrets
from environments.docker.engine import connect, engine_variables
from environments.leftovers import remove_mounted, remove_named
from reports.data.verdicts import Verdict, VerdictStatus
from reports.evaluation.evaluators.base import EvaluationTask, Evaluator, Tasks
from reports.evaluation.evaluators.docker import ImagePreparation, digests
from reports.evaluation.evaluators.official.tool import (
    EvaluationFolder,
    OfficialTool,
    ToolResult,
    read_text,
)

_FAILURE = re.compile(r"error|fail|exception|not found|no such", re.IGNORECASE)


@dataclass(frozen=True)
class OfficialEvaluator(Evaluator):
    """Evaluates with an official tool, in a process group of its own."""

    tool: OfficialTool
    folder: (
        Path  # for the folders of evaluations, each with the tool's files and its log
    )
    images: ImagePreparation  # before the tool starts
    say: Say

    @property
    def name(self) -> str:
        return self.tool.name

    def prepare(self, tasks: Tasks) -> Mapping[str, str]:
        self.say(f"evaluator {self.name}: {self.tool.check()}")
        lacking = {
            task.instance_id: f"the row lacks {words}, which {self.name} needs"
            for task in tasks
            if (words := self.tool.lacking(task))
        }
        if lacking and len(lacking) == len({task.instance_id for task in tasks}):
            name, words = next(iter(lacking.items()))
            raise UserError(f"instance {name}: {words}; give --evaluator another value")
        ready = [task for task in tasks if task.instance_id not in lacking]
        if not self.tool.uses_engine:
            return lacking
        return {**lacking, **self.images.prepare(ready)}

    def evaluate(self, tasks: Tasks, run_id: str) -> Iterator[Verdict]:
        version = self.tool.check()
        found = (
            digests(task.instance.image for task in tasks)
            if self.tool.uses_engine
            else {}
        )
        for group in self.tool.groups(tasks):
            for verdict in self._group(group, run_id):
                task = next(t for t in group if t.instance_id == verdict.instance_id)
                image = found.get(task.instance.image, "")
                yield verdict.but(image=image, tool=version)

    def _group(self, tasks: Tasks, run_id: str) -> list[Verdict]:
        self.folder.mkdir(parents=True, exist_ok=True)
        outputs = Path(tempfile.mkdtemp(prefix=f"{run_id}-", dir=self.folder))
        with tempfile.TemporaryDirectory() as scratch:
            folder = EvaluationFolder(Path(scratch), outputs, outputs.name, run_id)
            self.tool.write(tasks, folder)
            log = outputs / "console.log"
            try:
                failure = self._run(tasks, folder, log)
            finally:
                self._clean(folder)
            return [self._verdict(task, folder, failure, log) for task in tasks]

    def _run(self, tasks: Tasks, folder: EvaluationFolder, log: Path) -> str:
        """Run the commands; return why one did not end well, empty if all did."""
        settings = self.tool.settings
        rounds = math.ceil(len(tasks) / max(settings.workers, 1))
        limit = settings.timeout * (rounds + 1) + self.tool.allowance
        # Tools leave files there that they mount into containers.
        temporary = folder.inputs / "tmp"
        temporary.mkdir()
        env = {
            **without_secrets(os.environ),
            **engine_variables(),
            "TMPDIR": str(temporary),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            **self.tool.environment(),
        }
        with log.open("wb") as stream:
            output = ConsoleLog(stream, lambda line: self.say(f"{self.name}: {line}"))
            for words in self.tool.commands(tasks, folder):
                result = run_limited(words, folder.outputs, env, limit, tail=output)
                output.end()
                if result.timed_out:
                    return f"{self.name} was ended after {limit:.0f} s; see {log}"
                if result.exit_code:
                    return f"{self.name} failed: {output.last_line or 'no output'}; see {log}"
        return ""

    def _clean(self, folder: EvaluationFolder) -> None:
        client: Any = connect() if self.tool.uses_engine else None
        if client is None:
            return
        with closing(client), suppress(InfrastructureError):
            left = remove_named(client, re.compile(rf".*{re.escape(folder.run_id)}.*"))
            left += remove_mounted(client, (folder.inputs, folder.outputs))
            for name in left:
                self.say(f"removed what the evaluation left: container {name}")

    def _verdict(
        self, task: EvaluationTask, folder: EvaluationFolder, failure: str, log: Path
    ) -> Verdict:
        outcome = self.tool.read(task, folder)
        if outcome is None:
            outcome = ToolResult(
                VerdictStatus.NOT_EVALUATED, self._why(task, failure, log)
            )
        name, resolved = task.instance_id, outcome.status is VerdictStatus.RESOLVED
        report = {name: {"resolved": resolved, "patch_exists": True, **outcome.details}}
        verdict = Verdict(
            instance_id=name,
            status=outcome.status,
            evaluator=self.name,
            reason=outcome.reason,
            log=outcome.log,
        )
        return verdict.but(report=report) if verdict.conclusive else verdict

    def _why(self, task: EvaluationTask, failure: str, log: Path) -> str:
        """Return why a result is missing: if possible the tool's own line on the instance."""
        name = self.tool.identifier(task)
        lines = (line for line in read_text(log).splitlines() if name in line)
        found = [line for line in lines if _FAILURE.search(line.replace(name, ""))]
        if found:
            return f"{self.name}: {shortened(found[-1], 300)}; see {log}"
        return failure or f"{self.name} left no result; see {log}"


class ConsoleLog(Tail):
    """Writes output to ``stream`` and shows its lines; of a progress bar one in ten seconds."""

    def __init__(
        self,
        stream: IO[bytes],
        show: Say,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(head_size=0, tail_size=1 << 16)
        self.last_line = ""
        self._stream, self._show, self._clock = stream, show, clock
        self._rest, self._shown = b"", clock()

    def _add(self, chunk: bytes) -> None:
        super()._add(chunk)
        self._stream.write(chunk)
        self._stream.flush()
        self._rest += chunk
        while match := re.search(rb"[\r\n]", self._rest):
            line, self._rest = self._rest[: match.start()], self._rest[match.end() :]
            self._line(line, bar=match[0] == b"\r")
        self._rest = self._rest[-(1 << 16) :]

    def end(self) -> None:
        line, self._rest = self._rest, b""
        self._line(line, bar=False)

    def _line(self, raw: bytes, *, bar: bool) -> None:
        line = shortened(raw.decode("utf-8", "replace"), 200)
        if not line:
            return
        self.last_line = line
        now = self._clock()
        if bar and now - self._shown < 10:
            return
        self._shown = now
        self._show(line)
