"""The ``patch`` format, known as V4A."""

from __future__ import annotations

from collections.abc import Iterator

from agent.formats.base import Part, ReplyScope
from agent.formats.reading.unified import read_patches
from agent.formats.text import TextFormat


class PatchFormat(TextFormat):
    """Parse and apply V4A patches, with prose or a fence around them, or none."""

    name = "patch"

    def read(
        self,
        lines: list[str],
        scope: ReplyScope,
    ) -> Iterator[Part]:
        return read_patches(lines, scope)
