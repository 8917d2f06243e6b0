"""Pure: find the edited program in a reply."""

from __future__ import annotations

import re
from collections.abc import Iterable

# A line of backticks and code, ```x = 1```, opens no block.
_OPENING = re.compile(r"^(`{3,})[^`\n]*$", re.MULTILINE)


def fenced_program(reply: str) -> str:
    """Return the lines of the first fenced block, each with its end.

    A fence stands in column 0. The block ends before the first line that begins with as many
    backticks as its opening, or with the reply: what a truncated reply holds of it is kept. An
    indented fence is a line like any other. Without a block the program is empty.
    """
    text = plain_lines(reply)
    opening = _OPENING.search(text)
    if opening is None:
        return ""
    inside = text[opening.end() + 1 :]
    closing = re.search(rf"^{opening[1]}", inside, re.MULTILINE)
    if closing:
        return inside[: closing.start()]
    return inside if inside.endswith("\n") or not inside else f"{inside}\n"


def has_fence(reply: str) -> bool:
    """Tell whether ``fenced_program`` finds a block, an empty one included."""
    return _OPENING.search(plain_lines(reply)) is not None


def program_up_to(reply: str, stops: Iterable[str]) -> str:
    """Return the text before the first of ``stops``; a server may have cut it there already."""
    text = plain_lines(reply)
    found = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(found, default=len(text))]


def plain_lines(text: str) -> str:
    r"""Return ``text`` with ``\n`` for ``\r\n``.

    Python reads both as one end of a line, also in strings; line counts and distances would differ.
    """
    return text.replace("\r\n", "\n")
