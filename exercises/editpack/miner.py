"""Mine edits from commits: which files of which commits are rows, and why the others are none.

A row is one modified ``.py`` file of a non-merge commit whose message is an instruction. Without
rename detection a rename is a deletion and an addition, so it is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from typing import Any

from bench.cli.selection import in_period
from exercises.editpack.history.objects import (
    LINK,
    MODIFIED,
    REGULAR,
    RETYPED,
    SUBMODULE,
    CommitFacts,
    FileChange,
    GitObject,
    HistoryReader,
)
from exercises.editpack.history.paths import PathPatterns
from exercises.editpack.messages import Instruction, MessageStyle, RowFault, instruction_of
from exercises.editpack.rows import INSTRUCTION, NEW, OLD, DroppedRow, Row, with_content

LONGEST_SIDE = 50_000
"""Characters; CommitPackFT's limit of the old side, here of both."""
# A character has at most four bytes in UTF-8.
_LONGEST_BLOB = 4 * LONGEST_SIDE
_PYTHON = "python"


class OneFile(str, Enum):
    """Which files of a commit become rows."""

    LARGEST = "largest"
    FIRST = "first"
    ALL = "all"


@dataclass(frozen=True)
class MineRules:
    """What is mined.

    Attributes:
        since, until: of the author date in UTC: days, months, or empty for any.
        paths: those that are taken; all if it has no patterns.
    """

    style: MessageStyle
    verbs: frozenset[str]
    one_file: OneFile
    since: str
    until: str
    paths: PathPatterns
    generated: PathPatterns
    vendored: PathPatterns

    def instruction_of(self, commit: CommitFacts) -> Instruction | RowFault:
        day = utc(commit.seconds)[:10]
        if (self.since or self.until) and not (day and in_period(day, self.since, self.until)):
            return RowFault("date", day)
        message = _decoded(commit.message)
        if message is None:
            return RowFault("message-encoding")
        names = [name.decode("utf-8", "replace") for name in commit.names]
        return instruction_of(message, names, self.style, self.verbs)

    def fault_of_path(self, path: str) -> RowFault | None:
        """Return why a path is left out, None if it is taken."""
        if self.paths.patterns and not self.paths.fit(path):
            return RowFault("path")
        if self.generated.fit(path):
            return RowFault("generated")
        return RowFault("vendored") if self.vendored.fit(path) else None


@dataclass
class MinedCounts:
    """What was found in a repository: commits, and rows kept and dropped."""

    commits: int = 0
    modify_python: int = 0
    with_instruction: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def record(self) -> dict[str, Any]:
        return {**vars(self), "dropped": dict(self.dropped)}


@dataclass(frozen=True)
class _Edit:
    change: FileChange
    path: str
    old: str
    new: str
    instruction: Instruction

    @property
    def rank(self) -> tuple[int, bytes]:
        return -lines_changed(self.old, self.new), self.change.path


def lines_changed(old: str, new: str) -> int:
    """Return the smallest number of lines that are deleted and inserted from old to new."""
    from rapidfuzz.distance import Indel

    return Indel.distance(old.splitlines(), new.splitlines())


class RepositoryMiner:
    """Mines one repository.

    ``taken`` holds the pairs of blobs that are rows already, also of other repositories; it grows.
    """

    def __init__(
        self, name: str, license_: str, reader: HistoryReader, rules: MineRules, taken: set[bytes]
    ) -> None:
        self.counts = MinedCounts()
        self._name, self._license, self._reader = name, license_, reader
        self._rules, self._taken = rules, taken

    def rows(self) -> Iterator[Row | DroppedRow]:
        """Yield each modified Python file of the history, as a row or as dropped."""
        for commit, changes in self._reader.commits():
            self.counts.commits += 1
            for result in self._of_commit(commit, changes):
                if isinstance(result, DroppedRow):
                    self.counts.dropped[result.rule] += 1
                else:
                    self.counts.kept += 1
                yield result

    def _of_commit(
        self, commit: CommitFacts, changes: Iterator[FileChange]
    ) -> Iterator[Row | DroppedRow]:
        best: _Edit | None = None
        for edit in self._edits(commit, changes):
            if isinstance(edit, DroppedRow):
                yield edit
            elif best is None:
                best = edit
            elif self._rules.one_file is OneFile.ALL:
                yield self._row(commit, best)
                best = edit
            else:
                # Only the best so far is held: a commit may have any number of files.
                larger = self._rules.one_file is OneFile.LARGEST and edit.rank < best.rank
                yield self._dropped(commit, (best if larger else edit).change, RowFault("other"))
                best = edit if larger else best
        if best is not None:
            yield self._row(commit, best)

    def _edits(
        self, commit: CommitFacts, changes: Iterator[FileChange]
    ) -> Iterator[_Edit | DroppedRow]:
        instruction: Instruction | RowFault | None = None
        for change in changes:
            kind = _kind(change)
            if kind == _PYTHON:
                if instruction is None:
                    self.counts.modify_python += 1
                    instruction = self._rules.instruction_of(commit)
                    self.counts.with_instruction += isinstance(instruction, Instruction)
                edit = self._edit(instruction, change)
                yield self._dropped(commit, change, edit) if isinstance(edit, RowFault) else edit
            elif kind:
                yield self._dropped(commit, change, RowFault(kind))

    def _edit(self, instruction: Instruction | RowFault, change: FileChange) -> _Edit | RowFault:
        if isinstance(instruction, RowFault):
            return instruction
        path = _decoded(change.path)
        if path is None:
            return RowFault("encoding", "the path is not UTF-8")
        if fault := self._rules.fault_of_path(path):
            return fault
        if change.old == change.new:
            return RowFault("unchanged", f"mode {change.old_mode} to {change.new_mode}")
        sides = self._reader.objects((change.old, change.new), _LONGEST_BLOB)
        old, new = map(_text, sides, ("old", "new"))
        if isinstance(old, RowFault):
            return old
        if isinstance(new, RowFault):
            return new
        if old.replace("\r\n", "\n") == new.replace("\r\n", "\n"):
            return RowFault("unchanged", "line ends")
        return _Edit(change, path, old, new, instruction)

    def _row(self, commit: CommitFacts, edit: _Edit) -> Row | DroppedRow:
        pair = bytes.fromhex(edit.change.old + edit.change.new)
        if pair in self._taken:
            return self._dropped(commit, edit.change, RowFault("repeated"))
        self._taken.add(pair)
        return with_content(
            {
                "commit": commit.name,
                "old_file": edit.path,
                "new_file": edit.path,
                OLD: edit.old,
                NEW: edit.new,
                "subject": edit.instruction.subject,
                "message": edit.instruction.message,
                "lang": "Python",
                "license": self._license,
                "repos": self._name,
                "author_date": utc(commit.seconds),
                INSTRUCTION: edit.instruction.text,
            }
        )

    def _dropped(self, commit: CommitFacts, change: FileChange, fault: RowFault) -> DroppedRow:
        path = change.path.decode("utf-8", "backslashreplace")
        row = {"commit": commit.name, "old_file": path, "new_file": path, "repos": self._name}
        return DroppedRow(row, fault.rule, fault.detail)


def _text(found: GitObject, side: str) -> str | RowFault:
    if found.kind != "blob":
        return RowFault("missing", f"{side} side is {found.kind}")
    if found.data is None:
        return RowFault("long", f"{side} side, {found.size:,} bytes")
    text = _decoded(found.data)
    if text is None:
        return RowFault("encoding", f"{side} side is not UTF-8")
    if len(text) > LONGEST_SIDE:
        return RowFault("long", f"{side} side, {len(text):,} characters")
    return text


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def utc(seconds: bytes) -> str:
    """Return an author date in UTC, ``2013-05-06T12:34:56Z``; empty if there is no such date.

    The author's time zone, which tells of the author, is not kept.
    """
    try:
        date = datetime.fromtimestamp(int(seconds), timezone.utc)
    except (ValueError, OverflowError, OSError):
        return ""
    return date.isoformat().replace("+00:00", "Z")


def _kind(change: FileChange) -> str:
    """Return ``python``, why another file is counted as left out, or nothing."""
    modes = {change.old_mode, change.new_mode}
    if change.status not in (MODIFIED, RETYPED):
        return ""
    if SUBMODULE in modes:
        return "submodule"
    if not change.path.endswith(b".py"):
        return ""
    if LINK in modes:
        return "symlink"
    return _PYTHON if modes <= REGULAR else ""
