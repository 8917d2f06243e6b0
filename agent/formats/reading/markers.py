"""The marker lines of SEARCH/REPLACE blocks, which no edit may write into a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

# UPDATED and ORIGINAL are the words of 2023; other tools draw the lines of - and +.
OPEN = re.compile(r"^\s{0,3}(<{3,}|-{5,}) ?(?:SEARCH|ORIGINAL)\b", re.IGNORECASE)
DIVIDER = re.compile(r"^\s{0,3}(={3,})\s*$")
CLOSE = re.compile(r"^\s{0,3}(>{3,}|\+{5,}) ?(?:REPLACE|UPDATED)\b", re.IGNORECASE)
# Markers with other words or none, as git writes them into conflicts.
OTHER_OPEN = re.compile(r"^\s{0,3}(<{7,}) ?(?:[\w./:-]+(?: [\w./:-]+){0,3})?\s*$")
OTHER_CLOSE = re.compile(r"^\s{0,3}(>{5,}) ?(?:[\w./:()-]+(?: [\w./:()-]+){0,8})?\s*$")
GLUED_CLOSE = re.compile(r"^(.*[^\s>`'\"])\s*>{5,} ?(?:REPLACE|UPDATED)\s*$", re.IGNORECASE)
GLUED_DIVIDER = re.compile(r"^(?:(.*[^\s=#])\s*={7}|={7}(?! )([^=\s].*))$")
_MARK = re.compile(r"<<<|>>>|===|-----|\+\+\+\+\+")
_USUAL = 7
_TITLE = re.compile(r"^\s*\w[\w ,.'\"&/-]*$")
STRAY = (
    "the edit of {} would write a marker of SEARCH/REPLACE blocks into the file. Write each "
    "marker once, alone on its line; around lines that are such markers use longer ones."
)


def marker_size(line: str) -> int:
    """Return the length of the marker that ``line`` is or ends in, 0 for any other line."""
    return _size_of(line) if len(line) > 2 and _MARK.search(line) else 0


@lru_cache(maxsize=1024)
def _size_of(line: str) -> int:
    found = (m.match(line) for m in (OPEN, DIVIDER, CLOSE, OTHER_OPEN, OTHER_CLOSE))
    size = next((len(match[1]) for match in found if match), 0)
    return size or _USUAL * bool(GLUED_CLOSE.match(line))


def strays(new: Sequence[str], old: Iterable[str] = (), size: int = _USUAL) -> set[int]:
    """Return the lines of ``new``, not in ``old``, that are markers of ``size`` or longer.

    A line of ``=`` is one if it has this size, unless it is as long as a heading next to it.
    """
    found = [number for number, line in enumerate(new) if marker_size(line) >= size]
    held = {line.strip() for line in old} if found else ()
    return {n for n in found if new[n].strip() not in held and not _is_rule(new, n, size)}


def writes_markers(new: Sequence[str], old: Iterable[str]) -> bool:
    """Return whether ``new`` has a marker with words, or one of git, that ``old`` has not."""
    return bool(strays([line for line in new if not DIVIDER.match(line)], old))


def _is_rule(lines: Sequence[str], number: int, size: int) -> bool:
    rule = lines[number].rstrip()
    if not DIVIDER.match(rule):
        return False
    near = [*lines[max(0, number - 1) : number], *lines[number + 1 : number + 2]]
    heads = any(len(line.rstrip()) == len(rule) and _TITLE.match(line) for line in near)
    return heads or len(rule.strip()) != size
