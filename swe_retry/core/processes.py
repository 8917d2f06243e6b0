"""Run a command with a time limit, and kill all its processes at the end."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread
from typing import IO

from swe_retry.core.redaction import DOTENV_VARIABLE
from swe_retry.core.shutdown import Check

_SECRET = re.compile(
    r"(?i)KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE|^AWS_|^AZURE_|^GOOGLE_"
)
# Seconds.
_DRAIN_TIMEOUT = 5.0
_KILL_PAUSE = 0.02
_POLL_INTERVAL = 0.2
_MEASURE_INTERVAL = 1.0
_MAX_KILL_ROUNDS = 50
_NICENESS = 10
_MARK = "SWE_RETRY_HARNESS_PROCESS"
RUN_VARIABLE = "SWE_RETRY_HARNESS_RUN"
"""The variable that names the run of a process, to find it after the harness was killed."""
_PROCESSES = Path("/proc")


@dataclass(frozen=True)
class CommandResult:
    """The result of a command.

    Attributes:
        output: standard output and error, in the order of arrival.
        exit_code: None when it was killed at its time limit.
        seconds: wall-clock time.
    """

    output: str
    exit_code: int | None
    seconds: float

    @property
    def timed_out(self) -> bool:
        """Whether the command was killed at its time limit."""
        return self.exit_code is None


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return ``environment`` without secrets, variables of a ``.env`` file, and git's own."""
    of_file = [DOTENV_VARIABLE, *environment.get(DOTENV_VARIABLE, "").split(",")]
    public = {}
    for key, value in environment.items():
        is_secret = key in of_file or _SECRET.search(key)
        if not is_secret and not key.startswith("GIT_"):
            public[key] = value
    return public


def run_limited(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    tail: Tail | None = None,
    too_much: Callable[[], bool] | None = None,
    errors: Tail | None = None,
    check: Check = lambda: None,
    yields: bool = False,
) -> CommandResult:
    """Run ``argv`` in a process group of its own and leave nothing of it running at the end.

    The group is killed also after a normal end, because its processes may keep the output open.
    Processes that left the group are found by a mark in their environment (on Linux). Standard
    input is empty; ``tail`` collects the output, ``errors`` standard error again.
    ``too_much`` is asked every second whether the command has used more than it may; it is killed
    then, and its exit code says so. ``check`` is called before, meanwhile and after: where it
    raises, the command is killed and has no result. A command that ``yields`` lets the harness
    and what its user runs go first.
    """
    check()
    started = time.monotonic()
    mark = secrets.token_hex(16)
    marks = {_MARK: mark, RUN_VARIABLE: os.environ.get(RUN_VARIABLE, "")}
    tail = tail or Tail()
    process: subprocess.Popen[bytes] | None = None
    code: int | None
    try:
        process = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env={**env, **marks},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if errors is None else subprocess.PIPE,
        )
        readers = [_start_reader(process.stdout, tail)]
        if errors is not None:
            readers.append(_start_reader(process.stderr, tail, errors))
        code = _wait(process, timeout, too_much, check, yields)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        # An interrupt may come after the start, before the process is known here.
        if process:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        kill_marked(f"{_MARK}={mark}")
    for reader in readers:
        reader.join(_DRAIN_TIMEOUT)
    check()
    return CommandResult(tail.text(), code, time.monotonic() - started)


def remove_tree(path: Path) -> None:
    """Remove the files of a command at ``path``, as far as permissions allow; follows no links.

    Commands leave folders that are too deep for Python's stack or for the limit of open files, and
    folders without permissions.
    """
    if path.is_symlink() or not path.is_dir():
        with contextlib.suppress(OSError):
            path.unlink()
        return
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(path)
        return
    for argv in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
        subprocess.run([*argv, "--", str(path)], capture_output=True, check=False)


def _wait(
    process: subprocess.Popen[bytes],
    timeout: float,
    too_much: Callable[[], bool] | None,
    check: Check,
    yields: bool,
) -> int:
    now = time.monotonic()
    end = now + timeout
    measured = now
    while now < end:
        if yields:
            _lower_priority(process.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(min(end - now, _POLL_INTERVAL))
        check()
        now = time.monotonic()
        if too_much is not None and now - measured >= _MEASURE_INTERVAL:
            measured = now
            if too_much():
                return -signal.SIGKILL
    return process.wait(0)


def _lower_priority(session: int) -> None:
    """Lower the priority of the session with this process id.

    Linux shares the processors between sessions first (``autogroup``, sched(7)), and niceness
    counts only within one; elsewhere niceness alone counts. The kernel lets a user lower ten
    sessions a second: call it again.
    """
    niceness = min(os.nice(0) + _NICENESS, 19)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PGRP, session, niceness)
        (_PROCESSES / str(session) / "autogroup").write_text(str(niceness))


def _start_reader(stream: IO[bytes] | None, *tails: Tail) -> Thread:
    """Read a stream to its end in a thread."""
    assert stream is not None
    reader = Thread(target=_read, args=(stream, tails), daemon=True)
    reader.start()
    return reader


def _read(stream: IO[bytes], tails: Sequence[Tail]) -> None:
    descriptor = stream.fileno()
    with contextlib.suppress(OSError, ValueError):
        while chunk := os.read(descriptor, 65536):
            for tail in tails:
                tail.add(chunk)


def kill_marked(variable: str) -> list[str]:
    """Kill the other processes with ``NAME=value`` in their environment; return which (on Linux).

    Repeated a limited number of times: a process may start another just before it is killed.
    """
    descriptions: dict[int, str] = {}
    for _ in range(_MAX_KILL_ROUNDS):
        marked = []
        for pid in _other_pids():
            if variable.encode() in _read_strings(pid, "environ"):
                marked.append(pid)
        if not marked:
            break
        for pid in marked:
            arguments = b" ".join(_read_strings(pid, "cmdline"))
            command = arguments[:80].decode("utf-8", "replace").strip()
            descriptions.setdefault(pid, f"process {pid} ({command})")
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_KILL_PAUSE)
    return list(descriptions.values())


def _other_pids() -> Iterator[int]:
    if _PROCESSES.is_dir():
        for entry in _PROCESSES.iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                yield int(entry.name)


def _read_strings(pid: int, file: str) -> list[bytes]:
    """Return the strings in a file of a process, each of which ends with a zero byte."""
    try:
        # A killed process that was not waited for yet has an empty environment.
        return (_PROCESSES / str(pid) / file).read_bytes().split(b"\0")
    except OSError:
        return [b"gone"]


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
        self._tail += chunk[room:]
        if len(self._tail) > 2 * self.tail_size:
            self._left_out = True
            del self._tail[: -self.tail_size]

    def text(self) -> str:
        """Return the output, with a line in place of the part that was left out."""
        output = bytes(self._head)
        if self._left_out:
            output += b"\n[output left out]\n"
        output += self._tail
        return output.decode("utf-8", "replace")
