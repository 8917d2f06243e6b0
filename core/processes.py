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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO

from core.output import Tail
from core.redaction import DOTENV_VARIABLE

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE|^AWS_|^AZURE_|^GOOGLE_", re.I)
_DRAIN = 5.0
_ROUNDS = 50
_BREATH = 0.02
_POLL = 0.2
_MEASURE = 1.0
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


def names_secret(name: str) -> bool:
    """Return whether the name of an environment variable suggests a secret."""
    return bool(_SECRET.search(name))


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return ``environment`` without secrets, variables of a ``.env`` file, and git's own."""
    left_out = {DOTENV_VARIABLE, *environment.get(DOTENV_VARIABLE, "").split(",")}
    return {
        key: value
        for key, value in environment.items()
        if not names_secret(key) and not key.startswith("GIT_") and key not in left_out
    }


def run_limited(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    tail: Tail | None = None,
    too_much: Callable[[], bool] | None = None,
    errors: Tail | None = None,
    check: Callable[[], None] = lambda: None,
) -> CommandResult:
    """Run ``argv`` in a process group of its own and leave nothing of it running at the end.

    The group is killed also after a normal end, because its processes may keep the output open.
    Processes that left the group are found by a mark in their environment (on Linux). Standard
    input is empty; ``tail`` collects the output, ``errors`` standard error again.
    ``too_much`` is asked every second whether the command has used more than it may; it is killed
    then, and its exit code says so. ``check`` is called before, meanwhile and after: where it
    raises, the command is killed and has no result.
    """
    check()
    started = time.monotonic()
    mark = secrets.token_hex(16)
    marks = {_MARK: mark, RUN_VARIABLE: os.environ.get(RUN_VARIABLE, "")}
    process = subprocess.Popen(
        list(argv), cwd=cwd, env={**env, **marks}, stdin=subprocess.DEVNULL,
        start_new_session=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if errors is None else subprocess.PIPE,
    )  # fmt: skip
    tail = tail or Tail()
    readers = _readers(process, tail, errors)
    code: int | None
    try:
        code = _wait(process, timeout, too_much, check)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        _kill_group(process)
        _kill_marked(f"{_MARK}={mark}".encode())
    for reader in readers:
        reader.join(_DRAIN)
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
    check: Callable[[], None],
) -> int:
    """Return the exit code, that of a killed command after ``too_much``.

    Raises:
        subprocess.TimeoutExpired: the time limit is reached.
    """
    end = time.monotonic() + timeout
    measured = time.monotonic()
    while (left := end - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(min(left, _POLL))
        check()
        if too_much is not None and time.monotonic() - measured >= _MEASURE:
            if too_much():
                return -signal.SIGKILL
            measured = time.monotonic()
    return process.wait(0)


def _readers(process: subprocess.Popen[bytes], tail: Tail, errors: Tail | None) -> Sequence[Thread]:
    sources = ((process.stdout, (tail,)), (process.stderr, (tail, errors)))
    readers = [
        Thread(target=_read, args=(stream, [tail for tail in tails if tail]), daemon=True)
        for stream, tails in sources
        if stream is not None
    ]
    for reader in readers:
        reader.start()
    return readers


def _read(stream: IO[bytes], tails: Sequence[Tail]) -> None:
    descriptor = stream.fileno()
    with contextlib.suppress(OSError, ValueError):
        while chunk := os.read(descriptor, 65536):
            for tail in tails:
                tail.add(chunk)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _kill_marked(mark: bytes) -> None:
    """Kill the processes that inherited ``mark`` until none is left, for a limited time."""
    for _ in range(_ROUNDS):
        found = [pid for pid in _pids() if _has_mark(pid, mark)]
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_BREATH)


def _pids() -> list[int]:
    if not _PROCESSES.is_dir():
        return []
    return [int(entry.name) for entry in _PROCESSES.iterdir() if entry.name.isdigit()]


def _has_mark(pid: int, mark: bytes) -> bool:
    try:
        # A killed process that was not waited for yet has an empty environment.
        return mark in (_PROCESSES / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
