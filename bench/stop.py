"""The wish that a run should end: asked for once, seen by all who work for it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from agent.errors import StoppedError


@dataclass
class Stop:
    """Set once and never taken back.

    Attributes:
        reason: why, in words for the user; empty while nobody asked.
    """

    reason: str = ""
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
