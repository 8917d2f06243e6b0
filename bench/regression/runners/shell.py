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
from itertools import dropwhile
from pathlib import PurePosixPath

Read = Callable[[str], str | None]
"""Returns the text of a file of the base commit; None if there is none."""
_OPERATOR = re.compile(
    r"\|\||&&|\|&?|;|\n|(?<![<>&])&(?![>&])|\(|\)|\{(?=\s)|(?<=\s)\}"
)
_HIDDEN = "\0"
_QUOTED = re.compile(
    r"""'[^']*'|"(?:[^"\\]|\\.)*"|`[^`]*`|\\.|\$\((?:[^()]|\([^()]*\))*\)|\$\{[^}]*\}""",
    re.DOTALL,
)
# Installing a runner does not start it.
_INSTALLS = re.compile(
    r"(?:sudo )?(?:npm|yarn|pnpm|pip3?|gem|apt|apt-get|composer|go|cargo|python3? -m pip) +"
    r"(?:-\S+ +)*(?:install|i|ci|add|require|get)\b"
)
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")
# Wrappers pass arguments through further shells, and not all of them quote.
_PLAIN_PATH = re.compile(r"[\w@+=,./-]+")
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f]+")
_MANAGERS = frozenset({"npm", "yarn", "pnpm", "composer"})
# Words of the managers that are not names of scripts.
_BUILT_IN = frozenset(
    {"install", "ci", "i", "add", "build", "exec", "dlx", "init", "workspace"}
)
_MOST_SCRIPTS = 4
_LONGEST = 10_000


@dataclass(frozen=True)
class SimpleCommand:
    """One simple command of a line, between the text before and after it.

    Attributes:
        words: as written, with quotes.
        folder: in which it runs, by the ``cd`` commands before it; empty for the first folder.
    """

    before: str
    words: tuple[str, ...]
    after: str
    folder: str = ""

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def with_words(self, *words: str) -> str:
        return f"{self.before}{' '.join(words)}{self.after}"

    def with_option(self, option: str) -> str:
        return self.with_words(*self.words, option)

    def path_here(self, path: str) -> str | None:
        """Return ``path`` relative to the command's folder; None if it lies elsewhere."""
        if not self.folder:
            return path
        prefix = f"{self.folder}/"
        return path.removeprefix(prefix) if path.startswith(prefix) else None


def masked(command: str) -> str:
    """Return ``command`` with every character of quotes and substitutions replaced."""
    return _QUOTED.sub(lambda match: _HIDDEN * len(match[0]), command)


def simple_commands(command: str) -> list[SimpleCommand]:
    """Return the simple commands of ``command`` in order; none if it cannot be read."""
    mask = masked(command)
    if "<<" in mask or re.search(r"['\"`]", mask):
        return []
    found: list[SimpleCommand] = []
    start, folder = 0, ""
    for end, after in [
        *((m.start(), m.end()) for m in _OPERATOR.finditer(mask)),
        (len(mask), 0),
    ]:
        spans = [
            (start + m.start(), start + m.end())
            for m in re.finditer(r"\S+", mask[start:end])
        ]
        words = tuple(command[first:last] for first, last in spans)
        if words and words[0] == "cd":
            folder = _entered(folder, words[1:])
        elif words:
            around = command[: spans[0][0]], command[spans[-1][1] :]
            found.append(SimpleCommand(around[0], words, around[1], folder))
        start = after
        if mask[end:after] == ")":
            folder = ""
    return [] if any(one.folder == _HIDDEN for one in found) else found


def _entered(folder: str, words: tuple[str, ...]) -> str:
    plain = len(words) == 1 and bool(_PLAIN_PATH.fullmatch(words[0]))
    if not plain or words[0].startswith(("/", "-")) or ".." in words[0]:
        return _HIDDEN
    joined = str(PurePosixPath(folder, words[0]))
    return "" if joined == "." else joined


def only_command(command: str, pattern: re.Pattern[str]) -> SimpleCommand | None:
    """Return the only simple command that ``pattern`` finds; None for none or several."""
    commands = [
        one for one in simple_commands(command) if not _INSTALLS.match(one.text)
    ]
    found = [one for one in commands if pattern.search(masked(one.text))]
    return found[0] if len(found) == 1 else None


def without_installs(command: str) -> str:
    """Return the simple commands of ``command`` that install nothing, one a line."""
    kept = [
        one.text for one in simple_commands(command) if not _INSTALLS.match(one.text)
    ]
    return "\n".join(kept) or command


def place_of(words: tuple[str, ...], names: re.Pattern[str]) -> int | None:
    """Return the index of the first word whose base name matches ``names``."""
    bases = [word.rpartition("/")[2] for word in words]
    return next((n for n, base in enumerate(bases) if names.fullmatch(base)), None)


def quoted(path: str) -> str | None:
    """Return the file name ``path`` as one word that is not an option; None if unprintable."""
    if not path or not _PRINTABLE.fullmatch(path):
        return None
    return shlex.quote(f"./{path}" if path.startswith("-") else path)


def is_plain(path: str) -> bool:
    """Return whether ``path`` means itself in any shell and to any program."""
    return bool(_PLAIN_PATH.fullmatch(path)) and not path.startswith("-")


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
    words = tuple(dropwhile(_ASSIGNMENT.match, command.words))
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
        scripts = json.loads(read(f"{folder}/{file}" if folder else file) or "")[
            "scripts"
        ]
        parts = {
            name: text if isinstance(text, list) else [text]
            for name, text in scripts.items()
        }
        return {
            str(name): " && ".join(str(part).removeprefix("@php ") for part in texts)
            for name, texts in parts.items()
        }
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


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
