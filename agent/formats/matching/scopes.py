"""Find the function or class around a line by indentation, in any language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from agent.formats.matching.lines import indent_of

_CONTAINER = re.compile(
    r"\s*(?:[\w@]+\s+)*(?:class|interface|namespace|module|impl|trait|struct|object|if|try)\b"
)


def scope_of(lines: Sequence[str], at: int) -> tuple[int, int]:
    """Return the lines (first, end) of the function or method around line ``at`` (from 0).

    That is the outermost block that is no class or similar: a line and the lines with more
    indentation that follow it, in any language with the usual layout. It is the whole file when
    line ``at`` has no indentation.
    """
    heads = _heads(lines, at)[::-1]
    if not heads:
        return 0, len(lines)
    first = next((head for head in heads if not _CONTAINER.match(lines[head])), heads[-1])
    return first, end_of_block(lines, first)


def _heads(lines: Sequence[str], at: int) -> list[int]:
    heads: list[int] = []
    width = _width(lines, at)
    if at < len(lines) and lines[at].strip() and _width(lines, at + 1) > width:
        heads.append(at)
    for number in range(min(at, len(lines)) - 1, -1, -1):
        if width == 0:
            break
        if lines[number].strip() and len(indent_of(lines[number])) < width:
            heads.append(number)
            width = len(indent_of(lines[number]))
    return heads


def _width(lines: Sequence[str], at: int) -> int:
    """Return the indentation at ``at``; a blank line has that of the next full one."""
    rest = islice(lines, at, None)
    return next((len(indent_of(line)) for line in rest if line.strip()), 0)


def end_of_block(lines: Sequence[str], first: int) -> int:
    """Return the line behind the block that the line ``first`` opens."""
    width = len(indent_of(lines[first]))
    for number in range(first + 1, len(lines)):
        line = lines[number]
        if line.strip() and len(indent_of(line)) <= width and line.strip()[0] not in ")]}":
            return number
    return len(lines)
