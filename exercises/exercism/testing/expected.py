"""How many tests an exercise has: counted once with its example, and kept on disk."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from core.atomic import write_json_atomic
from core.parsing.untrusted import DamagedError, json_of, read_bytes
from exercises.exercism.verdict import TestCounts

_MOST_BYTES = 10_000


@dataclass(frozen=True)
class ExpectedCounts:
    """The counts of the examples' runs, in files below ``folder``; used by many threads."""

    folder: Path
    _known: dict[str, TestCounts] = field(default_factory=dict)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, parts: Iterable[str], measure: Callable[[], TestCounts]) -> TestCounts:
        """Return the counts for a key of ``parts``; ``measure`` is called if none are kept."""
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._known:
                self._known[key] = self._kept(key, measure)
            return self._known[key]

    def _kept(self, key: str, measure: Callable[[], TestCounts]) -> TestCounts:
        path = self.folder / f"{key}.json"
        try:
            value = json_of(read_bytes(path, _MOST_BYTES))
            return TestCounts(**value["counts"])
        except (OSError, DamagedError, KeyError, TypeError):
            counts = measure()
        write_json_atomic(path, {"counts": asdict(counts)})
        return counts
