"""Resource limits of untrusted code: the same in every environment that can enforce them."""

from __future__ import annotations

from dataclasses import dataclass

from core.processes import Tail

_GIB = 1 << 30


@dataclass(frozen=True)
class ResourceLimits:
    """What all processes of one command may use together.

    The defaults are far above the needs of a test suite, and low enough to protect the machine.

    Attributes:
        processes: processes and threads at a time; parallel test runners start dozens.
        memory: bytes of memory. With a cgroup, files in memory count too.
        file_size: bytes of a single file.
        written: bytes of the work folder, including the project's files.
        temporary: bytes of ``/tmp``, and the same for ``/dev/shm``.
        output: bytes that are kept of the output: its beginning and its end.
        collected: bytes of a file that is read after the command.
    """

    processes: int = 1024
    memory: int = 8 * _GIB
    file_size: int = 2 * _GIB
    written: int = 4 * _GIB
    temporary: int = _GIB
    output: int = 10_000_000
    collected: int = 16 << 20

    def tail(self) -> Tail:
        """Return what keeps the output within its limit."""
        return Tail(self.output // 5, self.output - self.output // 5)
