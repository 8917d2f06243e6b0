"""Read V4A patches: Begin Patch, Add, Update with Move, Delete, End Patch.

The grammar is that of OpenAI's prompting guide for GPT-4.1 (April 2025).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from agent.formats.base import DeleteFile, Edit, MoveFile, ReplyScope, Unreadable, WholeFile
from agent.formats.matching.lines import with_ends
from agent.formats.reading.fences import fence_of
from agent.formats.reading.markers import STRAY, strays
from agent.formats.reading.names import clean_name, resolve_existing, without_bogus_folders
from agent.formats.reading.unified import Hunk, hunk_edit, hunk_of

_ACTION = re.compile(
    r"^\*\*\* ?(?:(Add|Create|New)|(Update|Modify|Edit)|(?:Delete|Remove)) File:? ?(.+)$",
    re.IGNORECASE,
)
_MOVE = re.compile(r"^\*\*\* ?(?:Move|Rename)(?: File)? to:? ?(.+)$", re.IGNORECASE)
BEGIN, END, _LAST = "*** Begin Patch", "*** End Patch", "*** end of file"
_EDGES = (BEGIN.lower(), END.lower())


def read_patches(lines: list[str], scope: ReplyScope) -> Iterator[Edit | list[str]]:
    """Yield the edits of each action, in order, and the lines outside of patches as lists."""
    section: _Section | None = None
    outside: list[str] = []
    closing = _closing_fences(lines)
    for number, line in enumerate(lines):
        action = _ACTION.match(line)
        edge = line.rstrip().lower() in _EDGES
        if (action or edge or number in closing) and section:
            yield from section.edits(scope)
            section = None
        if action:
            yield outside
            outside = []
            section = _Section("Add" if action[1] else "Update" if action[2] else "", action[3])
        elif section:
            section.take(line)
        elif not edge:
            outside.append(line)
    if section:
        yield from section.edits(scope)
    yield outside


def _closing_fences(lines: Sequence[str]) -> set[int]:
    found, inside = set(), False
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if line.startswith("***"):
            inside = line.strip().lower() != _EDGES[0]
        elif not inside and line[:1] in ("`", "~") and fence_of(line):
            found.add(number)
    return found


@dataclass
class _Section:
    verb: str
    given: str
    lines: list[str] = field(default_factory=list)
    to: str = ""

    def take(self, line: str) -> None:
        move = _MOVE.match(line)
        if move:
            self.to = move[1]
        else:
            self.lines.append(line)

    def edits(self, scope: ReplyScope) -> Iterator[Edit]:
        path = clean_name(self.given)
        if self.verb == "Add":
            if strays([line for line in self.lines if not line.startswith("+")]):
                yield Unreadable(path, STRAY.format(path))
                return
            while self.lines and not self.lines[-1].strip():
                self.lines.pop()
            content = with_ends([line.removeprefix("+") for line in self.lines])
            yield WholeFile(path, content, new=True)
            return
        if not self.verb:
            yield DeleteFile(without_bogus_folders(path, scope))
            return
        path = resolve_existing(path, scope)
        yield from _chunks(path, self.lines)
        if self.to:
            yield MoveFile(path, clean_name(self.to))


def _chunks(path: str, lines: Sequence[str]) -> Iterator[Edit]:
    headers: list[str] = []
    hunk = Hunk()
    for line in [*lines, "@@"]:
        if not line.startswith("@@"):
            hunk.lines.append(line)
            continue
        if any(hunk.lines):
            yield _chunk(path, hunk, headers)
            headers = []
        head = hunk_of(line)
        hunk = Hunk(head.line, head.inserts) if head else Hunk()
        header = head.hint if head and head.line else line[2:].strip("@ \t.…")
        if header.strip():
            headers.append(header)


def _chunk(path: str, hunk: Hunk, headers: Sequence[str]) -> Edit:
    at_end = any(line.rstrip().lower() == _LAST for line in hunk.lines)
    lines = [line for line in hunk.lines if line.rstrip().lower() != _LAST]
    while lines and not lines[-1]:
        lines.pop()
    if not any(line[:1] in ("+", "-") for line in lines):
        return Unreadable(path, f"a part of the patch for {path} changes nothing.")
    edit = hunk_edit(path, hunk, lines, known=True)
    return replace(edit, headers=tuple(headers), at_end=at_end, appends=at_end or edit.appends)
