"""Plain lines and tables for users, also from the text of models and repositories."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from io import StringIO

Say = Callable[[str], None]
"""Shows a line to the user; ``functools.cache(say)`` shows each line once."""

# ECMA-48: CSI … final byte; OSC, DCS, SOS, PM and APC strings up to BEL or ST; two-byte escapes.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# Control, format (also those that turn the direction of writing), surrogates, line separators.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
# A table is as wide as its cells: terminals and files wrap lines themselves.
_UNBOUNDED = 10**6


def one_line(text: str) -> str:
    """Return ``text`` in one line, without escape sequences and control characters."""
    return " ".join("".join(map(_seen, _ESCAPE.sub("", text))).split())


def visible(text: str) -> str:
    """Return ``text`` with its lines and tabs, without escape sequences and control characters."""
    kept = (c if c in "\n\t" else _seen(c) for c in _ESCAPE.sub("", text))
    return "".join(kept)


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 instance``, ``2 instances``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def shortened(text: str, most: int) -> str:
    """Return ``text`` as one line of at most ``most`` characters, with … where it was cut."""
    line = one_line(text[: 10 * most + 1000])
    return line if len(line) <= most else line[: max(most - 1, 0)].rstrip() + "…"


def some(names: Sequence[str], most: int) -> str:
    """Return the first ``most`` names with the number of the others: ``a, b and 3 more``."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


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
    cells = [[one_line(str(cell)) for cell in row] for row in (headings, *rows)]
    return (
        _markdown(cells, numbers)
        if markdown
        else _aligned(cells, numbers, width or _UNBOUNDED)
    )


def _markdown(rows: Sequence[Sequence[str]], numbers: Collection[int]) -> Iterator[str]:
    marks = ["--:" if place in numbers else ":--" for place in range(len(rows[0]))]
    for row in (rows[0], marks, *rows[1:]):
        cells = (
            c.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
            for c in row
        )
        yield f"| {' | '.join(cells)} |"


def _aligned(
    rows: Sequence[Sequence[str]], numbers: Collection[int], most: int
) -> Iterator[str]:
    # Imported here: most commands print no table.
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    widths = [2 + max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    blocks = [[0]]
    for place in range(1, len(widths)):
        if (
            len(blocks[-1]) > 1
            and sum(widths[n] for n in (*blocks[-1], place)) - 2 > most
        ):
            blocks.append([0])
        blocks[-1].append(place)
    console = Console(file=StringIO(), width=_UNBOUNDED, color_system=None)
    for number, block in enumerate(blocks):
        grid = Table.grid(padding=(0, 2))
        for place in block:
            grid.add_column(
                justify="right" if place in numbers else "left", no_wrap=True
            )
        for row in rows:
            grid.add_row(*(Text(row[place]) for place in block))
        with console.capture() as capture:
            console.print(grid)
        yield from [""] * (number > 0)
        yield from (line.rstrip() for line in capture.get().splitlines())


def _seen(character: str) -> str:
    if character.isspace():
        return " "
    return "" if unicodedata.category(character) in _UNSEEN else character
