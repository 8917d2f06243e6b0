"""Collect the output of untrusted commands within a limited size."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

_HEAD = 2_000_000
_TAIL = 8_000_000


@dataclass
class Tail:
    """Keeps the beginning and the end of a stream of bytes."""

    head_size: int = _HEAD
    tail_size: int = _TAIL
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)
    _left_out: bool = False
    _lock: Lock = field(default_factory=Lock)

    def add(self, chunk: bytes) -> None:
        """Add bytes; safe to call from several threads."""
        with self._lock:
            self._add(chunk)

    def _add(self, chunk: bytes) -> None:
        room = self.head_size - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:] if room < len(chunk) else b""
        if len(self._tail) > 2 * self.tail_size:
            self._left_out = True
            del self._tail[: -self.tail_size]

    def text(self) -> str:
        """Return the output, with a line in place of the part that was left out."""
        gap = b"\n[output left out]\n" if self._left_out else b""
        return bytes(self._head + gap + self._tail).decode("utf-8", "replace")
