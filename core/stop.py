"""The wish that a run should end: asked for once, seen by all who work for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.errors import StoppedError

if TYPE_CHECKING:
    from filelock import FileLock

_PATIENCE = 0.5


@dataclass
class Stop:
    """Set once and never taken back.

    Attributes:
        reason: why, in words for the user; empty while nobody asked.
        at_once: everything is being killed, so what ends now has no result.
    """

    reason: str = ""
    at_once: bool = False
    _event: threading.Event = field(default_factory=threading.Event)

    def request(self, reason: str) -> None:
        """Ask everybody to end at their next step; the first reason stands."""
        self.reason = self.reason or reason
        self._event.set()

    def wait(self, seconds: float) -> None:
        """Wait for ``seconds``.

        Raises:
            StoppedError: somebody asked for the end before or meanwhile.
        """
        if self._event.wait(seconds):
            raise StoppedError(self.reason)

    def check(self) -> None:
        """Raise ``StoppedError`` when somebody asked for the end."""
        self.wait(0)

    def check_at_once(self) -> None:
        """Raise ``StoppedError`` when everything is being killed."""
        if self.at_once:
            raise StoppedError(self.reason)


@contextmanager
def waited_for(lock: FileLock, check: Callable[[], None]) -> Iterator[None]:
    """Hold ``lock``; ``check`` may end the waiting for it by raising."""
    from filelock import Timeout

    while True:
        check()
        try:
            lock.acquire(timeout=_PATIENCE)
            break
        except Timeout:
            continue
    try:
        yield
    finally:
        lock.release()
