"""Read V4A patches: Begin Patch, Add, Update with Move, Delete, and End Patch.

The grammar is that of OpenAI's prompting guide for GPT-4.1 (April 2025).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from swe_retry.agent.formats.edits import (
    DeleteFile,
    Edit,
    MoveFile,
    Part,
    Unreadable,
    WholeFile,
)
from swe_retry.agent.formats.matching.lines import Lines, with_ends
from swe_retry.agent.formats.protocol import ReplyScope
from swe_retry.agent.formats.reading.fences import STRAY_MARKER, fence_of, stray_markers
from swe_retry.agent.formats.reading.hunks import (
    HUNK_HEAD,
    Hunk,
    has_changes,
    hunk_edit,
)
from swe_retry.agent.formats.reading.names import (
    clean_name,
    resolve_existing,
    without_bogus_folders,
)

ACTION = re.compile(
    r"^\*\*\* ?(?:(Add|Create|New)|(Update|Modify|Edit)|(?:Delete|Remove)) File:? ?(.+)$",
    re.IGNORECASE,
)
_MOVE = re.compile(r"^\*\*\* ?(?:Move|Rename)(?: File)? to:? ?(.+)$", re.IGNORECASE)
BEGIN = "*** Begin Patch"
END = "*** End Patch"
_END_OF_FILE = "*** end of file"
_EDGES = (BEGIN.lower(), END.lower())


def read_patches(lines: list[str], scope: ReplyScope) -> Iterator[Part]:
    """Yield the edits of each action, in order, and the lines outside of patches as lists."""
    section: _Section | None = None
    outside: list[str] = []
    closing = _closing_fences(lines)
    for number, line in enumerate(lines):
        action = ACTION.match(line)
        is_edge = line.rstrip().lower() in _EDGES
        if section and (action or is_edge or number in closing):
            yield from section.edits(scope)
            section = None
        if action:
            yield outside
            outside = []
            section = _Section(
                name=action[3], adds=bool(action[1]), updates=bool(action[2])
            )
        elif section:
            section.add_line(line)
        elif not is_edge:
            outside.append(line)
    if section:
        yield from section.edits(scope)
    yield outside


def _closing_fences(lines: Lines) -> set[int]:
    """Return the fences that no later line of the same patch with stars follows."""
    numbers = set()
    inside = False
    for number in reversed(range(len(lines))):
        line = lines[number]
        is_fence = line.startswith(("`", "~")) and fence_of(line)
        if line.startswith("***"):
            inside = line.strip().lower() != _EDGES[0]
        elif is_fence and not inside:
            numbers.add(number)
    return numbers


@dataclass
class _Section:
    """The lines of an action; it removes its file where it neither adds nor updates it."""

    name: str
    adds: bool
    updates: bool
    lines: list[str] = field(default_factory=list)
    target: str = ""

    def add_line(self, line: str) -> None:
        move = _MOVE.match(line)
        if move:
            self.target = move[1]
        else:
            self.lines.append(line)

    def edits(self, scope: ReplyScope) -> Iterator[Edit]:
        path = clean_name(self.name)
        if self.adds:
            yield self._new_file(path)
            return
        if not self.updates:
            yield DeleteFile(without_bogus_folders(path, scope))
            return
        path = resolve_existing(path, scope)
        yield from _chunk_edits(path, self.lines)
        if self.target:
            yield MoveFile(path, clean_name(self.target))

    def _new_file(self, path: str) -> Edit:
        unmarked = [line for line in self.lines if not line.startswith("+")]
        if stray_markers(unmarked):
            return Unreadable(path, STRAY_MARKER.format(path))
        while self.lines and not self.lines[-1].strip():
            self.lines.pop()
        content = [line.removeprefix("+") for line in self.lines]
        return WholeFile(path, with_ends(content), new=True)


def _chunk_edits(path: str, lines: Lines) -> Iterator[Edit]:
    headers: list[str] = []
    hunk = Hunk()
    for line in [*lines, "@@"]:
        if not line.startswith("@@"):
            hunk.lines.append(line)
            continue
        if any(hunk.lines):
            yield _chunk_edit(path, hunk, headers)
            headers = []
        head = HUNK_HEAD.match(line)
        hunk = Hunk.of(head) if head else Hunk()
        header = hunk.hint
        hunk.hint = ""
        if not hunk.line:
            header = line[2:].strip("@ \t.…")
        if header.strip():
            headers.append(header)


def _chunk_edit(path: str, hunk: Hunk, headers: Lines) -> Edit:
    content = []
    for line in hunk.lines:
        if line.rstrip().lower() != _END_OF_FILE:
            content.append(line)
    at_end = len(content) < len(hunk.lines)
    while content and not content[-1]:
        content.pop()
    if not has_changes(content):
        return Unreadable(path, f"a part of the patch for {path} changes nothing.")
    edit = hunk_edit(path, hunk, content, exists=True)
    return replace(
        edit, headers=tuple(headers), at_end=at_end, appends=at_end or edit.appends
    )
