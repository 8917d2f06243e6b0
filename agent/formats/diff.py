"""The ``diff`` and ``diff-fenced`` formats: SEARCH/REPLACE blocks under, or over, a file name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent.formats.base import Edit, ReplyScope
from agent.formats.matching.place_edits import hunks
from agent.formats.reading.blocks import read_blocks
from agent.formats.reading.fences import (
    CLOSE,
    DIVIDER,
    OPEN,
    USUAL,
    is_prose,
    marker_size,
    shortest_fence,
)
from agent.formats.text import TextFormat
from llm.chat import Reply

_MARKER = re.compile("|".join(m.pattern for m in (OPEN, DIVIDER, CLOSE)), re.IGNORECASE)


class DiffFormat(TextFormat):
    """Parse and apply SEARCH/REPLACE blocks, the file's name above or inside their fence."""

    name = "diff"
    joins = True
    words = ("SEARCH", "REPLACE")
    """The words at the opening and the closing marker."""

    def read(self, lines: list[str], scope: ReplyScope) -> Iterator[Edit | list[str]]:
        return read_blocks(lines, scope, self.words[1])

    def render(self, path: str, before: str | None, after: str | None) -> Reply:
        if after is None:
            raise ValueError("SEARCH/REPLACE blocks cannot delete a file")
        blocks = []
        for search, replace in hunks(before or "", after):
            used = set(map(marker_size, [*search.split("\n"), *replace.split("\n")]))
            size = next(n for n in range(USUAL, USUAL + len(used) + 1) if n not in used)
            opening, closing = (
                f"{'<' * size} {self.words[0]}",
                f"{'>' * size} {self.words[1]}",
            )
            fence = shortest_fence([search, replace])
            head = f"{fence}\n{path}" if self.path_inside else f"{path}\n{fence}"
            lines = f"{opening}\n{search}{'=' * size}\n{replace}{closing}"
            blocks.append(f"{head}\n{lines}\n{fence}\n")
        return Reply("\n".join(blocks))

    def join(self, partial: str, reply: str) -> str:
        before, after = _markers(partial), _markers(reply)
        open_block = bool(before) and not CLOSE.match(before[-1])
        goes_on = bool(after) and not OPEN.match(after[0])
        return (
            partial + reply if open_block and goes_on and not is_prose(reply) else reply
        )


class DiffFencedFormat(DiffFormat):
    """The ``diff`` format with the file's name as the first line inside the fence."""

    name = "diff-fenced"
    path_inside = True


class DiffFormat2023(DiffFencedFormat):
    """The ``diff`` format of 2023: the path inside the fence, ORIGINAL and UPDATED as markers."""

    name = "diff"
    words = ("ORIGINAL", "UPDATED")

    def instructions(self, fence: str) -> str:
        text = DiffFencedFormat().instructions(fence)
        for word, old in zip(DiffFormat.words, self.words, strict=True):
            text = text.replace(word, old)
        return text


def _markers(text: str) -> list[str]:
    return [line for line in text.split("\n") if _MARKER.match(line)]
