"""The ``patch`` format, known as V4A."""

from __future__ import annotations

from collections.abc import Iterator

from agent.formats.base import Part, ReplyScope
from agent.formats.matching.lines import to_lines
from agent.formats.matching.place_edits import hunks, marked_lines
from agent.formats.reading.unified import BEGIN, END, read_patches
from agent.formats.text import TextFormat
from llm.chat import Reply


class PatchFormat(TextFormat):
    """Parse and apply V4A patches, with prose or a fence around them, or none."""

    name = "patch"

    def read(self, lines: list[str], scope: ReplyScope) -> Iterator[Part]:
        return read_patches(lines, scope)

    def render(
        self,
        path: str,
        before: str | None,
        after: str | None,
    ) -> Reply:
        if after is None:
            rows = [f"*** Delete File: {path}"]
        elif before is None:
            rows = [f"*** Add File: {path}"]
        else:
            rows = [f"*** Update File: {path}"]
        if after is not None and not to_lines(before or ""):
            rows += [f"+{line}" for line in to_lines(after)]
        elif after is not None:
            for search, replace in hunks(before or "", after):
                rows += ["@@", *marked_lines(search, replace)]
        text = "\n".join([BEGIN, *rows, END, ""])
        return Reply(text)
