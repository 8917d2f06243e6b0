"""The ``udiff`` format: unified diffs, whose line numbers and counts may be wrong."""

from __future__ import annotations

from swe_retry.agent.formats.reading.unified import read_diffs
from swe_retry.agent.formats.text import TextFormat


class UnifiedDiffFormat(TextFormat):
    """Parse and apply unified diffs; places are found by lines, not by line numbers."""

    name = "udiff"
    read = staticmethod(read_diffs)
