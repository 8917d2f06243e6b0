"""Pure: the commands in an agent's actions, and the calls of git in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from reports.foreign.model import Action

# Arguments of tools that run something or look something up. Texts that are written into files
# stand under other names.
_KEYS = (
    "command",
    "cmd",
    "commands",
    "code",
    "script",
    "bash",
    "input",
    "url",
    "urls",
    "query",
    "q",
)
_SEPARATORS = re.compile(r"\|\||&&|[;\n|&()`]|\$\(")
# The text of a file that is written by a command.
_HEREDOC = re.compile(
    r"^(?P<head>[^\n]*\b(?:cat|tee)\b[^\n]*<<-?\s*['\"]?(?P<word>\w+)['\"]?[^\n]*)\n"
    r".*?^\s*(?P=word)\s*$",
    re.MULTILINE | re.DOTALL,
)
_WITH_VALUE = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path")
_RUNNERS = (
    "sudo",
    "env",
    "timeout",
    "nice",
    "nohup",
    "time",
    "command",
    "exec",
    "xargs",
    "do",
    "then",
)
_LONGEST = 200_000


@dataclass(frozen=True)
class GitCall:
    """One call of git.

    Attributes:
        name: the subcommand.
        words: after it.
        text: the whole call.
    """

    name: str
    words: tuple[str, ...]
    text: str


def command_texts(action: Action) -> Iterator[str]:
    """Yield what an action runs or looks up, without the texts of files that ``cat`` writes."""
    for key in _KEYS:
        value = action.arguments.get(key)
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and text:
                yield _HEREDOC.sub(r"\g<head>", text[:_LONGEST])


def simple_commands(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of each simple command in a script, without what runs it (``sudo``)."""
    for part in _SEPARATORS.split(text):
        words = _words(part)
        while words and (words[0] in _RUNNERS or "=" in words[0] or words[0][:1].isdigit()):
            words = words[1:]
        if words:
            yield tuple(words)
            # What a shell is given as one word is a script as well.
            if words[0].rpartition("/")[2] in ("bash", "sh", "eval", "zsh"):
                for word in words[1:]:
                    if " " in word:
                        yield from simple_commands(word)


def _words(part: str) -> list[str]:
    try:
        return shlex.split(part, comments=True)
    except ValueError:  # half of a quoted text
        return part.replace('"', " ").replace("'", " ").split()


def git_calls(text: str) -> Iterator[GitCall]:
    """Yield the calls of git in a script."""
    for words in simple_commands(text):
        if words[0].rpartition("/")[2] != "git":
            continue
        rest = list(words[1:])
        while rest and rest[0].startswith("-"):
            rest = rest[2:] if rest[0] in _WITH_VALUE else rest[1:]
        if rest:
            yield GitCall(rest[0], tuple(rest[1:]), " ".join(words))
