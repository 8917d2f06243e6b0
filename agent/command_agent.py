"""Run any command as an agent: in the checkout, with few variables and a time limit."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from agent.conversation.base import Ending
from agent.protocol import AgentResult, Task
from core.address import has_password
from core.errors import InfrastructureError, UserError
from core.money import dollars
from core.parsing.untrusted import DamagedError, key_path, object_of, read_bytes
from core.processes import CommandResult, Tail, remove_tree, run_limited
from core.redaction import Redactor
from llm.chat import Call, Message, Reply, Usage, request_sha256

Wrap = Callable[[Sequence[str], Path, Path], list[str]]
"""Wraps a command line in another one, given the checkout and a scratch folder."""
_PLACEHOLDERS = ("message_file", "model", "result_file", "temperature")
_PLACEHOLDER = re.compile(r"\{(\{[a-z_]+\})\}|\{([a-z_]+)\}")
# Not ${NAME} of a shell, nor {{name}}, which stands for {name}.
_ANY_PLACEHOLDER = re.compile(r"(?<![${])\{([a-z_]+)\}")
_HEAD_BYTES = 20_000
_TAIL_BYTES = 30_000
_ERROR_BYTES = 4_000
_LONGEST_LINE = 300
_MOST_BYTES = 1_000_000


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
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    seconds: float
    wrap: Wrap

    def work(self, task: Task) -> AgentResult:
        asked = Message("user", task.message)
        task.transcript.messages.append(asked)
        folder = Path(tempfile.mkdtemp(dir=task.root.parent, prefix="agent."))
        errors = Tail(0, _ERROR_BYTES)
        # Trajectories are published, and a command may print the secrets that it gets.
        redact = Redactor.of_environment({**os.environ, **self.environment})
        try:
            result, spent = self._run(task, folder, errors)
        finally:
            remove_tree(folder)
        text = redact(errors.text())
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        output, last = redact(result.output), lines[-1][:_LONGEST_LINE] if lines else ""
        ending, problem = None, ""
        if result.timed_out:
            ending, problem = Ending.TIME, f"the agent was stopped after {self.seconds:.0f} s"
        elif result.exit_code:
            ending, problem = Ending.FAILED, f"the agent ended with exit code {result.exit_code}"
        problem += f": {last}" if problem and last else ""
        notes = [note for note in (problem, spent.note) if note]
        task.log(f"agent: {'; '.join(notes) or 'ended'} after {result.seconds:.1f} s")
        task.log(f"agent's output:\n{output}")
        task.transcript.messages.append(Message("assistant", output))
        reply = Reply(
            content=output,
            usage=spent.usage,
            cost=spent.cost,
            seconds=round(result.seconds, 3),
            model=task.model_name,
        )
        task.transcript.calls.append(Call(request_sha256([asked]), reply))
        return AgentResult(None, "; ".join(notes), ending)

    def _run(self, task: Task, folder: Path, errors: Tail) -> tuple[CommandResult, Spent]:
        message, result_file = folder / "message.txt", folder / "result.json"
        message.write_text(task.message, encoding="utf-8", errors="surrogateescape")
        values = {
            "message_file": str(message),
            "model": task.model_name,
            "result_file": str(result_file),
            "temperature": f"{task.temperature:g}",
        }
        argv = [
            _PLACEHOLDER.sub(lambda m: m[1] or values.get(m[2], m[0]), word) for word in self.argv
        ]
        tail = Tail(_HEAD_BYTES, _TAIL_BYTES)
        try:
            places = {"HOME": folder / "home", "TMPDIR": folder / "tmp"}
            for place in places.values():
                place.mkdir()
            variables = {
                "PATH": os.environ.get("PATH", os.defpath),
                "LANG": os.environ.get("LANG", "C.UTF-8"),
                **{name: str(place) for name, place in places.items()},
                **self.environment,
            }
            wrapped = self.wrap(argv, task.root, folder)
            result = run_limited(wrapped, task.root, variables, self.seconds, tail, errors=errors)
        except OSError as error:
            raise InfrastructureError(f"--agent: cannot run {argv[0]}: {error}") from error
        asks = any("{result_file}" in word for word in self.argv)
        return result, read_spent(result_file) if asks else Spent()


def command_agent(
    template: str, names: Sequence[str], seconds: float, wrap: Wrap | None = None
) -> CommandAgent:
    """Return the agent that runs ``template``, split as a shell splits words, without a shell.

    ``names`` are environment variables that the command gets.
    """
    # ``run.json`` records the template and is published.
    if name := Redactor.of_environment(os.environ).named_in(template):
        raise UserError(f"--agent holds the value of {name}: pass it with --agent-env {name}")
    if has_password(template):
        raise UserError(
            "--agent holds a password in an address: put the address into an environment variable "
            "and pass it with --agent-env NAME"
        )
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise UserError(f"--agent command:{template}: {error}; fix the quotes") from error
    if not words:
        raise UserError("--agent command: is empty; give a command, as 'command:my-agent {model}'")
    known = " ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
    for found in _ANY_PLACEHOLDER.finditer(template):
        if found[1] not in _PLACEHOLDERS:
            raise UserError(
                f"--agent command:{template}: unknown placeholder {found[0]}; there are {known}"
            )
    program = shutil.which(words[0])
    if program is None:
        raise UserError(f"--agent: there is no command {words[0]!r}; install it or give its path")
    argv = (str(Path(program).absolute()), *words[1:])
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise UserError(f"--agent-env {','.join(missing)}: not set; set it or leave it out")
    environment = {name: os.environ[name] for name in names}
    return CommandAgent(argv, environment, seconds, wrap or (lambda argv, *_: list(argv)))


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
        found = _ResultFile.model_validate(object_of(read_bytes(path, _MOST_BYTES)))
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"`{key_path(first['loc'])}`: {first['msg'].removeprefix('Value error, ')}"
    except (OSError, DamagedError) as error:
        problem = str(error)
    else:
        tokens = found.tokens
        usage = Usage(tokens.prompt, tokens.completion, tokens.cached) if tokens else None
        return Spent(found.cost, usage)
    return Spent(note=f"the agent's result file is wrong, so its cost is unknown: {problem}")
