"""The ``patch`` format, known as V4A."""

from __future__ import annotations

from swe_retry.agent.formats.reading.v4a import read_patches
from swe_retry.agent.formats.text import TextFormat


class PatchFormat(TextFormat):
    """Parse and apply V4A patches, with prose or a fence around them, or none."""

    name = "patch"
    read = staticmethod(read_patches)
