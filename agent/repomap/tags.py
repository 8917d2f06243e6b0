"""Top-level definitions of Python files, found by a cheap scan and kept by git blob hash."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

# Part of the key: a changed scanner must not read what an older one stored.
_SCANNER = "python-toplevel-1"
_TAG = re.compile(rb"^(?:async[ \t]+def|def|class)[ \t]+[^\W\d]\w*", re.MULTILINE)
_BATCH = 500


def scan(data: bytes) -> tuple[str, ...]:
    """Return the headings (``class A``, ``def f``) of the top-level definitions in ``data``."""
    found = (match.group().decode("utf-8", "replace") for match in _TAG.finditer(data))
    return tuple(dict.fromkeys(" ".join(heading.split()) for heading in found))


@dataclass(frozen=True)
class TagStore:
    """Definitions by blob hash in one SQLite file, shared by checkouts, instances and processes."""

    path: Path

    def tags(self, blobs: Mapping[str, str], root: Path) -> dict[str, tuple[str, ...]]:
        """Return path to headings for ``blobs`` (path to hash); ``root`` holds those files.

        A store that is broken or cannot be written only costs time.
        """
        try:
            return self._stored(blobs, root)
        except sqlite3.Error:
            return {path: scan((root / path).read_bytes()) for path in blobs}

    def _stored(self, blobs: Mapping[str, str], root: Path) -> dict[str, tuple[str, ...]]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=60)) as database, database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("CREATE TABLE IF NOT EXISTS tags (key TEXT PRIMARY KEY, value TEXT)")
            known = _load(database, blobs.values())
            missing = {blob: path for path, blob in blobs.items() if blob not in known}
            fresh = {blob: scan((root / path).read_bytes()) for blob, path in missing.items()}
            rows = [(_key(blob), json.dumps(tags)) for blob, tags in fresh.items()]
            database.executemany("INSERT OR IGNORE INTO tags VALUES (?, ?)", rows)
        known.update(fresh)
        return {path: known[blob] for path, blob in blobs.items()}


def _key(blob: str) -> str:
    return f"{_SCANNER}:{blob}"


def _load(database: sqlite3.Connection, blobs: Iterable[str]) -> dict[str, tuple[str, ...]]:
    keys = [_key(blob) for blob in blobs]
    found = {}
    for start in range(0, len(keys), _BATCH):
        batch = keys[start : start + _BATCH]
        marks = ",".join("?" * len(batch))
        for key, value in database.execute(
            f"SELECT key, value FROM tags WHERE key IN ({marks})",
            batch,
        ):
            found[key.partition(":")[2]] = tuple(json.loads(value))
    return found
