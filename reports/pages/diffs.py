"""Patches with highlighted lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup, escape

_HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_HEADERS = ("diff --git", "index ", "--- ", "+++ ", "new file", "deleted file", "rename ", "old ")
_ADDED, _REMOVED, _HEADING = "gi", "gd", "gu"


def highlighted(patch: str) -> Markup:
    """Return ``patch`` as escaped HTML, with classes for added, removed and heading lines."""
    return Markup("").join(_marked(line, style) for line, style in _styled(patch))


@dataclass
class _Hunk:
    """The lines of each side still to come: a header between hunks may look like a change."""

    old: int = 0
    new: int = 0

    def take(self, line: str) -> str:
        """Return the style of a line of the hunk."""
        added, removed = line.startswith("+"), line.startswith("-")
        if not line.startswith("\\"):
            self.old -= not added
            self.new -= not removed
        return _ADDED if added else _REMOVED if removed else ""

    @property
    def open(self) -> bool:
        return self.old > 0 or self.new > 0


def _styled(patch: str) -> Iterator[tuple[str, str]]:
    hunk, counted = _Hunk(), False
    for line in patch.splitlines(keepends=True):
        start = _HUNK.match(line)
        if start and not hunk.open:
            hunk, counted = _Hunk(*(1 if n is None else int(n) for n in start.groups())), True
            yield line, _HEADING
        elif hunk.open:
            yield line, hunk.take(line)
        elif line.startswith(_HEADERS):
            counted = True
            yield line, _HEADING if line.startswith("diff --git") else ""
        else:
            # The end of a patch that was cut starts in the middle of a hunk.
            yield line, "" if counted else _Hunk().take(line)


def _marked(line: str, style: str) -> Markup:
    if not style:
        return escape(line)
    text = line.rstrip("\r\n")
    ending = line[len(text) :]
    return Markup('<span class="{}">{}</span>{}').format(style, text, ending)
