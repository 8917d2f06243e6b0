"""The lock of a run: one process at a time works on it, and a file beside the lock names it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from swe_retry.core.atomic import write_json_atomic
from swe_retry.core.errors import UserError
from swe_retry.core.untrusted import read_object

_LOCK = ".run.lock"
_OWNER = ".run.owner"
LOCK_FILES = (_LOCK, _OWNER)
"""The names of the first files in the folder of a run."""
_PATIENCE = 0.5


@dataclass(frozen=True)
class Owner:
    """A process that works, or worked, on a run."""

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"


@contextmanager
def run_lock(folder: Path, option: str = "--run") -> Iterator[Owner | None]:
    """Hold the lock of the run in ``folder``, and yield the last owner if it was killed, else None.

    The system releases the lock of a dead process, so a lock is never stale; only the name of a
    killed owner is left. ``option`` is what chooses another folder.

    Raises:
        UserError: another process works on it.
    """
    from filelock import FileLock, Timeout  # it loads asyncio

    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / _LOCK, is_singleton=False)
    try:
        # ``status`` holds it for a moment.
        lock.acquire(timeout=_PATIENCE)
    except Timeout:
        raise _in_use(folder, option) from None
    try:
        before = last_owner(folder)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        write_json_atomic(
            folder / _OWNER, asdict(Owner(os.getpid(), socket.gethostname(), now))
        )
        yield before
    finally:
        forget(folder)
        lock.release()


def forget(folder: Path) -> None:
    """Remove the files of the lock, which the caller holds."""
    (folder / _OWNER).unlink(missing_ok=True)
    (folder / _LOCK).unlink(missing_ok=True)


def _in_use(folder: Path, option: str) -> UserError:
    who = last_owner(folder) or "another process"
    return UserError(
        f"{folder} is worked on by {who}; wait for it, stop it, or choose another {option}"
    )


def check_unlocked(folder: Path) -> None:
    """Refuse a run that another process works on; create no file."""
    if is_locked(folder):
        raise _in_use(folder, "--run")


def is_locked(folder: Path) -> bool:
    """Return whether a process works on the run in ``folder``; create no file."""
    if not (folder / _LOCK).exists():
        return False
    from filelock import FileLock, Timeout

    lock = FileLock(folder / _LOCK, is_singleton=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return True
    except OSError:  # without the permission to lock it, it is unknown
        return False
    lock.release()
    return False


def last_owner(folder: Path) -> Owner | None:
    """Return the process that works on the run, or was killed during it."""
    try:
        return Owner(**read_object(folder / _OWNER, "delete it"))
    except (OSError, UserError, TypeError):
        return None
