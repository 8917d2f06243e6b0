"""Read fences of Markdown and the file names at them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from agent.formats.reading.names import clean_name, path_in_line

_FENCE = re.compile(r"^\s{0,3}(`{3,}|~{3,})(.*)$")
_TITLE = re.compile(r"(?:title|file|filename|path)\s*=\s*[\"']?([^\"'\s]+)", re.IGNORECASE)
_PREAMBLE = re.compile(
    r"\s*(?:continu|here(?:'s| is| are)|sure\b|sorry|apolog|certainly|of course|i |i'(?:ll|m)\b"
    r"|let me)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[\s()\[\]<>{}`*\"',;]+|[.:!?](?=\s|$)")


def fence_of(line: str) -> tuple[str, str] | None:
    """Return the run of marks and the info string of a fence line, None for any other line."""
    match = _FENCE.match(line)
    if not match or ("`" in match[1] and "`" in match[2]):
        return None
    return match[1], match[2].strip()


def shortest_fence(texts: Iterable[str]) -> str:
    """Return the shortest fence, three backticks or more, that no line of ``texts`` begins with."""
    found = re.compile(r"^[^\S\n]*(`{3,})", re.MULTILINE)
    runs = (len(run) for text in texts for run in found.findall(text))
    return "`" * (max(runs, default=2) + 1)


def path_in_info(info: str, known: Collection[str]) -> str | None:
    """Return the file that an info string names: ``python a.py``, ``python:a.py``, ``a.py``."""
    if title := _TITLE.search(info):
        return path_in_line(title[1], known)
    words = [word for part in info.split() for word in part.split(":") if word]
    for word in reversed(words):
        if (path := path_in_line(word, known)) and ("." in word or "/" in word or path in known):
            return path
    return None


def path_above(lines: Sequence[str], known: Collection[str]) -> str | None:
    """Return the file that the last line with text names; a fence follows it."""
    line = next((line for line in reversed(lines[-3:]) if line.strip()), "")
    return None if fence_of(line) else path_in_line(line, known)


def paths_in_prose(lines: Sequence[str], known: Collection[str]) -> list[str]:
    """Return the known files that the words of ``lines`` name, in order."""
    words = (word for line in lines if not fence_of(line) for word in _WORD.split(line))
    return list(dict.fromkeys(name for word in words if (name := clean_name(word)) in known))


def is_prose(reply: str) -> bool:
    """Return whether ``reply`` begins with words about itself instead of continuing the text."""
    return bool(_PREAMBLE.match(reply))
