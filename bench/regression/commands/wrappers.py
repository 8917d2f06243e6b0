"""Test commands that name a script: ``npm test``, ``yarn run x``, ``composer test``. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.regression.commands.shell import (
    SimpleCommand,
    simple_commands,
    without_assignments,
    without_installs,
)
from bench.regression.runners import Runner, runner_of, runner_of_parser

Read = Callable[[str], str | None]
"""Returns the text of a file of the base commit; None if there is none."""

_MANAGERS = frozenset({"npm", "yarn", "pnpm", "composer"})
# Words of the managers that are not names of scripts.
_BUILT_IN = frozenset({"install", "ci", "i", "add", "build", "exec", "dlx", "init", "workspace"})
_MOST_SCRIPTS = 4
_LONGEST = 10_000


@dataclass(frozen=True)
class ScriptCall:
    """A simple command that calls a script of ``package.json`` or ``composer.json``.

    Attributes:
        around: whether further scripts run before or after it.
    """

    command: SimpleCommand
    manager: str
    name: str
    text: str
    arguments: tuple[str, ...]
    around: bool

    @property
    def whole(self) -> str:
        return " ".join([self.text, *self.arguments])

    def with_arguments(self, *more: str) -> str:
        """Return the whole line with more arguments for the script."""
        words = self.command.words
        needs_mark = self.manager in ("npm", "composer") and "--" not in words
        return self.command.with_words(*words, *(["--"] if needs_mark else []), *more)


def script_call(command: SimpleCommand, read: Read) -> ScriptCall | None:
    """Return the script that ``command`` calls; None if it calls none that is known."""
    words = without_assignments(command.words)
    if not words or words[0] not in _MANAGERS or len(words) < 2:
        return None
    manager, rest = words[0], words[1:]
    if rest[0] in ("run", "run-script", "--silent", "-s"):
        rest = rest[1:]
    name = {"t": "test", "tst": "test"}.get(rest[0], rest[0]) if rest else ""
    scripts = _scripts(command.folder, manager, read)
    if not name or name in _BUILT_IN or name not in scripts:
        return None
    arguments = tuple(word for word in rest[1:] if word != "--")
    around = manager != "composer" and bool({f"pre{name}", f"post{name}"} & {*scripts})
    return ScriptCall(command, manager, name, scripts[name], arguments, around)


def _scripts(folder: str, manager: str, read: Read) -> Mapping[str, str]:
    file = "composer.json" if manager == "composer" else "package.json"
    try:
        scripts = json.loads(read(f"{folder}/{file}" if folder else file) or "")["scripts"]
        return {str(name): _joined(text) for name, text in scripts.items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def _joined(text: object) -> str:
    parts = text if isinstance(text, list) else [text]
    return " && ".join(str(part).removeprefix("@php ") for part in parts)


def expanded(command: str, read: Read) -> str:
    """Return ``command`` with the texts of the scripts that it calls."""
    text = command
    for _ in range(_MOST_SCRIPTS):
        calls = (script_call(one, read) for one in simple_commands(text))
        call = next((one for one in calls if one), None)
        if call is None:
            break
        text = call.command.with_words(call.whole)
    return text if len(text) < _LONGEST else command


def find_runner(command: str, parser: str, read: Read) -> Runner:
    """Return the runner that ``command`` starts, also through scripts of the base commit."""
    known = runner_of(without_installs(command)) or runner_of(
        without_installs(expanded(command, read))
    )
    return known or runner_of_parser(parser) or Runner.SCRIPT
