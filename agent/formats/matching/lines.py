"""Split texts into lines and join them; find lines, and the block around a line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Lines = Sequence[str]
FixedLines = tuple[str, ...]
Numbers = Sequence[int]
"""Numbers of lines, counted from 0."""
# Code points that stand for lines; the first is for all lines that are not searched for.
_MAX_KINDS = 0x10FFFF
# Overlapping places are compared one by one, each over the whole length of the search.
_MAX_OVERLAPPING = 2_000_000
# In looks at a line, of which one takes half a microsecond.
_MAX_WORK = 900_000
# A pass that Python makes in C is that many times faster.
_PASS_SPEED = 32


class TooMuchWorkError(Exception):
    """The places of the edits of a reply cannot be found within its bound."""


@dataclass
class PlacingWork:
    """Counts how often the search for places looks at a line, for all edits of one reply."""

    left: int = _MAX_WORK

    def spend(self, looks: int) -> None:
        """Count looks at lines; raises ``TooMuchWorkError`` when there were too many."""
        self.left -= looks
        if self.left < 0:
            raise TooMuchWorkError

    def spend_pass(self, lines: Lines) -> None:
        """Count one fast pass over ``lines``."""
        self.spend(1 + len(lines) // _PASS_SPEED)


def to_lines(text: str) -> list[str]:
    """Return the lines without their ends; only ``\\n`` ends a line, so form feeds stay."""
    if not text:
        return []
    return text.removesuffix("\n").split("\n")


def to_text(lines: Lines, before: str | None) -> str:
    """Return ``lines`` as a text that ends, or does not end, in a newline as ``before`` did."""
    if not lines:
        return ""
    if before and not before.endswith("\n"):
        return "\n".join(lines)
    return with_ends(lines)


def final_newline(text: str, before: str | None) -> str:
    """Return ``text`` with the final newline that ``before`` had, or without one."""
    return to_text(to_lines(text), before)


def indent_of(line: str) -> str:
    """Return the white space that ``line`` begins with."""
    return line[: len(line) - len(line.lstrip())]


def with_ends(lines: Lines) -> str:
    """Return ``lines`` as a text in which each of them ends in a newline."""
    return "\n".join([*lines, ""])


def numbers_where(lines: Lines, test: Callable[[str], object]) -> list[int]:
    """Return the numbers, from 0, of the lines that pass ``test``."""
    return [number for number, line in enumerate(lines) if test(line)]


def lines_at(lines: Lines, numbers: Numbers) -> list[str]:
    """Return the lines of the given numbers, counted from 0."""
    return [lines[number] for number in numbers]


def full_lines(lines: Lines) -> list[str]:
    """Return the lines that are not blank."""
    return [line for line in lines if line.strip()]


def strip_lines(lines: Lines) -> list[str]:
    """Return the lines without the white space around them."""
    return [line.strip() for line in lines]


def bare_lines(text: str) -> list[str]:
    """Return the lines that are not blank, without the white space around them."""
    return strip_lines(full_lines(to_lines(text)))


def has_text(lines: Lines) -> bool:
    """Return whether a line is not blank."""
    return any(line.strip() for line in lines)


def starts_of(lines: Lines, search: Lines) -> Iterator[int]:
    """Yield the places of the lines of ``search`` in ``lines``, in linear time.

    Each line becomes a character, and Python searches in the strings. Of long overlapping places
    only the first are found, at least two.
    """
    if not search or len(search) > len(lines):
        return
    # Most searches fail at their first line, which is found out many times faster.
    if search[0] not in lines:
        return
    characters: dict[str, str] = {}
    for line in search:
        if line not in characters:
            if len(characters) == _MAX_KINDS:
                return
            characters[line] = chr(len(characters) + 1)
    pattern = "".join([characters[line] for line in search])
    text = "".join([characters.get(line, "\0") for line in lines])
    start = text.find(pattern)
    max_starts = max(2, _MAX_OVERLAPPING // len(search))
    for _ in range(max_starts):
        if start < 0:
            return
        yield start
        start = text.find(pattern, start + 1)


# The first line of a block that may hold functions, in the usual languages.
_CONTAINER = re.compile(
    r"\s*(?:[\w@]+\s+)*(?:class|interface|namespace|module|impl|trait|struct|object|if|try)\b"
)


def scope_of(lines: Lines, at: int) -> tuple[int, int]:
    """Return the lines (first, end) of the function or method around line ``at`` (from 0).

    That is the outermost block that is not a class or similar: a line and the lines with more
    indentation that follow it, in any language with the usual layout. It is the whole file when
    line ``at`` has no indentation.
    """
    headers = []  # the outermost first
    width = width_at(lines, at)
    is_full = at < len(lines) and bool(lines[at].strip())
    if is_full and width_at(lines, at + 1) > width:
        headers.append(at)
    for number in reversed(range(min(at, len(lines)))):
        if width == 0:
            break
        line_width = len(indent_of(lines[number]))
        if lines[number].strip() and line_width < width:
            headers.insert(0, number)
            width = line_width
    if not headers:
        return 0, len(lines)
    first = headers[-1]
    for header in headers:
        if not _CONTAINER.match(lines[header]):
            first = header
            break
    return first, end_of_block(lines, first)


def width_at(lines: Lines, at: int) -> int:
    """Return the indentation at ``at``; a blank line has that of the next full one."""
    for number in range(at, len(lines)):
        if lines[number].strip():
            return len(indent_of(lines[number]))
    return 0


def end_of_block(lines: Lines, first: int) -> int:
    """Return the line behind the block that the line ``first`` opens."""
    width = len(indent_of(lines[first]))
    for number in range(first + 1, len(lines)):
        bare = lines[number].strip()
        is_inside = len(indent_of(lines[number])) > width
        if bare and not is_inside and bare[0] not in ")]}":
            return number
    return len(lines)
