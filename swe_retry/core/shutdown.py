"""The request to shut a run down, which all its threads check."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from swe_retry.core.errors import StoppedError

if TYPE_CHECKING:
    from filelock import FileLock

_LOCK_WAIT = 0.5
Check = Callable[[], None]
"""Raises when the run stops."""


@dataclass
class Shutdown:
    """A shutdown request; set once and never reset.

    Attributes:
        reason: why, in words for the user; empty without a request.
        at_once: all processes are being killed, so their results do not count.
    """

    reason: str = ""
    at_once: bool = False
    _event: threading.Event = field(default_factory=threading.Event)

    def request(self, reason: str) -> None:
        """Ask all work to end at its next step; the first reason is kept."""
        self.reason = self.reason or reason
        self._event.set()

    def wait(self, seconds: float) -> None:
        """Wait for ``seconds``.

        Raises:
            StoppedError: a shutdown was requested, before or meanwhile.
        """
        if self._event.wait(seconds):
            raise StoppedError(self.reason)

    def check(self) -> None:
        self.wait(0)

    def check_at_once(self) -> None:
        """Raise ``StoppedError`` when all processes are being killed."""
        if self.at_once:
            raise StoppedError(self.reason)


@contextmanager
def waited_for(lock: FileLock, check: Check) -> Iterator[None]:
    """Hold ``lock``; ``check`` may end the wait for it by raising."""
    from filelock import Timeout

    while True:
        check()
        try:
            lock.acquire(timeout=_LOCK_WAIT)
            break
        except Timeout:
            continue
    try:
        yield
    finally:
        lock.release()
