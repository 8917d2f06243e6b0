"""Run any command as an agent: in the checkout, with few variables and a time limit."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from shutil import copytree
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from swe_retry.agent.agentsettings import AgentSettings
from swe_retry.agent.conversation.result import Ending, Result
from swe_retry.agent.prompts import render
from swe_retry.agent.protocol import AgentResult, Task
from swe_retry.agent.surroundings import CommandRun, Surroundings
from swe_retry.core.errors import InfrastructureError
from swe_retry.core.money import dollars
from swe_retry.core.plaintext import abbreviate, visible
from swe_retry.core.processes import CommandResult, remove_tree
from swe_retry.core.redaction import Redactor
from swe_retry.core.untrusted import DamagedError, key_path, object_of, read_bytes
from swe_retry.llm.chat import BudgetUsedError, Message, Reply, Usage, request_sha256
from swe_retry.llm.gate import Failed, PlannedCall

PORT = 8080
"""The port at which a command without network finds the gateway."""
PLACEHOLDERS = ("message_file", "model", "result_file", "temperature")
# {{name}}, which stands for {name}, or {name}, which a value replaces.
_PLACEHOLDER = re.compile(r"\{(\{[a-z_]+\})\}|\{([a-z_]+)\}")
_MAX_LINE = 300
_MAX_LINES = 5
# Frames of a stack, brackets alone, and the version of a runtime that crashed:
# "Node.js v20.20.2", "Bun v1.3.1 (Linux x64)".
_NOISE = re.compile(r"\s|\W*$|\S+ v\d+\.\d+\.\d+\S*( \(.*\))?$")
_MAX_RESULT_BYTES = 1_000_000
_RESULT = "result.json"


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put values in place of ``{name}``; ``{{name}}`` stands for ``{name}``."""

    def value(match: re.Match[str]) -> str:
        return match[1] or values.get(match[2], match[0])

    return _PLACEHOLDER.sub(value, text)


@contextmanager
def scratch_folder(task: Task) -> Iterator[Path]:
    """Make a folder beside the checkout with ``home`` and ``tmp``, and remove it at the end."""
    folder = Path(tempfile.mkdtemp(dir=task.root.parent, prefix="agent."))
    try:
        for name in ("home", "tmp"):
            (folder / name).mkdir()
        yield folder
    finally:
        remove_tree(folder)


@dataclass(frozen=True)
class CommandAgent:
    """Runs a command; the harness checks the resulting tree as it does for any agent.

    Attributes:
        argv: the words of the template, with placeholders.
        environment: variables of the command besides ``PATH``, ``HOME``, ``TMPDIR``, ``LANG``.
        settings: with its time limit, after which the command and all its processes are killed.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    settings: AgentSettings
    surroundings: Surroundings

    def work(self, task: Task) -> AgentResult:
        # A command may write at once.
        task.host.settle_checkout()
        # From here on the agent runs with the environment of the tests, if there is one.
        surroundings = task.host.surround(self.surroundings)
        surroundings = surroundings.hide_copies(task.root, task.transcript)
        agent = replace(self, surroundings=surroundings)
        result = agent._run_session(task)
        rounds = self.settings.feedback
        for number in range(1, rounds + 1):
            if result.ending:
                break
            problem = task.host.review_tree()
            if not problem:
                break
            task.log(f"feedback {number} of {rounds}: {problem}")
            message = render("feedback", issue=task.message, problem=problem)
            result = agent._run_session(replace(task, message=message))
        return result

    def _run_session(self, task: Task) -> AgentResult:
        """Run the command once, as one call: the run is charged with what it says it spent."""
        try:
            # Like a call of a model, it is mostly waiting.
            with task.host.let_others_work():
                return self._run_charged(task)
        except BudgetUsedError as error:
            refused = Result(Ending.BUDGET, None, None, None, (), (), 0)
            return AgentResult(refused, str(error))

    def _run_charged(self, task: Task) -> AgentResult:
        request = request_sha256([Message("user", task.message)])
        call = PlannedCall(task.model_name, "command", request, 0, None)
        gate = task.host.open_gate()
        ticket = gate.begin(call)
        try:
            result = self._run_alone(task)
            # Killed at a forced shutdown: it did not end, and may be billed.
            task.host.check_killed()
        except BaseException as error:
            gate.end(ticket, Failed(str(error), transient=False, billed=True))
            raise
        gate.end(ticket, task.transcript.calls[-1])
        return result

    def _run_alone(self, task: Task) -> AgentResult:
        message = Message("user", task.message)
        task.transcript.messages.append(message)
        with scratch_folder(task) as folder:
            ended = self.run_command(task, folder, self.placeholders(task, folder))
            spent, note = read_spent(folder / _RESULT)
        notes = "; ".join(filter(None, (ended.problem, note)))
        ended.log(task, notes)
        task.transcript.messages.append(Message("assistant", ended.output))
        reply = Reply(
            content=ended.output,
            usage=spent.usage,
            cost=spent.cost,
            seconds=round(ended.result.seconds, 3),
            model=task.model_name,
            request_sha256=request_sha256([message]),
        )
        task.transcript.calls.append(reply)
        return AgentResult(None, notes, ended.ending)

    def placeholders(self, task: Task, folder: Path) -> dict[str, str]:
        """Write the message into ``folder``, and return what stands for the placeholders."""
        if self.settings.home:
            copytree(self.settings.home, folder / "home", dirs_exist_ok=True)
        message = folder / "message.txt"
        message.write_text(task.message, "utf-8", "surrogateescape")
        scratch = self.surroundings.visible_paths(folder)[0]
        return {
            "message_file": str(scratch / message.name),
            "model": task.model_name,
            "result_file": str(scratch / _RESULT),
            "temperature": f"{task.temperature:g}",
        }

    def run_command(
        self,
        task: Task,
        folder: Path,
        values: Mapping[str, str],
        variables: Mapping[str, str] = {},
        must_end: Callable[[], bool] = lambda: False,
    ) -> EndedCommand:
        """Run the command with ``values`` for its placeholders, and with more ``variables``."""
        scratch, home = self.surroundings.visible_paths(folder)
        command = CommandRun(
            argv=tuple(fill(word, values) for word in self.argv),
            root=task.root,
            scratch=folder,
            variables={
                "PATH": os.environ.get("PATH", os.defpath),
                "LANG": os.environ.get("LANG", "C.UTF-8"),
                "HOME": str(home),
                "TMPDIR": str(scratch / "tmp"),
                **self.environment,
                **variables,
            },
            seconds=self.settings.timeout,
            must_end=must_end,
            check=task.host.check_killed,
        )
        try:
            result = self.surroundings.run(command)
        except OSError as error:
            raise InfrastructureError(
                f"--agent: cannot run {command.argv[0]}: {error}"
            ) from error
        # Trajectories are published, and a command may print the secrets that it gets.
        redact = Redactor.of_environment({**os.environ, **self.environment})
        return EndedCommand(
            result=result,
            seconds=self.settings.timeout,
            output=redact(result.output),
            # Some write their errors to standard output.
            last_words=last_lines(redact(command.errors.text() or result.output)),
        )


@dataclass(frozen=True)
class EndedCommand:
    """A command that ended.

    Attributes:
        seconds: its time limit.
        last_words: the last lines of its standard error or output, in one.
    """

    result: CommandResult
    seconds: float
    output: str
    last_words: str

    @property
    def ending(self) -> Ending | None:
        """The abnormal end that time limit and exit code show."""
        if self.result.timed_out:
            return Ending.TIME
        if self.result.exit_code:
            return Ending.FAILED
        return None

    @property
    def problem(self) -> str:
        """The abnormal end in words."""
        if not self.ending:
            return ""
        problem = f"the agent ended with exit code {self.result.exit_code}"
        if self.result.timed_out:
            problem = f"the agent was stopped after {self.seconds:.0f} s"
        if self.last_words:
            problem += f": {self.last_words}"
        return problem

    def log(self, task: Task, notes: str) -> None:
        task.log(f"agent: {notes or 'ended'} after {self.result.seconds:.1f} s")
        task.log(f"agent's output:\n{self.output}")


def last_lines(text: str) -> str:
    """Return the last lines of an output that say something, in one line."""
    text = visible(text)
    lines = [line for line in text.splitlines() if not _NOISE.match(line)]
    chosen = lines[-_MAX_LINES:] or [text]
    return " / ".join(abbreviate(line, _MAX_LINE) for line in chosen)


def _cost(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("it is not a number")
    return dollars(value)


_Count = Annotated[int, Field(strict=True, ge=0)]


class _Tokens(BaseModel):
    prompt: _Count = 0
    completion: _Count = 0
    cached: _Count = 0


class Spent(BaseModel):
    """The content of ``{result_file}``; other keys are left to the agent.

    Attributes:
        cost: dollars; None where they are unknown.
    """

    cost: Annotated[Decimal, BeforeValidator(_cost)] | None = None
    tokens: _Tokens | None = None

    @property
    def usage(self) -> Usage | None:
        if not self.tokens:
            return None
        return Usage(self.tokens.prompt, self.tokens.completion, self.tokens.cached)


def read_spent(path: Path) -> tuple[Spent, str]:
    """Return the content of ``path``: ``{"cost": dollars, "tokens": {"prompt": n, …}}``.

    A missing file is not an error; for an unreadable file a note says what is wrong with it.
    """
    if path.is_symlink() or not path.exists():
        return Spent(), ""
    try:
        raw = object_of(read_bytes(path, _MAX_RESULT_BYTES))
        return Spent.model_validate(raw), ""
    except ValidationError as error:
        first = error.errors()[0]
        message = first["msg"].removeprefix("Value error, ")
        problem = f"`{key_path(first['loc'])}`: {message}"
    except (OSError, DamagedError) as error:
        problem = str(error)
    return (
        Spent(),
        f"the agent's result file is wrong, so its cost is unknown: {problem}",
    )
