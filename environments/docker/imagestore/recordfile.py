"""The file with the record of pulled images, and who of those that are named in it is alive."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import ValidationError

from core.atomic import sweep, write_bytes_atomic
from core.errors import DamagedFileError, InfrastructureError
from core.parsing.untrusted import read_bytes
from core.shutdown import waited_for
from environments.docker.engine import engine_errors
from environments.docker.imagestore.record import ImageRecord

Check = Callable[[], None]


@dataclass(frozen=True)
class RecordFile:
    """The record of one engine, in a folder that all processes with the same cache share.

    Attributes:
        folder: of the record, its locks, and a file for each process that has claims.
        owner: names this process. A process holds a lock on the file of that name while it lives,
            which the system releases when it is killed.
    """

    folder: Path
    owner: str

    @property
    def path(self) -> Path:
        return self.folder / "record.json"

    def live(self) -> RecordFile:
        """Be alive for others until the process ends or this value is gone; return it."""
        place = self._owner_file(self.owner)
        place.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        # Shared: several parts of a process may name themselves alike.
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        weakref.finalize(self, os.close, descriptor)
        return self

    @contextmanager
    def changed(self, check: Check = lambda: None) -> Iterator[ImageRecord]:
        """Yield the record as it is now, and write it if it was changed."""
        self._make()
        with waited_for(self._lock("record.lock"), check):
            before = self._read()
            record = before.model_copy(deep=True)
            now = time.time()
            for owner in {c.owner for c in record.claims if c.until is None} - {self.owner}:
                if not self._alive(owner):
                    record.orphan(owner, now)
            record.forget_ended(now)
            yield record
            if record != before:
                # Claims do not outlive the machine's next start.
                self._write(record, durable=record.images != before.images)

    @contextmanager
    def pulling(self, seconds: float) -> Iterator[bool]:
        """Wait for the turn to pull; yield whether it came within ``seconds``.

        One process pulls at a time, so that sizes add up.
        """
        self._make()
        lock = self._lock("pull.lock")
        try:
            lock.acquire(timeout=seconds)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def _make(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InfrastructureError(f"cannot keep the record of images: {error}") from error

    def _lock(self, name: str) -> FileLock:
        return FileLock(self.folder / name, is_singleton=False)

    def _read(self) -> ImageRecord:
        try:
            return ImageRecord.model_validate_json(read_bytes(self.path))
        except FileNotFoundError:
            return ImageRecord()
        except (ValueError, OSError) as error:
            said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            fix = "delete it: the images in it then stay in the engine"
            raise DamagedFileError(self.path, f"is no record of images ({said})", fix) from error

    def _write(self, record: ImageRecord, *, durable: bool) -> None:
        sweep(self.path)
        data = record.model_dump_json(indent=1).encode("utf-8") + b"\n"
        try:
            write_bytes_atomic(self.path, data, durable=durable)
        except OSError as error:
            raise InfrastructureError(f"cannot keep the record of images: {error}") from error

    def _owner_file(self, owner: str) -> Path:
        return self.folder / "owners" / hashlib.sha256(owner.encode()).hexdigest()[:16]

    def _alive(self, owner: str) -> bool:
        """Tell whether the process holds its lock; the file of a dead one is removed."""
        place = self._owner_file(owner)
        with contextlib.suppress(FileNotFoundError), place.open("rb") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            place.unlink()
        return False


def record_file(client: Any, cache: Path, owner: str) -> RecordFile:  # noqa: ANN401 - no types
    with engine_errors():
        about = client.info()
    # Copies of a machine share the engine's id, and Podman makes a new one for each answer.
    engine = f"{about.get('Name')}:{about.get('DockerRootDir')}"
    folder = cache / "images" / hashlib.sha256(engine.encode()).hexdigest()[:12]
    return RecordFile(folder, f"{owner}.{os.getpid()}").live()
