"""Split texts into lines and join them; find lines, and the block around a line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

# Code points that stand for lines; the first is for all lines that are not searched for.
_MOST_KINDS = 0x10FFFF
# Overlapping places are compared one by one, each over the whole length of the search.
_MOST_OVERLAPPING = 2_000_000


def to_lines(text: str) -> list[str]:
    """Return the lines without their ends; only ``\\n`` ends a line, so form feeds stay."""
    if not text:
        return []
    return text.removesuffix("\n").split("\n")


def to_text(lines: Sequence[str], before: str | None) -> str:
    """Return ``lines`` as a text that ends, or does not end, in a newline as ``before`` did."""
    if not lines:
        return ""
    joined = "\n".join(lines)
    return joined if before and not before.endswith("\n") else joined + "\n"


def final_newline(text: str, before: str | None) -> str:
    """Return ``text`` with the final newline that ``before`` had, or without one."""
    return to_text(to_lines(text), before)


def indent_of(line: str) -> str:
    """Return the white space that ``line`` begins with."""
    return line[: len(line) - len(line.lstrip())]


def with_ends(lines: Sequence[str]) -> str:
    """Return ``lines`` as a text in which each of them ends in a newline."""
    return "\n".join([*lines, ""])


def starts_of(have: Sequence[str], search: Sequence[str]) -> Iterator[int]:
    """Yield the places of the lines of ``search`` in ``have``, in linear time.

    Each line becomes a character, and Python searches in the strings. Of long overlapping places
    only the first are found, at least two.
    """
    kinds = {line: number for number, line in enumerate(dict.fromkeys(search), 1)}
    if not search or len(search) > len(have) or len(kinds) > _MOST_KINDS:
        return
    # Most searches fail at their first line, which is found out many times faster.
    if search[0] not in have:
        return
    wanted = "".join(chr(kinds[line]) for line in search)
    text = "".join([chr(kinds.get(line, 0)) for line in have])
    at = text.find(wanted)
    for _ in range(max(2, _MOST_OVERLAPPING // len(search))):
        if at < 0:
            return
        yield at
        at = text.find(wanted, at + 1)


_CONTAINER = re.compile(
    r"\s*(?:[\w@]+\s+)*(?:class|interface|namespace|module|impl|trait|struct|object|if|try)\b"
)


def scope_of(lines: Sequence[str], at: int) -> tuple[int, int]:
    """Return the lines (first, end) of the function or method around line ``at`` (from 0).

    That is the outermost block that is not a class or similar: a line and the lines with more
    indentation that follow it, in any language with the usual layout. It is the whole file when
    line ``at`` has no indentation.
    """
    heads: list[int] = []  # the outermost first
    width = width_at(lines, at)
    if at < len(lines) and lines[at].strip() and width_at(lines, at + 1) > width:
        heads.append(at)
    for number in range(min(at, len(lines)) - 1, -1, -1):
        if width == 0:
            break
        if lines[number].strip() and len(indent_of(lines[number])) < width:
            heads.insert(0, number)
            width = len(indent_of(lines[number]))
    if not heads:
        return 0, len(lines)
    first = next(
        (head for head in heads if not _CONTAINER.match(lines[head])), heads[-1]
    )
    return first, end_of_block(lines, first)


def width_at(lines: Sequence[str], at: int) -> int:
    """Return the indentation at ``at``; a blank line has that of the next full one."""
    rest = islice(lines, at, None)
    return next((len(indent_of(line)) for line in rest if line.strip()), 0)


def end_of_block(lines: Sequence[str], first: int) -> int:
    """Return the line behind the block that the line ``first`` opens."""
    width = len(indent_of(lines[first]))
    for number in range(first + 1, len(lines)):
        line = lines[number]
        if (
            line.strip()
            and len(indent_of(line)) <= width
            and line.strip()[0] not in ")]}"
        ):
            return number
    return len(lines)
