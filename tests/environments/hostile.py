"""Hostile test code, and the session that runs it under small limits."""

from __future__ import annotations

import secrets
import time
from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path

from core.processes import CommandResult
from environments import Prepared, Session
from environments.base import ResourceLimits

MB = 1 << 20
LIMITS = ResourceLimits(
    processes=40, memory=200 * MB, file_size=20 * MB, written=60 * MB, temporary=10 * MB
)
IGNORES_TERM = "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


def a_mark() -> str:
    return f"mark-{secrets.token_hex(8)}"


@dataclass(frozen=True)
class Place:
    """A session with small limits, and the name of the mechanism that enforces them.

    Its tree is set up once as ``prepared``, since only what runs later is hostile.
    """

    way: str
    session: Session
    prepared: Prepared
    mark: str = field(default_factory=a_mark)

    def run(self, code: str, seconds: float = 20) -> CommandResult:
        """Run ``code`` with a mark that is visible in the machine's list of processes."""
        text = b64encode(code.encode()).decode()
        command = f"echo {text} | base64 -d >hostile.py; python hostile.py {self.mark}"
        result = self.prepared.run(command, seconds)
        assert "alive" in self.prepared.run("echo alive", 30).output
        assert not self.still_running(), "a process of it still runs"
        return result

    def still_running(self) -> list[str]:
        end = time.monotonic() + 5
        while (found := self._marked()) and time.monotonic() < end:
            time.sleep(0.05)
        return found

    def _marked(self) -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found.append(path.read_bytes().decode("utf-8", "replace"))
            except OSError:
                continue
        return [line for line in found if self.mark in line]


def ended_badly(result: CommandResult) -> bool:
    return result.timed_out or result.exit_code != 0
