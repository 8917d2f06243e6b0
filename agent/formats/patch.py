"""The ``patch`` format, known as V4A: Begin Patch, Add, Update with Move, Delete, End Patch.

The grammar is that of OpenAI's prompting guide for GPT-4.1 (April 2025).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from agent.formats.apply import EngineFormat
from agent.formats.base import (
    DeleteFile,
    Edit,
    MoveFile,
    ReplyScope,
    SearchReplace,
    Unreadable,
    WholeFile,
)
from agent.formats.matching.hunks import hunks, marked, unmarked
from agent.formats.matching.lines import to_lines, with_ends
from agent.formats.reading.fences import fence_of
from agent.formats.reading.names import clean_name, resolve_existing, without_bogus_folders
from llm.chat import Reply

_ACTION = re.compile(r"^\*\*\* (Add|Update|Delete) File: ?(.+)$")
_MOVE = re.compile(r"^\*\*\* Move to: ?(.+)$")
_BEGIN, _END, _LAST = "*** Begin Patch", "*** End Patch", "*** End of File"


class PatchFormat(EngineFormat):
    """Parse and apply V4A patches, with prose or a fence around them, or none."""

    name = "patch"

    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[Edit]:
        """Return the edits in order; an action without a change is unreadable."""
        text = reply.content.removeprefix("\ufeff").replace("\r\n", "\n")
        sections = _sections(text.removesuffix("\n").split("\n"))
        return tuple(edit for section in sections for edit in section.edits(scope))

    def render(self, path: str, before: str | None, after: str | None) -> Reply:
        """Return the patch for the change."""
        return Reply("\n".join([_BEGIN, *_rendered(path, before, after), _END, ""]))


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


@dataclass
class _Section:
    """One action on one file, with its lines."""

    verb: str
    given: str
    lines: list[str] = field(default_factory=list)
    to: str = ""

    def edits(self, scope: ReplyScope) -> Iterator[Edit]:
        path = clean_name(self.given)
        if self.verb == "Add":
            yield WholeFile(path, with_ends(_added(self.lines)), new=True)
            return
        if self.verb == "Delete":
            yield DeleteFile(without_bogus_folders(path, scope))
            return
        path = resolve_existing(path, scope)
        yield from _chunks(path, self.lines)
        if self.to:
            yield MoveFile(path, clean_name(self.to))


def _sections(lines: Sequence[str]) -> Iterator[_Section]:
    section: _Section | None = None
    for line in lines:
        action = _ACTION.match(line)
        if action or line.rstrip() in (_END, _BEGIN):
            if section:
                yield section
            section = _Section(action[1], action[2]) if action else None
        elif section:
            move = _MOVE.match(line)
            if move:
                section.to = move[1]
            else:
                section.lines.append(line)
    if section:
        section.lines = _without_fence(section.lines)
        yield section


def _without_fence(lines: list[str]) -> list[str]:
    """Cut a patch without an end marker off at its closing fence."""
    end = next((n for n, line in enumerate(lines) if line[:1] in "`~" and fence_of(line)), None)
    return lines[:end]


def _added(lines: Sequence[str]) -> list[str]:
    lines = list(lines)
    while lines and not lines[-1].strip():
        lines.pop()
    return [line[1:] if line.startswith("+") else line for line in lines]


def _chunks(path: str, lines: Sequence[str]) -> Iterator[Edit]:
    """Yield an edit for each run of lines between ``@@`` lines."""
    headers: list[str] = []
    chunk: list[str] = []
    for line in [*lines, "@@"]:
        if not line.startswith("@@"):
            chunk.append(line)
            continue
        if any(chunk):
            yield _chunk(path, chunk, headers)
            headers, chunk = [], []
        header = line.strip("@ \t") if line[2:3] != " " else line[3:].rstrip(" @")
        if header.strip():
            headers.append(header)


def _chunk(path: str, lines: list[str], headers: Sequence[str]) -> Edit:
    at_end = any(line.rstrip() == _LAST for line in lines)
    lines = [line for line in lines if line.rstrip() != _LAST]
    while lines and not lines[-1]:
        lines.pop()
    old = [unmarked(line) for line in lines if not line.startswith("+")]
    new = [unmarked(line) for line in lines if not line.startswith("-")]
    if not lines or old == new:
        return Unreadable(path, f"a part of the patch for {path} changes nothing.")
    return SearchReplace(
        path,
        with_ends(old),
        with_ends(new),
        headers=tuple(headers),
        at_end=at_end,
        appends=at_end,
    )
