"""What makes a process die at a chosen write."""

from __future__ import annotations

import builtins
import io
import os
import signal
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

_CALLS = ("fsync", "replace", "rename", "write", "unlink", "mkdir")


class Bomb:
    """Ends this process by SIGKILL at its write number ``at``; 0 counts only.

    What counts: calls of ``os`` that write, files opened for writing, and writes to files.
    """

    def __init__(self, at: int, torn: bool) -> None:
        self.at, self.torn, self.count = at, torn, 0
        self._lock = threading.Lock()

    def due(self) -> bool:
        with self._lock:
            self.count += 1
            return self.count == self.at

    def arm(self) -> None:
        for name in _CALLS:
            setattr(os, name, self._counted(getattr(os, name)))
        Path.replace = self._counted(Path.replace)  # type: ignore[method-assign]
        builtins.open = io.open = self._opening(io.open)  # type: ignore[assignment]
        Path.open = self._opening(Path.open)  # type: ignore[method-assign]

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            if self.due():
                die()
            return call(*args, **named)

        return counted

    def _opening(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def opening(file: Any, mode: str = "r", *args: Any, **named: Any) -> Any:
            if not set(mode) & set("wax+"):
                return call(file, mode, *args, **named)
            if self.due():
                die()
            stream = call(file, mode, *args, **named)
            ours = isinstance(stream, _Watched)
            regular = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
            return _Watched(stream, self) if regular and not ours else stream

        return opening


class _Watched:
    """A file whose writes count, and of which one may be cut in the middle."""

    def __init__(self, stream: Any, bomb: Bomb) -> None:
        self._stream, self._bomb = stream, bomb

    def write(self, data: Any) -> int:
        if self._bomb.due():
            if self._bomb.torn:
                self._stream.write(data[: len(data) // 2])
                self._stream.flush()
            die()
        return int(self._stream.write(data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> _Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def __iter__(self) -> Any:
        return iter(self._stream)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
