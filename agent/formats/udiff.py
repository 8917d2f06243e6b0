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
        have, body = to_lines(before or ""), list[str]()
        for search, replace in hunks(before or "", after or ""):
            gone, added = to_lines(search), to_lines(replace)
            starts = (n for n in range(len(have)) if have[n : n + len(gone)] == gone)
            first = next(starts, -1) + 1 if gone else 0
            body.append(f"@@ -{first},{len(gone)} +{first},{len(added)} @@")
            body += marked(search, replace)
        old = "/dev/null" if before is None else f"a/{path}"
        new = "/dev/null" if after is None else f"b/{path}"
        text = f"--- {old}\n+++ {new}\n" + "\n".join(body)
        fence = shortest_fence([text])
        return Reply(f"{fence}diff\n{text}\n{fence}\n")
