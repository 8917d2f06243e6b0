"""Which commits of a history are fixes with tests, and what a row takes of each."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatch
from typing import NamedTuple

from swe_retry.instances.selection import in_period
from swe_retry.mining.settings import Mining
from swe_retry.mining.statement import (
    Posts,
    Statement,
    StatementSource,
    changed_lines,
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

# Of a file, and of a patch.
_MAX_BYTES = 1 << 20
_LOG_OF_MESSAGES = ("--no-merges", "--reverse", "--format=%B%x00", "--max-count=30")
# Of source and tests: the length of a command line is limited.
_MAX_FILES = 500
# Dates are what committers say. After so many that are too old, all others count as older.
_MAX_OLDER = 2_000
_SUBMODULE = "160000"
# What only tools for developers read, then documents where the program does not work on them.
_OTHER = re.compile(
    r"(?s)(.*/)?(\..*|tox\.ini|noxfile\.py|codecov\.yml|appveyor\.yml)"
    r"|(?i:docs?|documentation|changelogs?|changelog\.d|changes|news|newsfragments|whatsnew)/.*"
    r"|(.*/)?(?i:(changes?|change_?log|history|news|releases?|authors|contributors|contributing"
    r"|copying|licen[cs]e|notice|readme|todo)(\.(txt|in))?)"
    r"|(?!(.*/)?(data|resources|assets|templates|snapshots|fixtures)/)"
    r".*\.(?i:md|markdown|rst|adoc|asciidoc|rdoc|textile|pod)"
)
_VERSION_LINE = re.compile(
    r"""\s*(?:(?:pub|export|const|let|var|static|final)\s+)*["']?(?:__version__|version"""
    r"""|release|version_info)["']?\s*(?::\s*&?\w+\s*)?[:=].{0,80}|\s*""",
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


class LeftOutError(Exception):
    """A commit gives no row."""

    def __init__(self, reason: LeftOut) -> None:
        super().__init__(reason)
        self.reason = reason


class Kind(StrEnum):
    """What a file of a commit is."""

    SOURCE = "source"
    TEST = "test"
    OTHER = "other"


FilesByKind = dict[Kind, list[FileChange]]


def kind_of(path: str) -> Kind:
    """Return whether a file is source, a test, or neither: documents and tools' settings."""
    if is_test_path(path) or path.rpartition("/")[2] in TEST_CONFIGURATION:
        return Kind.TEST
    if _OTHER.fullmatch(path):
        return Kind.OTHER
    return Kind.SOURCE


class Fix(NamedTuple):
    """A commit that may become a row.

    Attributes:
        base: the commit that it is a fix of: its parent, or the merge base of what it merges.
        landed: its committer date in UTC.
        left_out: the paths that are in neither patch.
        unnamed: the names that tests ask for and the statement does not give.
    """

    commit: str
    base: str
    landed: str
    statement: Statement
    patch: str
    test_patch: str
    left_out: tuple[str, ...]
    unnamed: tuple[str, ...]


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
    _fixes: set[str] = field(default_factory=set)

    def fixes(self) -> Iterator[Fix]:
        """Yield the commits that fit the rules."""
        since = self.rules.first_day
        older = 0
        options = ("--diff-merges=first-parent", *self._relative)
        for facts, changes in self.reader.commits(*options):
            landed = utc_time(facts.committed)
            files = list(changes)
            older = older + 1 if landed < since else 0
            if older > _MAX_OLDER:
                return
            if not in_period(landed, since, self.rules.until):
                continue
            self.looked_at += 1
            try:
                yield self._read_fix(facts, files)
            except LeftOutError as error:
                self.left_out[error.reason] += 1

    @property
    def _relative(self) -> list[str]:
        """The option by which git names the files of the project alone, as they are there."""
        return [f"--relative={self.folder}"] if self.folder else []

    def _read_fix(self, facts: CommitFacts, files: Iterable[FileChange]) -> Fix:
        message = facts.message.decode("utf-8", "replace")
        self._check_place(facts, message)
        by_kind = self._divide(files)
        base, *merged = facts.parents
        if not merged:
            return self._make_fix(facts, base, facts.name, by_kind, [message])
        # What the branch changed, which is not all that came with it.
        tip = merged[0]
        bases = self.reader.ask("merge-base", base, tip)
        if not bases:
            raise LeftOutError(LeftOut.UNRELATED)
        by_kind = self._divide(self.reader.changes(bases[0], tip, *self._relative))
        branch = (tip, f"^{base}")
        log = self.reader.ask("log", *_LOG_OF_MESSAGES, *branch)
        messages = [message, *filter(str.strip, "\n".join(log).split("\0"))]
        fix = self._make_fix(facts, bases[0], tip, by_kind, messages)
        self._merged.update(self.reader.ask("rev-list", *branch))
        return fix

    def _check_place(self, facts: CommitFacts, message: str) -> None:
        """Leave out a commit that gives no row by its place in the history."""
        reverted = _REVERTS.findall(message)
        self._reverted.update(name[:7] for name in reverted)
        for reason, is_so in (
            (LeftOut.REVERT, bool(reverted)),
            (LeftOut.REVERTED, facts.name[:7] in self._reverted),
            (LeftOut.PART, facts.name in self._merged),
            (LeftOut.FIRST, not facts.parents),
            (LeftOut.OCTOPUS, len(facts.parents) > 2),
        ):
            if is_so:
                raise LeftOutError(reason)

    def _divide(self, files: Iterable[FileChange]) -> FilesByKind:
        """Return the files by kind; leave out a commit that gives no row by them."""
        by_kind: FilesByKind = {kind: [] for kind in Kind}
        for change in files:
            by_kind[kind_of(change.name)].append(change)
        sources = by_kind[Kind.SOURCE]
        chosen = [*sources, *by_kind[Kind.TEST]]
        before = [change for change in sources if change.status != "A"]
        after = [change for change in sources if change.status != "D"]
        largest = max(len(before), len(after))
        for reason, is_so in (
            (LeftOut.NO_SOURCE, not sources),
            (LeftOut.NO_TESTS, not by_kind[Kind.TEST]),
            (LeftOut.FILES, largest > self.rules.max_files or len(chosen) > _MAX_FILES),
            (LeftOut.PATH, not all(map(_has_plain_path, chosen))),
            (LeftOut.PATH, not all(map(self._is_asked_for, sources))),
            (LeftOut.SUBMODULE, any(map(_is_submodule, chosen))),
        ):
            if is_so:
                raise LeftOutError(reason)
        return by_kind

    def _is_asked_for(self, change: FileChange) -> bool:
        for pattern in self.rules.paths:
            folder = f"{pattern.rstrip('/')}/"
            if fnmatch(change.name, pattern) or change.name.startswith(folder):
                return True
        return not self.rules.paths

    def _make_fix(
        self,
        facts: CommitFacts,
        base: str,
        end: str,
        by_kind: FilesByKind,
        messages: Sequence[str],
    ) -> Fix:
        chosen = [*by_kind[Kind.SOURCE], *by_kind[Kind.TEST]]
        before = self.reader.objects([change.old for change in chosen], _MAX_BYTES)
        after = self.reader.objects([change.new for change in chosen], _MAX_BYTES)
        if any(blob.size > _MAX_BYTES for blob in [*before, *after]):
            raise LeftOutError(LeftOut.SIZE)
        patch, version_bumps = _without_version_bumps(
            self._read_patch(base, end, by_kind[Kind.SOURCE])
        )
        test_patch = self._read_patch(base, end, by_kind[Kind.TEST])
        if not patch:
            raise LeftOutError(LeftOut.NO_SOURCE)
        if not _says_something_new(test_patch):
            raise LeftOutError(LeftOut.NOTHING_NEW)
        # On all branches the same fix changes the same lines.
        lines = "\n".join(changed_lines(patch, "+-"))
        if lines in self._fixes:
            raise LeftOutError(LeftOut.REPEATED)
        statement = write_statement(messages, self.posts, patch, test_patch, facts.name)
        says_nothing = statement.source is StatementSource.TITLE
        if not statement.text or (says_nothing and not self.rules.titles):
            raise LeftOutError(LeftOut.TITLE)
        self._fixes.add(lines)
        texts = [(blob.data or b"").decode("utf-8", "replace") for blob in before]
        others = [change.name for change in by_kind[Kind.OTHER]]
        return Fix(
            commit=facts.name,
            base=base,
            landed=utc_time(facts.committed),
            statement=statement,
            patch=patch,
            test_patch=test_patch,
            left_out=(*version_bumps, *others),
            unnamed=tuple(unnamed_names(statement.text, patch, test_patch, texts)),
        )

    def _read_patch(self, base: str, end: str, files: Iterable[FileChange]) -> str:
        paths = [posixpath.join(self.folder, change.name) for change in files]
        data = self.reader.patch(base, end, paths, *self._relative)
        if len(data) > _MAX_BYTES:
            raise LeftOutError(LeftOut.SIZE)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise LeftOutError(LeftOut.ENCODING) from error


def _has_plain_path(change: FileChange) -> bool:
    return change.name.encode() == change.path and change.name.isprintable()


def _is_submodule(change: FileChange) -> bool:
    return _SUBMODULE in (change.old_mode, change.new_mode)


def _without_version_bumps(patch: str) -> tuple[str, list[str]]:
    """Return a patch without the files of which it changes a version alone, and their paths."""
    remaining = b""
    bumps = []
    for part in split_patch(patch):
        lines = list(changed_lines(part.data.decode(), "+-"))
        if lines and all(map(_VERSION_LINE.fullmatch, lines)):
            bumps.append(part.path)
        else:
            remaining += part.data
    return remaining.decode(), bumps


def _says_something_new(test_patch: str) -> bool:
    """Return whether a patch adds a word: tests that are only written differently test no fix."""
    added = _WORD.findall("\n".join(changed_lines(test_patch, "+")))
    removed = _WORD.findall("\n".join(changed_lines(test_patch, "-")))
    return bool(Counter(added) - Counter(removed))
