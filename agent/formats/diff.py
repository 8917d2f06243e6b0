"""The ``diff`` and ``diff-fenced`` formats: SEARCH/REPLACE blocks under, or over, a file name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from swe_retry.agent.formats.edits import Part
from swe_retry.agent.formats.protocol import ReplyScope
from swe_retry.agent.formats.reading.blocks import read_blocks
from swe_retry.agent.formats.reading.fences import CLOSE, DIVIDER, OPEN, is_prose
from swe_retry.agent.formats.text import TextFormat

_MARKER = re.compile(f"{OPEN.pattern}|{DIVIDER.pattern}|{CLOSE.pattern}", re.IGNORECASE)


class DiffFormat(TextFormat):
    """Parse and apply SEARCH/REPLACE blocks, the file's name above or inside their fence."""

    name = "diff"
    joins = True
    marker_words = ("SEARCH", "REPLACE")
    """The words at the opening and the closing marker."""

    def read(self, lines: list[str], scope: ReplyScope) -> Iterator[Part]:
        return read_blocks(lines, scope, self.marker_words[1])

    def join(self, partial: str, reply: str) -> str:
        before = _markers(partial)
        after = _markers(reply)
        if not before or not after or is_prose(reply):
            return reply
        is_open = not CLOSE.match(before[-1])
        goes_on = not OPEN.match(after[0])
        return partial + reply if is_open and goes_on else reply


class DiffFencedFormat(DiffFormat):
    """The ``diff`` format with the file's name as the first line inside the fence."""

    name = "diff-fenced"
    path_inside = True


class DiffFormat2023(DiffFencedFormat):
    """The ``diff`` format of 2023: the path inside the fence, ORIGINAL and UPDATED as markers."""

    name = "diff"
    marker_words = ("ORIGINAL", "UPDATED")


def _markers(text: str) -> list[str]:
    lines = text.split("\n")
    return [line for line in lines if _MARKER.match(line)]
