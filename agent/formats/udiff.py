"""The ``udiff`` format: unified diffs, whose line numbers and counts may be wrong."""

from __future__ import annotations

from collections.abc import Iterator

from agent.formats.base import Part, ReplyScope
from agent.formats.reading.unified import read_diffs
from agent.formats.text import TextFormat


class UnifiedDiffFormat(TextFormat):
    """Parse and apply unified diffs; places are found by lines, not by line numbers."""

    name = "udiff"

    def read(
        self,
        lines: list[str],
        scope: ReplyScope,
    ) -> Iterator[Part]:
        return read_diffs(lines, scope)
