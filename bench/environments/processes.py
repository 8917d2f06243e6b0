"""Run a command with a limit of time, and leave nothing of it behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import IO

from bench.environments.base import CommandResult
from bench.environments.output import Tail

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE|^AWS_|^AZURE_|^GOOGLE_", re.I)
_DRAIN = 5.0


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return ``environment`` without what looks like a secret, and without git's variables."""
    return {
        key: value
        for key, value in environment.items()
        if not _SECRET.search(key) and not key.startswith("GIT_")
    }


def run_limited(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float
) -> CommandResult:
    """Run ``argv`` in a process group of its own and kill the whole group at the end.

    The group is killed also when the command ended by itself: what it started may hold its output
    open for ever. Standard input is empty.
    """
    started = time.monotonic()
    process = subprocess.Popen(
        list(argv), cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    tail = Tail()
    assert process.stdout is not None
    reader = Thread(target=_read, args=(process.stdout, tail), daemon=True)
    reader.start()
    code: int | None
    try:
        code = process.wait(timeout)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        _kill_group(process)
    reader.join(_DRAIN)
    return CommandResult(tail.text(), code, time.monotonic() - started)


def _read(stream: IO[bytes], tail: Tail) -> None:
    descriptor = stream.fileno()
    with contextlib.suppress(OSError, ValueError):
        while chunk := os.read(descriptor, 65536):
            tail.add(chunk)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
