"""Tags by git blob hash in one SQLite file, shared by checkouts, instances and processes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent.grammars import grammars_version, language_of
from agent.repomap.scanning.tags import SCANNER, FileTags

_BATCH = 200
# Indexes of whole trees take up to 10 MB and soon expire: a run needs only its own trees.
_TREES_KEPT = 8
# Maps as texts take about 8 kB each.
_TEXTS_KEPT = 4096
_SCHEMA = """
CREATE TABLE IF NOT EXISTS blobs (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS trees (tree TEXT, part TEXT, value BLOB, UNIQUE (tree, part));
CREATE TABLE IF NOT EXISTS texts (key TEXT PRIMARY KEY, value BLOB);
"""
_FORGET = """
DELETE FROM trees WHERE tree NOT IN
(SELECT tree FROM trees GROUP BY tree ORDER BY max(rowid) DESC LIMIT ?)
"""
_FORGET_TEXTS = "DELETE FROM texts WHERE rowid <= (SELECT max(rowid) FROM texts) - ?"


@dataclass(frozen=True)
class TagStore:
    """A cache that may be lost, damaged or read-only at any time, which only costs time."""

    path: Path

    def tags(self, blobs: Mapping[str, str], root: Path) -> Iterator[tuple[str, FileTags]]:
        """Yield path and tags for ``blobs`` (path to hash) in no order; ``root`` has the files.

        Only the tags of one file are in memory: those of a large repository take much.
        """
        languages = {path: language_of(path) for path in blobs}
        wanted = {path: _key(lang, blobs[path]) for path, lang in languages.items() if lang}
        found: set[str] = set()
        by_key = _inverted(wanted)
        for batch in _batches(sorted(by_key)):
            marks = ",".join("?" * len(batch))
            query = f"SELECT key, value FROM blobs WHERE key IN ({marks})"
            for key, value in self._query(query, batch):
                with suppress(ValueError):
                    tags = FileTags.unpack(value)
                    found.add(key)
                    yield from ((path, tags) for path in by_key[key])
        missing = [key for key in sorted(by_key) if key not in found]
        if not missing:
            return
        # Parsers take time to import, and are not needed where no file is new.
        from agent.repomap.scanning.scan import scan

        for batch in _batches(missing):
            rows = []
            for key in batch:
                first = by_key[key][0]
                tags = scan(_read(root / first), languages[first] or "")
                rows.append((key, tags.pack()))
                yield from ((path, tags) for path in by_key[key])
            self._save(partial(_insert, rows))

    def tree(self, key: str) -> dict[str, bytes]:
        """Return the parts that ``keep_tree`` stored for ``key``; none without them."""
        return dict(self._query("SELECT part, value FROM trees WHERE tree = ?", [key]))

    def keep_tree(self, key: str, parts: Iterable[tuple[str, bytes]]) -> None:
        """Store named ``parts`` as the newest tree."""

        def save(database: sqlite3.Connection) -> None:
            database.execute("DELETE FROM trees WHERE tree = ?", (key,))
            for part, value in parts:
                database.execute("INSERT INTO trees VALUES (?, ?, ?)", (key, part, value))
            database.execute(_FORGET, (_TREES_KEPT,))

        self._save(save)

    def text(self, key: str) -> str | None:
        """Return the text that ``keep_text`` stored for ``key``, None without it."""
        found = self._query("SELECT key, value FROM texts WHERE key = ?", [key])
        with suppress(UnicodeError, AttributeError):
            return found[0][1].decode("utf-8", "surrogatepass") if found else None
        return None

    def keep_text(self, key: str, text: str) -> None:
        """Store ``text`` as the newest."""
        value = text.encode("utf-8", "surrogatepass")

        def save(database: sqlite3.Connection) -> None:
            database.execute("INSERT OR REPLACE INTO texts VALUES (?, ?)", (key, value))
            database.execute(_FORGET_TEXTS, (_TEXTS_KEPT,))

        self._save(save)

    def _query(self, query: str, values: list[str]) -> list[tuple[str, bytes]]:
        try:
            if not self.path.is_file():
                return []
            with closing(sqlite3.connect(self.path, timeout=60)) as database:
                return list(database.execute(query, values))
        except (sqlite3.Error, OSError):
            return []

    def _save(self, save: Callable[[sqlite3.Connection], None]) -> None:
        with suppress(sqlite3.Error, OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=60)) as database, database:
                database.execute("PRAGMA journal_mode=WAL")
                database.executescript(_SCHEMA)
                save(database)


def _insert(rows: Iterable[tuple[str, bytes]], database: sqlite3.Connection) -> None:
    database.executemany("INSERT OR REPLACE INTO blobs VALUES (?, ?)", rows)


def _key(language: str, blob: str) -> str:
    return f"{SCANNER}:{grammars_version()}:{language}:{blob}"


def _inverted(keys: Mapping[str, str]) -> dict[str, list[str]]:
    paths: dict[str, list[str]] = {}
    for path, key in sorted(keys.items()):
        paths.setdefault(key, []).append(path)
    return paths


def _batches(keys: list[str]) -> Iterator[list[str]]:
    return (keys[start : start + _BATCH] for start in range(0, len(keys), _BATCH))


def _read(path: Path) -> bytes:
    """Return the bytes of a file; none for an unreadable file."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
