"""The ``udiff`` format: unified diffs, whose line numbers and counts may be wrong."""

from __future__ import annotations

from collections.abc import Iterator

from agent.formats.base import Edit, ReplyScope
from agent.formats.matching.lines import to_lines
from agent.formats.matching.place_edits import hunks, marked
from agent.formats.reading.fences import shortest_fence
from agent.formats.reading.unified import read_diffs
from agent.formats.text import TextFormat
from llm.chat import Reply


class UnifiedDiffFormat(TextFormat):
    """Parse and apply unified diffs; places are found by lines, not by line numbers."""

    name = "udiff"

    def read(self, lines: list[str], scope: ReplyScope) -> Iterator[Edit | list[str]]:
        return read_diffs(lines, scope)

    def render(self, path: str, before: str | None, after: str | None) -> Reply:
        found = hunks(before or "", after or "")
        body = "\n".join(line for s, r in found for line in (_head(before, s, r), *marked(s, r)))
        old = "/dev/null" if before is None else f"a/{path}"
        new = "/dev/null" if after is None else f"b/{path}"
        text = f"--- {old}\n+++ {new}\n{body}"
        fence = shortest_fence([text])
        return Reply(f"{fence}diff\n{text}\n{fence}\n")


def _head(before: str | None, search: str, replace: str) -> str:
    old, new = to_lines(search), to_lines(replace)
    have = to_lines(before or "")
    starts = (n for n in range(len(have)) if have[n : n + len(old)] == old)
    first = next(starts, -1) + 1 if old else 0
    return f"@@ -{first},{len(old)} +{first},{len(new)} @@"
