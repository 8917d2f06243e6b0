"""The record of images that this program pulled: what it holds, and what may be removed.

``ImageRecord`` is pure; ``RecordFile`` shares it among processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field, ValidationError

from core.atomic import sweep, write_bytes_atomic
from core.errors import DamagedFileError, InfrastructureError
from core.parsing.untrusted import read_bytes
from core.shutdown import waited_for
from environments.docker.engine import engine_errors

if TYPE_CHECKING:
    from filelock import FileLock

LINGER = 60.0
"""Seconds that an image stays for what follows its use, or for a process that starts again."""


class ClaimKind(str, Enum):
    """Why a process wants an image to stay."""

    USED = "used"
    """A container of it may run."""
    DUE = "due"
    """What it is needed for can start."""
    AHEAD = "ahead"
    """It will be used; each use takes one away."""
    AFTER = "after"
    """It may be needed soon after another process has used it."""


class ImageClaim(BaseModel):
    """A claim that keeps an image from being removed.

    Attributes:
        owner: the process; see ``RecordFile``.
        until: seconds since the epoch after which it ends; None while its owner lives.
    """

    image: str
    owner: str
    kind: ClaimKind
    until: float | None = None


class PulledImage(BaseModel):
    """An image that was pulled and was not there before.

    Attributes:
        complete: False from before the pull until its end is recorded.
        source: the name that was pulled, where a mirror has another.
        pulled, used: seconds since the epoch; ``used`` is 0 before the first use.
        layers: unpacked bytes of the layers, by what identifies each.
    """

    complete: bool = False
    id: str = ""
    digest: str = ""
    source: str = ""
    pulled: float = 0.0
    used: float = 0.0
    layers: dict[str, int] = Field(default_factory=dict)


class ImageRecord(BaseModel):
    """All pulled images, the claims on images, and the registries that are paused.

    Attributes:
        paused: seconds since the epoch until which a registry is not asked.
    """

    images: dict[str, PulledImage] = Field(default_factory=dict)
    claims: list[ImageClaim] = Field(default_factory=list)
    paused: dict[str, float] = Field(default_factory=dict)

    def size(self) -> int:
        """Return the bytes of all layers of the images; a shared layer counts once."""
        return sum(
            dict(chain.from_iterable(i.layers.items() for i in self.images.values())).values()
        )

    def claim(self, image: str, owner: str, kind: ClaimKind) -> None:
        """Add a claim; a use takes one of the owner's claims ahead away."""
        if kind is ClaimKind.USED:
            self.release(image, owner, ClaimKind.AHEAD)
        self.claims.append(ImageClaim(image=image, owner=owner, kind=kind))

    def release(self, image: str, owner: str, *kinds: ClaimKind) -> None:
        for kind in kinds:
            mine = (c for c in self.claims if (c.image, c.owner, c.kind) == (image, owner, kind))
            if (found := next(mine, None)) is not None:
                self.claims.remove(found)

    def has(self, image: str, owner: str, kind: ClaimKind) -> bool:
        return any((c.image, c.owner, c.kind) == (image, owner, kind) for c in self.claims)

    def leave(self, owner: str) -> None:
        self.claims = [claim for claim in self.claims if claim.owner != owner]

    def orphan(self, owner: str, now: float) -> None:
        """End the claims of a process that was killed, after the time to start it again."""
        for claim in self.claims:
            if claim.owner == owner and claim.until is None:
                claim.until = now + LINGER

    def forget_ended(self, now: float) -> None:
        self.claims = [c for c in self.claims if c.until is None or c.until > now]
        self.paused = {name: until for name, until in self.paused.items() if until > now}

    def removable(self, now: float, *, forced: bool = False) -> list[str]:
        """Return the images that may be removed, the one that was not used for longest first.

        ``forced`` includes those that are only expected to be used.
        """
        held = {c.image for c in self.claims if self._holds(c, now, forced=forced)}
        free = [name for name, image in self.images.items() if image.complete and name not in held]
        return sorted(free, key=lambda name: max(self.images[name].used, self.images[name].pulled))

    def in_use(self) -> bool:
        """Return whether a living process uses, or can start to use, an image that is there."""
        kinds = (ClaimKind.USED, ClaimKind.DUE)
        return any(
            claim.kind in kinds and claim.until is None and self._is_there(claim.image)
            for claim in self.claims
        )

    def wanted(self) -> set[str]:
        """Return the images that living processes want to use, and that were not pulled."""
        return {
            claim.image
            for claim in self.claims
            if claim.kind is ClaimKind.USED and claim.until is None
            if not self._is_there(claim.image)
        }

    def _is_there(self, name: str) -> bool:
        return name in self.images and self.images[name].complete

    def _holds(self, claim: ImageClaim, now: float, *, forced: bool) -> bool:
        alive = claim.until is None
        if claim.kind is ClaimKind.USED and alive:
            return True
        if forced:
            return False
        image = self.images.get(claim.image)
        if claim.kind is ClaimKind.AFTER and alive and image and image.used:
            return now - image.used < LINGER
        return True


def layer_sizes(diff_ids: Sequence[str], history: Sequence[Mapping[str, object]]) -> dict[str, int]:
    """Return the unpacked bytes of an image's layers, by what identifies each.

    Engines give sizes by step of the history only, and do not say which steps without a size made
    a layer. So a layer counts as shared where the steps up to it and at least as many layers are
    the same: the sum may be too large, and never too small.
    """
    steps: list[object] = []
    found: dict[str, int] = {}
    for step in reversed(history):
        size = step.get("Size")
        steps.append([step.get("Created"), step.get("CreatedBy"), size])
        if isinstance(size, int) and size > 0:
            below = [*diff_ids[: len(found) + 1], *steps]
            found[hashlib.sha256(json.dumps(below).encode()).hexdigest()[:16]] = size
    return found


@contextmanager
def _kept() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InfrastructureError(f"cannot keep the record of images: {error}") from error


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
    def changed(self, check: Callable[[], None] = lambda: None) -> Iterator[ImageRecord]:
        """Yield the record as it is now, and write it if it was changed."""
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
                durable = record.images != before.images
                sweep(self.path)
                with _kept():
                    data = record.model_dump_json(indent=1).encode("utf-8") + b"\n"
                    write_bytes_atomic(self.path, data, durable=durable)

    @contextmanager
    def pulling(self, seconds: float) -> Iterator[bool]:
        """Wait for the turn to pull; yield whether it came within ``seconds``.

        One process pulls at a time, so that sizes add up.
        """
        from filelock import Timeout

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

    def _lock(self, name: str) -> FileLock:
        from filelock import FileLock  # it loads asyncio

        with _kept():
            self.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self.folder / name, is_singleton=False)

    def _read(self) -> ImageRecord:
        try:
            return ImageRecord.model_validate_json(read_bytes(self.path))
        except FileNotFoundError:
            return ImageRecord()
        except (ValueError, OSError) as error:
            said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            fix = "delete it: the images in it then stay in the engine"
            raise DamagedFileError(self.path, f"is not a record of images ({said})", fix) from error

    def _owner_file(self, owner: str) -> Path:
        return self.folder / "owners" / hashlib.sha256(owner.encode()).hexdigest()[:16]

    def _alive(self, owner: str) -> bool:
        """Return whether the process holds its lock; the file of a dead one is removed."""
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
