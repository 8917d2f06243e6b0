"""The ``udiff`` format: unified diffs, whose line numbers and counts may be wrong."""

from __future__ import annotations

from collections.abc import Iterator

from agent.formats.base import Part, ReplyScope
from agent.formats.matching.lines import Lines, to_lines
from agent.formats.matching.place_edits import hunks, marked_lines
from agent.formats.reading.fences import shortest_fence
from agent.formats.reading.unified import read_diffs
from agent.formats.text import TextFormat
from llm.chat import Reply


class UnifiedDiffFormat(TextFormat):
    """Parse and apply unified diffs; places are found by lines, not by line numbers."""

    name = "udiff"

    def read(self, lines: list[str], scope: ReplyScope) -> Iterator[Part]:
        return read_diffs(lines, scope)

    def render(
        self,
        path: str,
        before: str | None,
        after: str | None,
    ) -> Reply:
        old = "/dev/null" if before is None else f"a/{path}"
        new = "/dev/null" if after is None else f"b/{path}"
        rows = [f"--- {old}", f"+++ {new}"]
        lines = to_lines(before or "")
        changes = hunks(before or "", after or "")
        for search, replace in changes:
            removed = to_lines(search)
            added = to_lines(replace)
            first = _line_number(lines, removed)
            rows.append(f"@@ -{first},{len(removed)} +{first},{len(added)} @@")
            rows += marked_lines(search, replace)
        if not changes:
            rows.append("")
        text = "\n".join(rows)
        fence = shortest_fence([text])
        return Reply(f"{fence}diff\n{text}\n{fence}\n")


def _line_number(lines: Lines, removed: Lines) -> int:
    """Return the first line of ``removed`` in ``lines``, counted from 1; 0 for none."""
    if removed:
        for start in range(len(lines)):
            if lines[start : start + len(removed)] == removed:
                return start + 1
    return 0
