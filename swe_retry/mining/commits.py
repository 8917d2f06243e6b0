"""Which commits of a history are fixes with tests, and what a row takes of each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import PurePosixPath
from typing import NamedTuple

from swe_retry.instances.selection import in_period
from swe_retry.mining.settings import Mining
from swe_retry.mining.statement import (
    Posts,
    Statement,
    StatementSource,
    unnamed_names,
    write_statement,
)
from swe_retry.record.patches import TEST_CONFIGURATION, is_test_path, split_patch
from swe_retry.repositories.history import (
    CommitFacts,
    FileChange,
    HistoryReader,
    utc_time,
)

_MAX_PATCH = 1 << 20
_MAX_BLOB = 1 << 20
_MAX_MESSAGES = 30
# Of source and tests: the length of a command line is limited.
_MAX_FILES = 500
# Dates are what committers say. After so many that are too old, all others are chosen for older.
_MAX_OLDER = 2_000
_SUBMODULE = "160000"
# Documents where they are not what the program works on, and what only tools for developers read.
_DOCUMENT = re.compile(
    r"\.(md|markdown|rst|adoc|asciidoc|rdoc|textile|pod)$", re.IGNORECASE
)
_DOCUMENT_NAME = re.compile(
    r"(changes?|change_?log|history|news|releases?|authors|contributors|contributing|copying"
    r"|licen[cs]e|notice|readme|todo)(\.(txt|in))?",
    re.IGNORECASE,
)
_DATA_FOLDERS = frozenset(
    {"data", "resources", "assets", "templates", "snapshots", "fixtures"}
)
_DOCUMENT_FOLDERS = frozenset({
    "doc", "docs", "documentation", "changelog", "changelogs", "changelog.d", "changes", "news",
    "newsfragments", "whatsnew",
})  # fmt: skip
_TOOL_FILES = frozenset({"tox.ini", "noxfile.py", "codecov.yml", "appveyor.yml"})
_VERSION_LINE = re.compile(
    r"""[-+]\s*(?:(?:pub|export|const|let|var|static|final)\s+)*["']?(?:__version__|version"""
    r"""|release|version_info)["']?\s*(?::\s*&?\w+\s*)?[:=].{0,80}|[-+]\s*""",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
_REVERTS = re.compile(r"\bThis reverts commit ([0-9a-f]{7,40})\b")


class LeftOut(StrEnum):
    """Why a commit gives no row, before any test runs."""

    FIRST = "first"
    OCTOPUS = "octopus"
    UNRELATED = "unrelated"
    PART = "part of a merge"
    REVERT = "revert"
    REVERTED = "reverted"
    PATH = "path"
    SUBMODULE = "submodule"
    NO_SOURCE = "no source"
    NO_TESTS = "no tests"
    NOTHING_NEW = "tests say nothing new"
    FILES = "files"
    SIZE = "size"
    ENCODING = "encoding"
    REPEATED = "repeated"
    TITLE = "title"


class Kind(StrEnum):
    """What a file of a commit is."""

    SOURCE = "source"
    TEST = "test"
    OTHER = "other"


def kind_of(path: str) -> Kind:
    """Return whether a file is source, a test, or neither: documents and tools' settings."""
    pure = PurePosixPath(path)
    if is_test_path(path) or pure.name in TEST_CONFIGURATION:
        return Kind.TEST
    folders = pure.parts[:-1]
    if any(part.startswith(".") for part in pure.parts) or pure.name in _TOOL_FILES:
        return Kind.OTHER
    if folders and folders[0].lower() in _DOCUMENT_FOLDERS:
        return Kind.OTHER
    if _DOCUMENT_NAME.fullmatch(pure.name):
        return Kind.OTHER
    is_data = not _DATA_FOLDERS.isdisjoint(folders)
    if _DOCUMENT.search(pure.name) and not is_data:
        return Kind.OTHER
    return Kind.SOURCE


class Fix(NamedTuple):
    """A commit that may become a row.

    Attributes:
        base: the commit that it is a fix of: its parent, or the merge base of what it merges.
        landed: its committer date in UTC.
        test_files: the paths in ``test_patch``.
        left_out: the paths that are in neither patch.
        unnamed: the names that tests ask for and the statement does not give.
    """

    commit: str
    base: str
    landed: str
    statement: Statement
    patch: str
    test_patch: str
    test_files: tuple[str, ...]
    left_out: tuple[str, ...]
    unnamed: tuple[str, ...]


class _Change(NamedTuple):
    """The difference that a commit makes: between which commits, and in which files."""

    base: str
    end: str
    files: Sequence[FileChange]


@dataclass
class HistoryWalk:
    """Goes through a history, the newest commit first.

    Attributes:
        folder: of the project in the repository, whose files alone count; empty for all.
        looked_at: commits in the period.
        left_out: how many of them are no fixes with tests, by the reason.
    """

    reader: HistoryReader
    rules: Mining
    posts: Posts
    folder: str = ""
    looked_at: int = 0
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    _merged: set[str] = field(default_factory=set)
    _reverted: set[str] = field(default_factory=set)
    _fixes: set[bytes] = field(default_factory=set)

    def fixes(self) -> Iterator[Fix]:
        """Yield the commits that fit the rules."""
        since = self.rules.first_day
        older = 0
        for facts, changes in self.reader.commits("--diff-merges=first-parent"):
            landed = utc_time(facts.committed)
            files = list(changes)
            older = older + 1 if landed < since else 0
            if older > _MAX_OLDER:
                return
            if not in_period(landed, since, self.rules.until):
                continue
            self.looked_at += 1
            fix = self._judge(facts, files, landed)
            if isinstance(fix, LeftOut):
                self.left_out[fix] += 1
            else:
                yield fix

    def _judge(
        self, facts: CommitFacts, files: Sequence[FileChange], landed: str
    ) -> Fix | LeftOut:
        message = facts.message.decode("utf-8", "replace")
        problem = self._fault_of_place(facts, message)
        if problem:
            return problem
        problem = self._fault_of_files(files)
        if problem:
            return problem
        change = _Change(facts.parents[0], facts.name, files)
        messages = [message]
        if len(facts.parents) == 2:
            merged = self._read_merge(facts)
            if isinstance(merged, LeftOut):
                return merged
            change = merged
            problem = self._fault_of_files(change.files)
            if problem:
                return problem
            messages += self._read_messages(facts)
        fix = self._take(facts.name, landed, messages, change)
        if len(facts.parents) == 2 and isinstance(fix, Fix):
            first, second = facts.parents
            self._merged.update(self.reader.ask("rev-list", second, f"^{first}"))
        return fix

    def _fault_of_place(self, facts: CommitFacts, message: str) -> LeftOut | None:
        """Return why a commit gives no row by its place in the history."""
        reverted = _REVERTS.findall(message)
        self._reverted.update(name[:7] for name in reverted)
        if reverted:
            return LeftOut.REVERT
        if facts.name[:7] in self._reverted:
            return LeftOut.REVERTED
        if facts.name in self._merged:
            return LeftOut.PART
        if not facts.parents:
            return LeftOut.FIRST
        if len(facts.parents) > 2:
            return LeftOut.OCTOPUS
        return None

    def _read_merge(self, facts: CommitFacts) -> _Change | LeftOut:
        """Return what the second parent of a merge changed since the two parted."""
        first, second = facts.parents
        bases = self.reader.ask("merge-base", first, second)
        if not bases:
            return LeftOut.UNRELATED
        files = list(self.reader.changes(bases[0], second))
        return _Change(bases[0], second, files)

    def _read_messages(self, facts: CommitFacts) -> list[str]:
        first, second = facts.parents
        limit = f"--max-count={_MAX_MESSAGES}"
        options = ("--no-merges", "--reverse", "--format=%B%x00", limit)
        lines = self.reader.ask("log", *options, second, f"^{first}")
        messages = "\n".join(lines).split("\0")
        return [message for message in messages if message.strip()]

    def _fault_of_files(self, files: Sequence[FileChange]) -> LeftOut | None:
        by_kind = self._by_kind(files)
        sources = by_kind[Kind.SOURCE]
        before = [change for change in sources if change.status != "A"]
        after = [change for change in sources if change.status != "D"]
        chosen = [*sources, *by_kind[Kind.TEST]]
        if not sources:
            return LeftOut.NO_SOURCE
        if not by_kind[Kind.TEST]:
            return LeftOut.NO_TESTS
        is_large = max(len(before), len(after)) > self.rules.max_files
        if is_large or len(chosen) > _MAX_FILES:
            return LeftOut.FILES
        if not all(self._is_chosen(self._path_of(change)) for change in sources):
            return LeftOut.PATH
        if not all(map(_has_plain_path, chosen)):
            return LeftOut.PATH
        if any(_SUBMODULE in (change.old_mode, change.new_mode) for change in chosen):
            return LeftOut.SUBMODULE
        return None

    def _by_kind(self, files: Iterable[FileChange]) -> dict[Kind, list[FileChange]]:
        by_kind: dict[Kind, list[FileChange]] = {kind: [] for kind in Kind}
        for change in files:
            path = self._path_of(change)
            kind = kind_of(path) if path else Kind.OTHER
            by_kind[kind].append(change)
        return by_kind

    def _path_of(self, change: FileChange) -> str:
        """Return the path of a file in the project's folder; empty for one outside."""
        path = change.path.decode("utf-8", "backslashreplace")
        if not self.folder:
            return path
        if not path.startswith(f"{self.folder}/"):
            return ""
        return path.removeprefix(f"{self.folder}/")

    def _is_chosen(self, path: str) -> bool:
        for pattern in self.rules.paths:
            if fnmatch(path, pattern) or path.startswith(f"{pattern.rstrip('/')}/"):
                return True
        return not self.rules.paths

    def _take(
        self, commit: str, landed: str, messages: Sequence[str], change: _Change
    ) -> Fix | LeftOut:
        """Return the fix with its patches and its statement."""
        by_kind = self._by_kind(change.files)
        chosen = [*by_kind[Kind.SOURCE], *by_kind[Kind.TEST]]
        before = self.reader.objects([file.old for file in chosen], _MAX_BLOB)
        after = self.reader.objects([file.new for file in chosen], _MAX_BLOB)
        if any(blob.size > _MAX_BLOB for blob in [*before, *after]):
            return LeftOut.SIZE
        patches = {}
        for kind in (Kind.SOURCE, Kind.TEST):
            paths = [file.path.decode() for file in by_kind[kind]]
            data = self.reader.patch(change.base, change.end, paths, self.folder)
            if len(data) > _MAX_PATCH:
                return LeftOut.SIZE
            try:
                patches[kind] = data.decode()
            except UnicodeDecodeError:
                return LeftOut.ENCODING
        patch, bumps = _without_version_bumps(patches[Kind.SOURCE])
        test_patch = patches[Kind.TEST]
        if not patch:
            return LeftOut.NO_SOURCE
        if not _says_something_new(test_patch):
            return LeftOut.NOTHING_NEW
        digest = _digest_of_fix(patch)
        if digest in self._fixes:
            return LeftOut.REPEATED
        statement = write_statement(messages, self.posts, patch, test_patch, commit)
        says_nothing = statement.source is StatementSource.TITLE
        if not statement.text or (says_nothing and not self.rules.titles):
            return LeftOut.TITLE
        self._fixes.add(digest)
        texts = [(blob.data or b"").decode("utf-8", "replace") for blob in before]
        unnamed = unnamed_names(statement.text, patch, test_patch, texts)
        others = map(self._path_of, by_kind[Kind.OTHER])
        return Fix(
            commit=commit,
            base=change.base,
            landed=landed,
            statement=statement,
            patch=patch,
            test_patch=test_patch,
            test_files=tuple(map(self._path_of, by_kind[Kind.TEST])),
            left_out=(*bumps, *filter(None, others)),
            unnamed=tuple(unnamed),
        )


def _has_plain_path(change: FileChange) -> bool:
    try:
        return change.path.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _without_version_bumps(patch: str) -> tuple[str, list[str]]:
    """Return a patch without the files of which it changes a version alone, and their paths."""
    remaining = b""
    bumps = []
    for part in split_patch(patch):
        lines = part.data.decode("utf-8", "replace").split("\n@@")[1:]
        changed = []
        for line in "\n".join(lines).split("\n"):
            if line.startswith(("+", "-")):
                changed.append(line)
        if changed and all(map(_VERSION_LINE.fullmatch, changed)):
            bumps.append(part.path)
        else:
            remaining += part.data
    return remaining.decode(), bumps


def _says_something_new(test_patch: str) -> bool:
    """Return whether a patch adds a word: tests that are only written differently test no fix."""
    counts: dict[str, Counter[str]] = {"+": Counter(), "-": Counter()}
    for line in test_patch.split("\n"):
        if line[:1] in counts and not line.startswith(("+++ ", "--- ")):
            counts[line[0]].update(_WORD.findall(line))
    return bool(counts["+"] - counts["-"])


def _digest_of_fix(patch: str) -> bytes:
    """Return what the same fix has in common on all branches: the lines that it changes."""
    lines = []
    for line in patch.split("\n"):
        if line.startswith(("+", "-")):
            lines.append(line)
    return sha256("\n".join(lines).encode()).digest()
