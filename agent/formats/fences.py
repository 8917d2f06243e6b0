"""Fences of Markdown, and the file names that stand at them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from agent.formats.names import clean_name, path_in_line

_FENCE = re.compile(r"^\s{0,3}(`{3,}|~{3,})(.*)$")
_TITLE = re.compile(r"(?:title|file|filename|path)\s*=\s*[\"']?([^\"'\s]+)", re.IGNORECASE)
_QUOTED = re.compile(r"[`*\"']+([^`*\"'\s]+)[`*\"']+")


def fence_of(line: str) -> tuple[str, str] | None:
    """Return the run of marks and the info string of a fence line, None for any other line."""
    match = _FENCE.match(line)
    if not match or ("`" in match[1] and "`" in match[2]):
        return None
    return match[1], match[2].strip()


def shortest_fence(texts: Iterable[str]) -> str:
    """Return the shortest fence, three backticks or more, that no line of ``texts`` begins with."""
    found = re.compile(r"^\s*(`{3,})", re.MULTILINE)
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
    """Return the file that the last line with text names, which stands above a fence.

    A line of prose that ends in a colon and names just one known file, in quotes or backticks or
    as a word, names it, too.
    """
    line = next((line for line in reversed(lines[-3:]) if line.strip()), "")
    if fence_of(line):
        return None
    return path_in_line(line, known) or _in_prose(line, known)


def _in_prose(line: str, known: Collection[str]) -> str | None:
    if not line.rstrip().endswith(":"):
        return None
    words = [*_QUOTED.findall(line), *line.rstrip(": ").split()]
    found = {name for word in words if (name := clean_name(word)) in known}
    return found.pop() if len(found) == 1 else None
