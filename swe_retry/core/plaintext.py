"""Plain lines and tables for users, also from the text of models and repositories."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches

Say = Callable[[str], None]
"""Shows a line to the user; ``functools.cache(say)`` shows each line once."""

# ECMA-48: CSI … final byte; OSC, DCS, SOS, PM and APC strings up to BEL or ST; two-byte escapes.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# Control, format (also those that turn the direction of writing), surrogates, line separators.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
# A table is as wide as its cells: terminals and files wrap lines themselves.
_UNBOUNDED = 10**6
_GAP = 2  # spaces between columns


def say_aside(line: str) -> None:
    """Print a line about the progress, which does not belong to the result."""
    print(line, file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """Return ``text`` in one line, without escape sequences; see ``escape_invisible``."""
    words = _ESCAPE.sub("", text).split()
    return escape_invisible(" ".join(words))


def visible(text: str) -> str:
    """Return ``text`` without escape sequences; see ``escape_invisible``."""
    return escape_invisible(_ESCAPE.sub("", text))


def escape_invisible(text: str) -> str:
    """Return ``text`` with its lines and tabs, and what cannot be seen as escapes."""
    return "\n".join(map(_escape_line, text.split("\n")))


def _escape_line(line: str) -> str:
    if line.replace("\t", "").isprintable():
        return line
    text = line.removesuffix("\r")
    return "".join(map(_escape_character, text)) + line[len(text) :]


def _escape_character(character: str) -> str:
    if character != "\t" and unicodedata.category(character) in _INVISIBLE:
        return character.encode("unicode_escape").decode()
    return character


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ``; did you mean NAME?`` for the nearest of ``names``; empty where none is near."""
    hints = get_close_matches(name, list(names), 1)
    return "".join(f"; did you mean {hint}?" for hint in hints)


def quantity(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 instance``, ``2 instances``."""
    if number != 1:
        noun = plural or f"{noun}s"
    return f"{number:,} {noun}"


def abbreviate(text: str, limit: int) -> str:
    """Return ``text`` as one line of at most ``limit`` characters, with … where it was cut."""
    line = one_line(text[: 10 * limit + 1000])
    if len(line) <= limit:
        return line
    end = max(limit - 1, 0)
    return line[:end].rstrip() + "…"


def some(names: Sequence[str], limit: int) -> str:
    """Return the first ``limit`` names with the number of the others: ``a, b and 3 more``."""
    text = ", ".join(names[:limit])
    others = len(names) - limit
    if others > 0:
        text += f" and {others} more"
    return text


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Collection[int] = (),
    markdown: bool = False,
    width: int | None = None,
) -> Iterator[str]:
    """Yield the lines of a table; the columns at the positions ``numbers`` are aligned right.

    Columns beyond ``width`` characters follow below, behind the first column again.
    """
    lines = []
    for row in (headings, *rows):
        lines.append([one_line(str(cell)) for cell in row])
    if markdown:
        return _markdown_lines(lines, numbers)
    return _aligned_lines(lines, numbers, width or _UNBOUNDED)


def _markdown_lines(
    rows: Sequence[Sequence[str]], numbers: Collection[int]
) -> Iterator[str]:
    marks = []
    for position, _ in enumerate(rows[0]):
        marks.append("--:" if position in numbers else ":--")
    for row in (rows[0], marks, *rows[1:]):
        cells = []
        for cell in row:
            cell = cell.replace("\\", "\\\\")
            cell = cell.replace("|", "\\|")
            cells.append(cell.replace("<", "&lt;"))
        yield f"| {' | '.join(cells)} |"


def _aligned_lines(
    rows: Sequence[Sequence[str]],
    numbers: Collection[int],
    width: int,
) -> Iterator[str]:
    # Imported here: most commands print no table.
    from rich.cells import cell_len

    # Each block has the first column, and those that fit beside it.
    blocks = [[0]]
    widths = []
    for column in zip(*rows, strict=True):
        widths.append(max(map(cell_len, column)))
    for position in range(1, len(widths)):
        columns = [*blocks[-1], position]
        block_width = sum(widths[column] + _GAP for column in columns) - _GAP
        if len(columns) > 2 and block_width > width:
            blocks.append([0])
        blocks[-1].append(position)
    for block in blocks:
        if block is not blocks[0]:
            yield ""
        for row in rows:
            line = ""
            for position in block:
                padding = " " * (widths[position] - cell_len(row[position]))
                if position in numbers:
                    line += padding + row[position]
                else:
                    line += row[position] + padding
                line += " " * _GAP
            yield line.rstrip()
