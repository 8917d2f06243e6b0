"""The ``diff`` and ``diff-fenced`` formats: SEARCH/REPLACE blocks under, or over, a file name."""

from __future__ import annotations

from collections.abc import Sequence

from agent.formats.apply import EngineFormat
from agent.formats.base import (
    Edit,
    ReplyScope,
)
from agent.formats.matching.hunks import hunks
from agent.formats.reading.blocks import CLOSE, DIVIDER, OPEN, read_blocks
from agent.formats.reading.fences import is_prose, shortest_fence
from llm.chat import Reply

_USUAL = 7


class DiffFormat(EngineFormat):
    """Parse and apply SEARCH/REPLACE blocks, the file's name above or inside their fence."""

    name = "diff"
    joins = True
    words = ("SEARCH", "REPLACE")
    """The words at the opening and the closing marker."""

    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[Edit]:
        """Return the blocks of ``reply``; see ``EditFormat.parse``."""
        text = reply.content.removeprefix("\ufeff").replace("\r\n", "\n")
        return tuple(read_blocks(text.split("\n"), scope, self.words[1]))

    def render(self, path: str, before: str | None, after: str | None) -> Reply:
        """Return a block for each change; see ``EditFormat.render``."""
        if after is None:
            raise ValueError("SEARCH/REPLACE blocks cannot delete a file")
        return Reply("\n".join(self._render(path, s, r) for s, r in hunks(before or "", after)))

    def _render(self, path: str, search: str, replace: str) -> str:
        fence = shortest_fence([search, replace])
        block = _block(search, replace, self.words)
        lines = [fence, path, block] if self.path_inside else [path, fence, block]
        return "\n".join([*lines, fence, ""])

    def join(self, partial: str, reply: str) -> str:
        """Return the reply to parse after one that was cut off; see ``EditFormat.join``."""
        before, after = _markers(partial), _markers(reply)
        open_block = bool(before) and not CLOSE.match(before[-1])
        goes_on = bool(after) and not OPEN.match(after[0])
        return partial + reply if open_block and goes_on and not is_prose(reply) else reply


class DiffFencedFormat(DiffFormat):
    """The ``diff`` format with the file's name as the first line inside the fence."""

    name = "diff-fenced"
    path_inside = True


class DiffFormat2023(DiffFencedFormat):
    """The ``diff`` format of 2023: the path inside the fence, ORIGINAL and UPDATED as markers."""

    name = "diff"
    words = ("ORIGINAL", "UPDATED")

    def instructions(self, fence: str) -> str:
        """Return the instructions of ``diff-fenced`` with the markers of 2023."""
        text = DiffFencedFormat().instructions(fence)
        for word, old in zip(DiffFormat.words, self.words, strict=True):
            text = text.replace(word, old)
        return text


def _block(search: str, replace: str, words: tuple[str, str]) -> str:
    lines = [*search.split("\n"), *replace.split("\n")]
    used = {
        len(match[1])
        for line in lines
        for mark in (OPEN, DIVIDER, CLOSE)
        if (match := mark.match(line))
    }
    size = next(n for n in range(_USUAL, _USUAL + len(used) + 1) if n not in used)
    opening, closing = f"{'<' * size} {words[0]}", f"{'>' * size} {words[1]}"
    return f"{opening}\n{search}{'=' * size}\n{replace}{closing}"


def _markers(text: str) -> list[str]:
    markers = (OPEN, DIVIDER, CLOSE)
    return [line for line in text.split("\n") if any(m.match(line) for m in markers)]
