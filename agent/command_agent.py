"""Run any command as an agent: in the checkout, with few variables and a time limit."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from agent.conversation.base import Ending
from agent.gateway.gateway import Access, Gateway
from agent.named.base import NamedAgent, variables_of
from agent.protocol import AgentResult, Task
from core.address import has_password
from core.errors import InfrastructureError, UserError
from core.money import dollars
from core.parsing.untrusted import DamagedError, key_path, object_of, read_bytes
from core.processes import CommandResult, Tail, remove_tree, run_limited
from core.redaction import Redactor
from llm.chat import (
    BudgetUsedError,
    Message,
    ReplayExhaustedError,
    Reply,
    TimeUsedError,
    Usage,
    request_sha256,
)
from llm.client import LiteLLMModel


class Surroundings:
    """Where a command runs and what it sees; this one changes nothing."""

    behind_socket: ClassVar[bool] = False
    """Whether the gateway is reached by ``SOCKET`` in the scratch folder alone."""

    def places(self, scratch: Path) -> tuple[Path, Path]:
        """Return where a command finds its scratch folder and its home."""
        return scratch, scratch / "home"

    def command_line(self, argv: Sequence[str], root: Path, scratch: Path) -> list[str]:
        """Return the command line that runs ``argv``, which has the paths of ``places``.

        ``root`` is the checkout; ``scratch`` has the folders ``home`` and ``tmp``.
        """
        return list(argv)


SOCKET = "gateway"
PORT = 8080
"""The port at which a command without network finds the gateway."""
_PLACEHOLDERS = ("message_file", "model", "result_file", "temperature")
_PLACEHOLDER = re.compile(r"\{(\{[a-z_]+\})\}|\{([a-z_]+)\}")
# Not ${NAME} of a shell, nor {{name}}, which stands for {name}.
_ANY_PLACEHOLDER = re.compile(r"(?<![${])\{([a-z_]+)\}")
_HEAD_BYTES = 20_000
_TAIL_BYTES = 30_000
_ERROR_BYTES = 4_000
_LONGEST_LINE = 300
_MOST_BYTES = 1_000_000
_RESULT = "result.json"
# How an attempt ends whose calls were refused; anything else ends more than it.
_ENDINGS = {
    TimeUsedError: Ending.TIME,
    BudgetUsedError: Ending.BUDGET,
    ReplayExhaustedError: Ending.REPLAY_EXHAUSTED,
}


def _cost(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("it is not a number")
    return dollars(value)


_Count = Annotated[int, Field(strict=True, ge=0)]


@dataclass(frozen=True)
class CommandAgent:
    """Runs a command; the harness checks the resulting tree as it does for any agent.

    Attributes:
        argv: the words of the template, with placeholders.
        environment: variables of the command besides ``PATH``, ``HOME``, ``TMPDIR``, ``LANG``.
        seconds: the time limit; then the command and all its processes are killed.
        access: to its model, through the gateway; None: it calls models by itself.
        recipe: of an agent that the harness knows by name.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    seconds: float
    surroundings: Surroundings
    access: Access | None = None
    recipe: NamedAgent | None = None

    def work(self, task: Task) -> AgentResult:
        folder = Path(tempfile.mkdtemp(dir=task.root.parent, prefix="agent."))
        # Trajectories are published, and a command may print the secrets that it gets.
        redact = Redactor.of_environment({**os.environ, **self.environment})
        try:
            if self.access is None:
                return self._alone(task, folder, redact)
            return self._through_gateway(self.access, task, folder, redact)
        finally:
            remove_tree(folder)

    def _alone(self, task: Task, folder: Path, redact: Redactor) -> AgentResult:
        asked = Message("user", task.message)
        task.transcript.messages.append(asked)
        ended, spent = self._run(task, folder, redact), read_spent(folder / _RESULT)
        ending, problem = ended.meaning(self.seconds)
        notes = "; ".join(filter(None, (problem, spent.note)))
        ended.log(task, notes)
        task.transcript.messages.append(Message("assistant", ended.output))
        reply = Reply(
            content=ended.output,
            usage=spent.usage,
            cost=spent.cost,
            seconds=round(ended.result.seconds, 3),
            model=task.model_name,
            request_sha256=request_sha256([asked]),
        )
        task.transcript.calls.append(reply)
        return AgentResult(None, notes, ending)

    def _through_gateway(
        self, access: Access, task: Task, folder: Path, redact: Redactor
    ) -> AgentResult:
        model, transcript = task.model, task.transcript
        if not isinstance(model, LiteLLMModel):
            raise TypeError(f"{model!r} has no provider to call through the gateway")
        gateway = Gateway(
            model,
            access,
            socket=folder / SOCKET if self.surroundings.behind_socket else None,
            # An attempt with feedback has several sessions.
            admitted=len(transcript.calls),
            first_lane=max((m.lane + 1 for m in transcript.messages), default=0),
        )
        try:
            with gateway:
                ended = self._run(task, folder, redact, gateway)
        finally:
            said = (replace(m, content=redact(m.content)) for m in gateway.messages)
            transcript.messages.extend(said)
            transcript.calls.extend(gateway.calls)
        ending, problem = ended.meaning(self.seconds)
        refused = gateway.problem
        notes = (problem, str(refused or ""), *_notes(gateway))
        ended.log(task, "; ".join(filter(None, notes)))
        if isinstance(refused, ReplayExhaustedError) and not gateway.calls:
            raise InfrastructureError(f"{refused}; give the agent that was recorded")
        if refused is not None:
            endings = (
                end for kind, end in _ENDINGS.items() if isinstance(refused, kind)
            )
            if (end := next(endings, None)) is None:
                raise refused
            return AgentResult(None, str(refused), end)
        if not gateway.calls:
            # Many agents end with exit code 0 when no call succeeds.
            last = _last_line(ended.output) or "without a word"
            words = problem or f"it ended with exit code 0: {last}"
            raise InfrastructureError(f"the agent had no answer of a model: {words}")
        return AgentResult(None, problem, ending)

    def _run(
        self, task: Task, folder: Path, redact: Redactor, gateway: Gateway | None = None
    ) -> _Ended:
        message = folder / "message.txt"
        message.write_text(task.message, encoding="utf-8", errors="surrogateescape")
        scratch, home = self.surroundings.places(folder)
        values = {
            "message_file": str(scratch / message.name),
            "model": gateway.presented if gateway else task.model_name,
            "result_file": str(scratch / _RESULT),
            "temperature": f"{task.temperature:g}",
        }
        if gateway:
            address = f"http://127.0.0.1:{gateway.port or PORT}"
            values |= {"address": address, "token": gateway.token}

        def filled(text: str) -> str:
            return _PLACEHOLDER.sub(lambda m: m[1] or values.get(m[2], m[0]), text)

        argv = [filled(word) for word in self.argv]
        tail, errors = Tail(_HEAD_BYTES, _TAIL_BYTES), Tail(0, _ERROR_BYTES)
        given = variables_of(self.access.apis) if self.access else {}
        given |= self.recipe.variables if self.recipe else {}
        variables = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": os.environ.get("LANG", "C.UTF-8"),
            "HOME": str(home),
            "TMPDIR": str(scratch / "tmp"),
            **self.environment,
            **{name: filled(text) for name, text in given.items()},
        }
        try:
            for name in ("home", "tmp"):
                (folder / name).mkdir()
            for name, text in self.recipe.files.items() if self.recipe else ():
                place = folder / "home" / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(filled(text))
            result = run_limited(
                self.surroundings.command_line(argv, task.root, folder),
                task.root,
                variables,
                self.seconds,
                tail,
                too_much=gateway.overdue if gateway else None,
                errors=errors,
            )
        except OSError as error:
            raise InfrastructureError(
                f"--agent: cannot run {argv[0]}: {error}"
            ) from error
        return _Ended(result, redact(result.output), _last_line(redact(errors.text())))


@dataclass(frozen=True)
class _Ended:
    """A command that ended; ``last`` is the last line of its errors."""

    result: CommandResult
    output: str
    last: str

    def meaning(self, seconds: float) -> tuple[Ending | None, str]:
        """Return the abnormal end that exit code and time limit show, and its words."""
        ending, problem = None, ""
        if self.result.timed_out:
            ending, problem = (
                Ending.TIME,
                f"the agent was stopped after {seconds:.0f} s",
            )
        elif self.result.exit_code:
            code = self.result.exit_code
            ending, problem = Ending.FAILED, f"the agent ended with exit code {code}"
        return ending, problem + (f": {self.last}" if problem and self.last else "")

    def log(self, task: Task, notes: str) -> None:
        task.log(f"agent: {notes or 'ended'} after {self.result.seconds:.1f} s")
        task.log(f"agent's output:\n{self.output}")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_LONGEST_LINE] if lines else ""


def _notes(gateway: Gateway) -> Iterator[str]:
    if gateway.drift:
        yield f"{gateway.drift} of {len(gateway.calls)} answers served to a changed request"
    for name, count in sorted(gateway.removed.items()):
        yield f"{name} removed from {count} requests"


def command_agent(
    template: str,
    names: Sequence[str],
    seconds: float,
    surroundings: Surroundings | None = None,
) -> CommandAgent:
    """Return the agent that runs ``template``, split as a shell splits words, without a shell.

    ``names`` are environment variables that the command gets.
    """
    # ``run.json`` records the template and is published.
    if name := Redactor.of_environment(os.environ).named_in(template):
        raise UserError(
            f"--agent holds the value of {name}: pass it with --agent-env {name}"
        )
    if has_password(template):
        raise UserError(
            "--agent holds a password in an address: put the address into an environment variable "
            "and pass it with --agent-env NAME"
        )
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise UserError(
            f"--agent command:{template}: {error}; fix the quotes"
        ) from error
    if not words:
        raise UserError(
            "--agent command: is empty; give a command, as 'command:my-agent {model}'"
        )
    known = " ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
    for match in _ANY_PLACEHOLDER.finditer(template):
        if match[1] not in _PLACEHOLDERS:
            raise UserError(
                f"--agent command:{template}: unknown placeholder {match[0]}; there are {known}"
            )
    program = shutil.which(words[0])
    if program is None:
        raise UserError(
            f"--agent: there is no command {words[0]!r}; install it or give its path"
        )
    argv = (str(Path(program).absolute()), *words[1:])
    return CommandAgent(
        argv, _environment(names), seconds, surroundings or Surroundings()
    )


def agent_of(
    recipe: NamedAgent, names: Sequence[str], seconds: float, place: Surroundings | None
) -> CommandAgent:
    """Return the agent that the harness knows by name; ``names`` as for ``command_agent``."""
    if shutil.which(recipe.program) is None:
        raise UserError(
            f"--agent {recipe.name}: there is no command {recipe.program!r}; install it: "
            f"{recipe.install}"
        )
    environment, place = _environment(names), place or Surroundings()
    return CommandAgent(recipe.words, environment, seconds, place, recipe=recipe)


def _environment(names: Sequence[str]) -> dict[str, str]:
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise UserError(
            f"--agent-env {','.join(missing)}: not set; set it or leave it out"
        )
    return {name: os.environ[name] for name in names}


class _Tokens(BaseModel):
    prompt: _Count = 0
    completion: _Count = 0
    cached: _Count = 0


class _ResultFile(BaseModel):
    """The content of ``{result_file}``; other keys are left to the agent."""

    cost: Annotated[Decimal, BeforeValidator(_cost)] | None = None
    tokens: _Tokens | None = None


@dataclass(frozen=True)
class Spent:
    """Dollars and tokens, None where unknown; ``note`` says what is wrong with the file."""

    cost: Decimal | None = None
    usage: Usage | None = None
    note: str = ""


def read_spent(path: Path) -> Spent:
    """Return the content of ``path``: ``{"cost": dollars, "tokens": {"prompt": n, …}}``.

    A missing file is not an error; an unreadable file gives a note.
    """
    if path.is_symlink() or not path.exists():
        return Spent()
    try:
        result = _ResultFile.model_validate(object_of(read_bytes(path, _MOST_BYTES)))
    except ValidationError as error:
        first = error.errors()[0]
        problem = (
            f"`{key_path(first['loc'])}`: {first['msg'].removeprefix('Value error, ')}"
        )
    except (OSError, DamagedError) as error:
        problem = str(error)
    else:
        tokens = result.tokens
        usage = (
            Usage(tokens.prompt, tokens.completion, tokens.cached) if tokens else None
        )
        return Spent(result.cost, usage)
    return Spent(
        note=f"the agent's result file is wrong, so its cost is unknown: {problem}"
    )
