"""Runs ``harness.py`` in processes of their own that can be made to die at a chosen write.

Started as a script it reads one order a line and forks a process for each: what takes seconds, the
imports, is done once, and nothing else has happened before the fork.
"""

from __future__ import annotations

import builtins
import io
import json
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
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


def main() -> None:
    sys.path.insert(0, str(TOP))
    from bench.cli.cli import run_cli
    from bench.cli.command_line import main as harness
    from demo import register
    from llm.registry import the_litellm

    register()
    the_litellm()
    assert threading.active_count() == 1, "a process with threads must not be forked"
    say = os.fdopen(os.dup(1), "w", buffering=1)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if not pid:
            _be_harness(order, lambda: run_cli(harness))
        say.write(f"{_exit_code(pid, order['seconds'])}\n")


def _exit_code(pid: int, seconds: float | None) -> int:
    """Wait for a process, kill it after ``seconds``, and return its exit code."""
    end = time.monotonic() + (float("inf") if seconds is None else seconds)
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() >= end:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
    return os.waitstatus_to_exitcode(ended[1])


def _be_harness(order: dict[str, Any], run: Callable[[], int]) -> None:
    """Be a process that was started as ``harness.py``, and end."""
    for number, path in ((0, os.devnull), (1, order["output"]), (2, order["output"])):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        os.dup2(os.open(path, flags, 0o644), number)
    sys.argv = ["harness.py", *order["words"]]
    os.environ.update(order["env"])
    bomb = Bomb(order["kill_at"], order["torn"])
    bomb.arm()
    code = run()
    print(f"writes: {bomb.count}", flush=True)
    os._exit(code)


if __name__ == "__main__":
    main()
