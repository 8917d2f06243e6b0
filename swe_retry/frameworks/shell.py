"""Commands in a line of shell, and the scripts of packages that they call. Pure.

Only what can be read with certainty is read: text in quotes and substitutions is never split, and a
command with a here-document has no parts.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

Read = Callable[[str], str | None]
"""Returns the text of a file of the base commit; None if there is none."""
# What stands between commands; `&` only where it is not part of a redirection.
_OPERATOR = re.compile(
    r"\|\||&&|\|&?|;|\n|(?<![<>&])&(?![>&])|\(|\)|\{(?=\s)|(?<=\s)\}"
)
_HIDDEN = "\0"
# Text in quotes, in backticks, behind a backslash, in `$(…)` with one level inside, in `${…}`.
_QUOTED = re.compile(
    r"""(?s)'[^']*'|"(?:[^"\\]|\\.)*"|`[^`]*`|\\.|\$\((?:[^()]|\([^()]*\))*\)|\$\{[^}]*\}""",
)
# Installing a runner does not start it.
_INSTALLS = re.compile(
    r"(?:sudo )?(?:npm|yarn|pnpm|pip3?|gem|apt|apt-get|composer|go|cargo|python3? -m pip) +"
    r"(?:-\S+ +)*(?:install|i|ci|add|require|get)\b"
)
_TOKEN = re.compile(r"\S+")
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")
# Wrappers pass arguments through further shells, and not all of them quote.
_PLAIN_PATH = re.compile(r"[\w@+=,./-]+")
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f]+")
_MANAGERS = frozenset({"npm", "yarn", "pnpm", "composer"})
# Words of the managers that are not names of scripts.
_BUILT_IN = frozenset(
    {"install", "ci", "i", "add", "build", "exec", "dlx", "init", "workspace"}
)
_ABBREVIATIONS = {"t": "test", "tst": "test"}
_MAX_SCRIPTS = 4
_MAX_CHARACTERS = 10_000


@dataclass(frozen=True)
class SimpleCommand:
    """One simple command of a line, between the text before and after it.

    Attributes:
        tokens: as written, with quotes.
        folder: in which it runs, by the ``cd`` commands before it; empty for the first folder.
    """

    before: str
    tokens: tuple[str, ...]
    after: str
    folder: str

    @property
    def text(self) -> str:
        return " ".join(self.tokens)

    def with_tokens(self, *tokens: str) -> str:
        return f"{self.before}{' '.join(tokens)}{self.after}"

    def with_option(self, option: str) -> str:
        return self.with_tokens(*self.tokens, option)

    def path_here(self, path: str) -> str | None:
        """Return ``path`` relative to the command's folder; None if it lies elsewhere."""
        if not self.folder:
            return path
        prefix = f"{self.folder}/"
        if not path.startswith(prefix):
            return None
        return path.removeprefix(prefix)


def mask_quotes(command: str) -> str:
    """Return ``command`` with every character of quotes and substitutions replaced."""
    return _QUOTED.sub(lambda match: _HIDDEN * len(match[0]), command)


def simple_commands(command: str) -> list[SimpleCommand]:
    """Return the simple commands of ``command`` in order; none if it cannot be read."""
    mask = mask_quotes(command)
    if "<<" in mask or re.search(r"['\"`]", mask):
        return []
    ends = [match.span() for match in _OPERATOR.finditer(mask)]
    ends.append((len(mask), 0))
    commands: list[SimpleCommand] = []
    start = 0
    folder = ""
    for end, next_start in ends:
        spans = [match.span() for match in _TOKEN.finditer(mask, start, end)]
        tokens = tuple(command[first:last] for first, last in spans)
        if tokens and tokens[0] == "cd":
            folder = _change_folder(folder, tokens[1:])
        elif tokens:
            if folder == _HIDDEN:
                return []
            simple = SimpleCommand(
                before=command[: spans[0][0]],
                tokens=tokens,
                after=command[spans[-1][1] :],
                folder=folder,
            )
            commands.append(simple)
        if mask[end:next_start] == ")":
            folder = ""
        start = next_start
    return commands


def _change_folder(folder: str, arguments: tuple[str, ...]) -> str:
    """Return the folder after ``cd``; ``_HIDDEN`` if it cannot be read."""
    if len(arguments) != 1 or not _PLAIN_PATH.fullmatch(arguments[0]):
        return _HIDDEN
    path = arguments[0]
    if path.startswith(("/", "-")) or ".." in path:
        return _HIDDEN
    joined = str(PurePosixPath(folder, path))
    return "" if joined == "." else joined


def only_command(command: str, pattern: re.Pattern[str]) -> SimpleCommand | None:
    """Return the only simple command that ``pattern`` finds; None for none or several."""
    matches = []
    for simple in _without_installs(command):
        if pattern.search(mask_quotes(simple.text)):
            matches.append(simple)
    if len(matches) == 1:
        return matches[0]
    return None


def without_installs(command: str) -> str:
    """Return the simple commands of ``command`` that install nothing, one a line."""
    lines = [simple.text for simple in _without_installs(command)]
    return "\n".join(lines) or command


def _without_installs(command: str) -> list[SimpleCommand]:
    commands = simple_commands(command)
    return [simple for simple in commands if not _INSTALLS.match(simple.text)]


def index_of(tokens: tuple[str, ...], names: re.Pattern[str]) -> int | None:
    """Return the index of the first word whose base name matches ``names``."""
    for index, token in enumerate(tokens):
        base = token.rpartition("/")[2]
        if names.fullmatch(base):
            return index
    return None


def is_computed(token: str) -> bool:
    """Return whether the shell computes the word ``token``, which then may be anything."""
    return token.startswith(("$", "`", '"$'))


def quote_path(path: str) -> str | None:
    """Return the file name ``path`` as one word that is not an option; None if unprintable."""
    if not path or not _PRINTABLE.fullmatch(path):
        return None
    if path.startswith("-"):
        path = f"./{path}"
    return shlex.quote(path)


def is_plain(path: str) -> bool:
    """Return whether ``path`` means itself in any shell and to any program."""
    return bool(_PLAIN_PATH.fullmatch(path)) and not path.startswith("-")


@dataclass(frozen=True)
class ScriptCall:
    """A simple command that calls a script of ``package.json`` or ``composer.json``.

    Attributes:
        text: of the script.
        arguments: for the script.
        has_hooks: whether further scripts run before or after it.
    """

    command: SimpleCommand
    manager: str
    text: str
    arguments: tuple[str, ...]
    has_hooks: bool

    @property
    def full_text(self) -> str:
        return " ".join([self.text, *self.arguments])

    def with_arguments(self, *extra: str) -> str:
        """Return the whole line with more arguments for the script."""
        tokens = self.command.tokens
        if self.manager in ("npm", "composer") and "--" not in tokens:
            tokens = (*tokens, "--")
        return self.command.with_tokens(*tokens, *extra)


def script_call(command: SimpleCommand, read: Read) -> ScriptCall | None:
    """Return the script that ``command`` calls; None if it calls none that is known."""
    tokens = _without_variables(command.tokens)
    if len(tokens) < 2 or tokens[0] not in _MANAGERS:
        return None
    manager = tokens[0]
    arguments = tokens[1:]
    if arguments[0] in ("run", "run-script", "--silent", "-s"):
        del arguments[0]
    if not arguments:
        return None
    name = _ABBREVIATIONS.get(arguments[0], arguments[0])
    scripts = read_scripts(command.folder, manager, read)
    if not name or name in _BUILT_IN or name not in scripts:
        return None
    has_hooks = f"pre{name}" in scripts or f"post{name}" in scripts
    return ScriptCall(
        command=command,
        manager=manager,
        text=scripts[name],
        arguments=tuple(token for token in arguments[1:] if token != "--"),
        has_hooks=has_hooks and manager != "composer",
    )


def _without_variables(tokens: tuple[str, ...]) -> list[str]:
    remaining = list(tokens)
    while remaining and _ASSIGNMENT.match(remaining[0]):
        del remaining[0]
    return remaining


def script_calls(command: str, read: Read) -> list[ScriptCall]:
    """Return the calls of scripts in ``command``, in order."""
    calls = []
    for simple in simple_commands(command):
        call = script_call(simple, read)
        if call is not None:
            calls.append(call)
    return calls


def read_scripts(folder: str, manager: str, read: Read) -> Mapping[str, str]:
    """Return the scripts of a package by name; none if its file cannot be read."""
    file = "composer.json" if manager == "composer" else "package.json"
    path = f"{folder}/{file}" if folder else file
    scripts = {}
    try:
        package = json.loads(read(path) or "")
        for name, text in package["scripts"].items():
            commands = text if isinstance(text, list) else [text]
            parts = [str(part).removeprefix("@php ") for part in commands if part]
            scripts[str(name)] = " && ".join(parts)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
    return scripts


def expand_scripts(command: str, read: Read) -> str:
    """Return ``command`` with the texts of the scripts that it calls."""
    text = command
    for _ in range(_MAX_SCRIPTS):
        calls = script_calls(text, read)
        if not calls:
            break
        text = calls[0].command.with_tokens(calls[0].full_text)
    return text if len(text) < _MAX_CHARACTERS else command
