"""The ``patch`` format, known as V4A."""

from __future__ import annotations

from collections.abc import Iterator

from agent.formats.base import Edit, ReplyScope
from agent.formats.matching.hunks import hunks, marked
from agent.formats.matching.lines import to_lines
from agent.formats.reading.v4a import BEGIN, END, read_patches
from agent.formats.text import TextFormat
from llm.chat import Reply


class PatchFormat(TextFormat):
    """Parse and apply V4A patches, with prose or a fence around them, or none."""

    name = "patch"

    def read(self, lines: list[str], scope: ReplyScope) -> Iterator[Edit | list[str]]:
        return read_patches(lines, scope)

    def render(self, path: str, before: str | None, after: str | None) -> Reply:
        return Reply("\n".join([BEGIN, *_rendered(path, before, after), END, ""]))


def _rendered(path: str, before: str | None, after: str | None) -> list[str]:
    if after is None:
        return [f"*** Delete File: {path}"]
    if not to_lines(before or ""):
        verb = "Add" if before is None else "Update"
        return [f"*** {verb} File: {path}", *(f"+{line}" for line in to_lines(after))]
    lines = [f"*** Update File: {path}"]
    for search, replace in hunks(before or "", after):
        lines += ["@@", *marked(search, replace)]
    return lines
