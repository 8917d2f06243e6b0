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
_QUOTED = re.compile(r"[`*]([^`*\s]{1,300})[`*]")
_WORD = re.compile(r"[\s()\[\]<>{}`*\"',;]+|[.:!?](?=\s|$)")


def fence_of(line: str) -> tuple[str, str] | None:
    """Return the run of marks and the info string of a fence line, None for any other line."""
    match = _FENCE.match(line) if "```" in line or "~~~" in line else None
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
    if not info:
        return None
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


def name_before(before: Sequence[str], known: Collection[str]) -> str | None:
    """Return the file that the lines before an edit name alone: inside or above its fence."""
    full = [line for line in before if line.strip()]
    if not full:
        return None
    if fence := fence_of(full[-1]):
        return path_in_info(fence[1], known) or path_above(full[:-1], known)
    if len(full) > 1 and fence_of(full[-2]):
        # Inside the fence a comment sign may stand before the name.
        bare = re.sub(r"^(#|//|--|/\*|<!--)\s*", "", full[-1].strip())
        return path_in_line(bare, known)
    return path_above(full, known)


def file_for(
    before: Sequence[str], known: Collection[str], previous: str | None, *, new: bool = False
) -> str | None:
    """Return the file of an edit: named before it, else ``previous``, that of the edit before.

    Words between two edits that name another file decide, or leave the file unknown. With ``new``
    they may name a file that is not known.
    """
    if name := name_before(before, known):
        return name
    said = paths_in_prose(before, known)
    if new and not said:
        said = [path for line in before for path in quoted_paths(line)]
    if not said:
        return previous
    return said[0] if len(said) == 1 else None


def paths_in_prose(lines: Sequence[str], known: Collection[str]) -> list[str]:
    """Return the known files that the words of ``lines`` name, in order."""
    words = (word for line in lines if not fence_of(line) for word in _WORD.split(line))
    names = (word if word.isalnum() else clean_name(word) for word in words)
    return list(dict.fromkeys(name for name in names if name in known))


def quoted_paths(line: str) -> list[str]:
    """Return what ``line`` has in backquotes or in bold that looks like the path of a file."""
    words = _QUOTED.findall(line) if not fence_of(line) else []
    return list(dict.fromkeys(name for word in words if (name := path_in_line(word, ()))))


def is_prose(reply: str) -> bool:
    """Return whether ``reply`` begins with words about itself instead of continuing the text."""
    return bool(_PREAMBLE.match(reply))
