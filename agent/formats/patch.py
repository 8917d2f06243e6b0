"""The ``patch`` format, known as V4A."""

from __future__ import annotations

from collections.abc import Iterator

from agent.formats.base import Edit, ReplyScope
from agent.formats.matching.lines import to_lines
from agent.formats.matching.place_edits import hunks, marked
from agent.formats.reading.unified import BEGIN, END, read_patches
from agent.formats.text import TextFormat
from llm.chat import Reply


class PatchFormat(TextFormat):
    """Parse and apply V4A patches, with prose or a fence around them, or none."""

    name = "patch"

    def read(self, lines: list[str], scope: ReplyScope) -> Iterator[Edit | list[str]]:
        return read_patches(lines, scope)

    def render(self, path: str, before: str | None, after: str | None) -> Reply:
        verb = "Delete" if after is None else "Add" if before is None else "Update"
        lines = [f"*** {verb} File: {path}"]
        if after is not None and not to_lines(before or ""):
            lines += [f"+{line}" for line in to_lines(after)]
        elif after is not None:
            for search, replace in hunks(before or "", after):
                lines += ["@@", *marked(search, replace)]
        return Reply("\n".join([BEGIN, *lines, END, ""]))
