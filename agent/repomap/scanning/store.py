"""Tags by git blob hash in one SQLite file, shared by checkouts, instances and processes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock

from swe_retry.agent.grammars import grammars_version, language_of
from swe_retry.agent.repomap.scanning.scan import scan
from swe_retry.agent.repomap.scanning.tags import SCANNER, FileTags

_BATCH = 200
# Indexes of whole trees take up to 10 MB and soon expire: a run needs only its own trees.
_MAX_TREES = 8
# Maps as texts take about 8 kB each.
_MAX_TEXTS = 4096
_SCHEMA = """
CREATE TABLE IF NOT EXISTS blobs (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS trees (tree TEXT, part TEXT, value BLOB, UNIQUE (tree, part));
CREATE TABLE IF NOT EXISTS texts (key TEXT PRIMARY KEY, value BLOB);
"""
_INSERT = "INSERT OR REPLACE INTO blobs VALUES (?, ?)"
_DELETE_TREES = """
DELETE FROM trees WHERE tree NOT IN
(SELECT tree FROM trees GROUP BY tree ORDER BY max(rowid) DESC LIMIT ?)
"""
_DELETE_TEXTS = "DELETE FROM texts WHERE rowid <= (SELECT max(rowid) FROM texts) - ?"
_Statement = tuple[str, tuple[object, ...]]


@dataclass(frozen=True)
class TagStore:
    """A cache that may be lost, damaged or read-only at any time, which only costs time."""

    path: Path
    _lock: Lock = field(default_factory=Lock, compare=False)

    def tags(
        self, blobs: Mapping[str, str], root: Path
    ) -> Iterator[tuple[str, FileTags]]:
        """Yield path and tags for ``blobs`` (path to hash) in no order; ``root`` has the files.

        Only the tags of one file are in memory: those of a large repository take much.
        """
        languages = {}
        paths_by_key: dict[str, list[str]] = {}
        for path, blob in sorted(blobs.items()):
            language = language_of(path)
            if language:
                key = f"{SCANNER}:{grammars_version()}:{language}:{blob}"
                languages[key] = language
                paths_by_key.setdefault(key, []).append(path)
        stored_keys = set()
        for batch in _batches(sorted(paths_by_key)):
            marks = ",".join("?" * len(batch))
            query = f"SELECT key, value FROM blobs WHERE key IN ({marks})"
            for key, value in self._query(query, batch):
                try:
                    tags = FileTags.unpack(value)
                except ValueError:
                    continue
                stored_keys.add(key)
                for path in paths_by_key[key]:
                    yield path, tags
        missing = [key for key in sorted(paths_by_key) if key not in stored_keys]
        for batch in _batches(missing):
            inserts = []
            for key in batch:
                paths = paths_by_key[key]
                data = b""
                with suppress(OSError):
                    data = (root / paths[0]).read_bytes()
                tags = scan(data, languages[key])
                inserts.append((_INSERT, (key, tags.pack())))
                for path in paths:
                    yield path, tags
            self._save(inserts)

    def tree(self, key: str) -> dict[str, bytes]:
        """Return the parts that ``keep_tree`` stored for ``key``; none without them."""
        return dict(self._query("SELECT part, value FROM trees WHERE tree = ?", [key]))

    def keep_tree(self, key: str, parts: Iterable[tuple[str, bytes]]) -> None:
        self._save(_tree_statements(key, parts))

    def text(self, key: str) -> str | None:
        """Return the text that ``keep_text`` stored for ``key``, None without it."""
        rows = self._query("SELECT key, value FROM texts WHERE key = ?", [key])
        if not rows:
            return None
        try:
            return rows[0][1].decode("utf-8", "surrogatepass")
        except (UnicodeError, AttributeError):
            return None

    def keep_text(self, key: str, text: str) -> None:
        row = (key, text.encode("utf-8", "surrogatepass"))
        insert = "INSERT OR REPLACE INTO texts VALUES (?, ?)"
        self._save([(insert, row), (_DELETE_TEXTS, (_MAX_TEXTS,))])

    def _query(self, query: str, values: list[str]) -> list[tuple[str, bytes]]:
        try:
            if not self.path.is_file():
                return []
            with closing(sqlite3.connect(self.path, timeout=60)) as database:
                return list(database.execute(query, values))
        except (sqlite3.Error, OSError):
            return []

    def _save(self, statements: Iterable[_Statement]) -> None:
        with suppress(sqlite3.Error, OSError), self._lock, self._writer:
            for statement, values in statements:
                self._writer.execute(statement, values)

    @cached_property
    def _writer(self) -> sqlite3.Connection:
        # It stays open: the last one that closes waits until the disk has everything.
        self.path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self.path, timeout=60, check_same_thread=False)
        database.execute("PRAGMA journal_mode=WAL")
        # A loss of power may take the newest rows, and leaves the others whole.
        database.execute("PRAGMA synchronous=NORMAL")
        database.executescript(_SCHEMA)
        return database


def _tree_statements(
    key: str, parts: Iterable[tuple[str, bytes]]
) -> Iterator[_Statement]:
    yield "DELETE FROM trees WHERE tree = ?", (key,)
    for part, value in parts:
        yield "INSERT INTO trees VALUES (?, ?, ?)", (key, part, value)
    yield _DELETE_TREES, (_MAX_TREES,)


def _batches(keys: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(keys), _BATCH):
        yield keys[start : start + _BATCH]
