"""Read fences of Markdown with the file names at them, and the markers of SEARCH/REPLACE blocks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from agent.formats.reading.names import clean_name, path_in_line

_FENCE = re.compile(r"^\s{0,3}(`{3,}|~{3,})(.*)$")
_TITLE = re.compile(
    r"(?:title|file|filename|path)\s*=\s*[\"']?([^\"'\s]+)", re.IGNORECASE
)
_PREAMBLE = re.compile(
    r"\s*(?:continu|here(?:'s| is| are)|sure\b|sorry|apolog|certainly|of course|i |i'(?:ll|m)\b"
    r"|let me)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"[`*]([^`*\s]{1,300})[`*]")
_WORD = re.compile(r"[\s()\[\]<>{}`*\"',;]+|[.:!?](?=\s|$)")


def fence_of(line: str) -> tuple[str, str] | None:
    """Return the run of marks and the info string of a fence line, None for any other line."""
    # Up to three spaces may stand before the marks.
    start = line[:6]
    return _fence_of(line) if "```" in start or "~~~" in start else None


@lru_cache(maxsize=1024)
def _fence_of(line: str) -> tuple[str, str] | None:
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
    if not info:
        return None
    if title := _TITLE.search(info):
        return path_in_line(title[1], known)
    words = [word for part in info.split() for word in part.split(":") if word]
    for word in reversed(words):
        if (path := path_in_line(word, known)) and (
            "." in word or "/" in word or path in known
        ):
            return path
    return None


def path_above(lines: Sequence[str], known: Collection[str]) -> str | None:
    """Return the file that the last line with text names; a fence follows it."""
    # A drawn line may stand between a name and its fence.
    for line in reversed(lines[-3:]):
        if line.strip(" -=_*"):
            return None if fence_of(line) else path_in_line(line, known)
    return None


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
    before: Sequence[str],
    known: Collection[str],
    previous: str | None,
    *,
    new: bool = False,
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
    return list(
        dict.fromkeys(name for word in words if (name := path_in_line(word, ())))
    )


def is_prose(reply: str) -> bool:
    """Return whether ``reply`` begins with words about itself instead of continuing the text."""
    return bool(_PREAMBLE.match(reply))


KINDS = ("diff", "udiff", "patch")
"""Words at fences around diffs."""
# UPDATED and ORIGINAL are the words of 2023; other tools draw the lines of - and +.
OPEN = re.compile(r"^\s{0,3}(<{3,}|-{5,}) ?(?:SEARCH|ORIGINAL)\b", re.IGNORECASE)
DIVIDER = re.compile(r"^\s{0,3}(={3,})\s*$")
CLOSE = re.compile(
    r"^\s{0,3}(>{3,}|\+{5,}|={5,}) ?(?:REPLACE|UPDATED|(?<==)END|(?<== )END)\b",
    re.IGNORECASE,
)
# Markers with other words or none, as git writes them into conflicts.
OTHER_OPEN = re.compile(r"^\s{0,3}(<{7,}) ?(?:[\w./:-]+(?: [\w./:-]+){0,3})?\s*$")
OTHER_CLOSE = re.compile(r"^\s{0,3}(>{5,}) ?(?:[\w./:()-]+(?: [\w./:()-]+){0,8})?\s*$")
GLUED_CLOSE = re.compile(
    r"^(.*[^\s>`'\"])\s*>{5,} ?(?:REPLACE|UPDATED)\s*$", re.IGNORECASE
)
GLUED_DIVIDER = re.compile(r"^(?:(.*[^\s=#])\s*={7}|={7}(?! )([^=\s].*))$")
USUAL = 7
"""The length of a marker."""
MARKUP = (".md", ".rst", ".txt", ".markdown")
"""Ends of the names of texts, which may hold fences and rules."""
_HEADING = re.compile(r"^\s*\w[\w ,.'\"&/-]*$")
STRAY = (
    "the edit of {} would write a marker of SEARCH/REPLACE blocks into the file. Write each "
    "marker once, alone on its line; around lines that are such markers use longer ones."
)


def marker_size(line: str) -> int:
    """Return the length of the marker that ``line`` is or ends in, 0 for any other line."""
    marked = (
        "===" in line
        or ">>>" in line
        or "<<<" in line
        or "-----" in line
        or "+++++" in line
    )
    return _size_of(line) if marked else 0


@lru_cache(maxsize=1024)
def _size_of(line: str) -> int:
    found = (m.match(line) for m in (OPEN, DIVIDER, CLOSE, OTHER_OPEN, OTHER_CLOSE))
    size = next((len(match[1]) for match in found if match), 0)
    return size or USUAL * bool(GLUED_CLOSE.match(line))


def strays(new: Sequence[str], old: Iterable[str] = (), size: int = USUAL) -> set[int]:
    """Return the lines of ``new``, not in ``old``, that are markers of ``size`` or longer.

    A line of ``=`` is one if it has this size, unless it is as long as a heading next to it, or
    under a shorter one where ``old`` has a line of ``=`` as well.
    """
    found = [number for number, line in enumerate(new) if marker_size(line) >= size]
    held = {line.strip() for line in old} if found else set()
    ruled = any(map(DIVIDER.match, held))
    return {
        n
        for n in found
        if new[n].strip() not in held and not _is_rule(new, n, size, ruled)
    }


def writes_markers(new: Sequence[str], old: Iterable[str]) -> bool:
    """Return whether ``new`` has a marker with words, or one of git, that ``old`` has not."""
    return bool(strays([line for line in new if not DIVIDER.match(line)], old))


def _is_rule(lines: Sequence[str], number: int, size: int, ruled: bool) -> bool:
    rule = lines[number].rstrip()
    if not DIVIDER.match(rule):
        return False
    title = lines[number - 1].rstrip() if number else ""
    if ruled and len(title) < len(rule) and _HEADING.match(title):
        return True
    near = [*lines[max(0, number - 1) : number], *lines[number + 1 : number + 2]]
    heads = any(
        len(line.rstrip()) == len(rule) and _HEADING.match(line) for line in near
    )
    return heads or len(rule.strip()) != size
