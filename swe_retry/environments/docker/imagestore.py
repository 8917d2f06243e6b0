"""The images of an engine: pulled when they are needed, and removed when others need their room.

All processes with the same cache share a folder: the record of the images that were pulled, one
lock under which images are pulled and removed, and a file for each image. Who uses an image holds a
shared lock on its file, which the system releases when the process is killed; the time of the file
is that of the last use.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.filesize import decimal

from swe_retry.core.atomic import sweep, write_json_atomic
from swe_retry.core.errors import DamagedFileError, InfrastructureError
from swe_retry.core.hashing import sha256_of
from swe_retry.core.plaintext import Say, one_line
from swe_retry.core.shutdown import waited_for
from swe_retry.core.untrusted import read_bytes
from swe_retry.environments.docker.containers import LABEL
from swe_retry.environments.docker.engine import engine_errors
from swe_retry.environments.docker.images import (
    PullError,
    PullFailure,
    check_space,
    holds,
    id_of,
    mirror_name,
    missing_images,
    pull,
    repository_and_tag,
)
from swe_retry.environments.docker.registries import retry_after, split_name

# Seconds before each further try; docker.io counts the pulls of six hours.
RETRIES: Mapping[PullFailure, Sequence[float]] = {
    PullFailure.LIMIT: (60.0, 120.0, 240.0, 480.0, *[900.0] * 24),
    PullFailure.BROKEN: (2.0, 10.0, 30.0),
}
POLL_SECONDS = 0.5


class PulledImage(BaseModel):
    """An image that was pulled and was not there before.

    Attributes:
        id: the engine's; empty until the pull has ended.
        source: the name that was pulled, where a mirror has another.
        layers: unpacked bytes of the layers, by what identifies each.
    """

    id: str = ""
    source: str = ""
    layers: dict[str, int] = {}


class ImageRecord(BaseModel):
    """All pulled images by name."""

    images: dict[str, PulledImage] = {}

    def size(self) -> int:
        """Return the bytes of all layers of the images; a shared layer counts once."""
        layers: dict[str, int] = {}
        for image in self.images.values():
            layers |= image.layers
        return sum(layers.values())


def layer_sizes(
    diff_ids: Sequence[str], history: Sequence[Mapping[str, Any]]
) -> dict[str, int]:
    """Return the unpacked bytes of an image's layers, by what identifies each.

    Engines give sizes by step of the history only, and do not say which steps without a size made
    a layer. So a layer counts as shared where the steps up to it and at least as many layers are
    the same: the sum may be too large, and never too small.
    """
    steps: list[object] = []
    sizes: dict[str, int] = {}
    for step in reversed(history):
        size = step.get("Size")
        steps.append([step.get("Created"), step.get("CreatedBy"), size])
        if size:
            below = [*diff_ids[: len(sizes) + 1], *steps]
            digest = sha256_of(json.dumps(below))
            sizes[digest[:16]] = size
    return sizes


@dataclass(frozen=True)
class ImageStore:
    """Images in one engine, and the limits.

    Attributes:
        folder: of the record and the locks.
        limit: bytes of all pulled images; None for no limit.
        mirrors: each FROM=TO, as ``mirror_name`` takes them.
        say: takes a line for each pull, removal and further try.
        wait: waits for so many seconds, and raises when the run stops.
    """

    client: Any
    folder: Path
    limit: int | None = None
    mirrors: Sequence[str] = ()
    say: Say = lambda _: None
    wait: Callable[[float], None] = time.sleep

    @contextmanager
    def pin(self, image: str, *, wait: bool = True) -> Iterator[bool]:
        """Pull ``image`` if it is missing and keep it meanwhile; yield whether it is there.

        Without ``wait`` it may be missing, where there is no room. Do not wait while you pin
        another image or hold anything that a user of another image waits for: it can deadlock.

        Raises:
            InfrastructureError: it cannot be pulled.
        """
        with self._use_file(image).open("ab") as stream:
            # This waits while another process removes the image.
            fcntl.flock(stream, fcntl.LOCK_SH)
            try:
                while not (present := self._pull_missing(image)) and wait:
                    self.wait(POLL_SECONDS)
                yield present
            finally:
                now = time.time_ns()  # the system's own time of a file is coarser
                os.utime(stream.fileno(), ns=(now, now))

    @contextmanager
    def pin_some(self, images: Sequence[str], limit: int) -> Iterator[Set[str]]:
        """Keep up to ``limit`` of ``images``, as far as there is room; yield them.

        The first is waited for. What cannot be pulled is yielded too.
        """
        pinned: set[str] = set()
        with ExitStack() as stack:
            for image in images[:limit]:
                with suppress(InfrastructureError):
                    if not stack.enter_context(self.pin(image, wait=not pinned)):
                        break
                pinned.add(image)
            yield pinned

    def fetch(self, image: str) -> None:
        """Pull ``image`` if it is missing; raises as ``pin``."""
        with self.pin(image):
            pass

    def fetch_all(self, images: Iterable[str]) -> dict[str, str]:
        """Pull the ``images`` that are missing; return those that failed, each with the reason.

        A registry that is not reached, or a full disk, gets no further requests.
        """
        failed = {}
        closed: dict[str, str] = {}
        missing = missing_images(self.client, images)
        for number, image in enumerate(missing, 1):
            registry = split_name(mirror_name(image, self.mirrors))[0]
            if registry in closed:
                failed[image] = closed[registry]
                continue
            self.say(f"image {number} of {len(missing)}")
            try:
                self.fetch(image)
            except InfrastructureError as error:
                failed[image] = str(error)
                if getattr(error, "failure", None) is not PullFailure.NONE:
                    closed[registry] = f"not pulled after this: {error}"
        return failed

    def read_record(self) -> ImageRecord:
        try:
            return ImageRecord.model_validate_json(read_bytes(self._record_path))
        except FileNotFoundError:
            return ImageRecord()
        except ValueError as error:
            problem = f"is not a record of images ({one_line(str(error))})"
            fix = "delete it: the images in it then stay in the engine"
            raise DamagedFileError(self._record_path, problem, fix) from error

    @property
    def _record_path(self) -> Path:
        return self.folder / "record.json"

    def _write_record(self, record: ImageRecord) -> None:
        sweep(self._record_path)
        write_json_atomic(self._record_path, record.model_dump())

    def _use_file(self, image: str) -> Path:
        # It is never removed: another process may have opened it to lock it.
        folder = self.folder / "uses"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / sha256_of(image)[:16]

    def _last_use(self, image: str) -> int:
        path = self._use_file(image)
        if path.exists():
            return path.stat().st_mtime_ns
        return 0

    def _pull_missing(self, image: str) -> bool:
        """Pull ``image`` if it is missing and there is room; tell whether it is there."""
        from filelock import FileLock  # it loads asyncio

        if holds(self.client, image):
            return True
        with waited_for(FileLock(self.folder / "lock"), partial(self.wait, 0)):
            if holds(self.client, image):
                return True
            record = self._current_record()
            if not self._make_room(record):
                return False
            self._pull_recorded(record, image)
        return True

    def _current_record(self) -> ImageRecord:
        """Return the record with pulls that ended unnoted, and without what others removed.

        The caller has the lock, so no other process is between the two notes of a pull.
        """
        record = self.read_record()
        for name, image in list(record.images.items()):
            image_id = id_of(self.client, name)
            if not image_id or image.id not in ("", image_id):
                del record.images[name]
            elif not image.id:
                image.id = image_id
                image.layers = self._own_layers(record, image_id)
        return record

    def _has_room(self, record: ImageRecord) -> bool:
        if self.limit is None or not record.images:
            return True
        size = record.size()
        mean = size // len(record.images)
        return size + mean <= self.limit

    def _make_room(self, record: ImageRecord) -> bool:
        """Remove images until one more of their mean size fits; tell whether it does.

        How many bytes an image adds is known after it was pulled, so the limit is exceeded by at
        most one image. Where there is no other image, there is room.
        """
        for name in sorted(record.images, key=self._last_use):
            if self._has_room(record):
                break
            if self._remove(name, record.images[name]):
                del record.images[name]
                self._write_record(record)
                self.say(f"removed image {name}; {self._describe_size(record)}")
        return self._has_room(record)

    @engine_errors()
    def _remove(self, name: str, image: PulledImage) -> bool:
        """Remove an image from the engine; return False if it is used or needed there."""
        from docker.errors import APIError, ImageNotFound

        api = self.client.api
        with self._use_file(name).open("ab") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                parents = [other.get("ParentId") for other in api.images(all=True)]
                containers = api.containers(all=True, filters={"ancestor": image.id})
                if containers or image.id in parents:
                    return False
                for tag in {image.source, name} - {""}:
                    with suppress(ImageNotFound):
                        api.remove_image(tag, noprune=True)
            except (BlockingIOError, APIError):
                return False
        return True

    def _pull_recorded(self, record: ImageRecord, image: str) -> None:
        """Pull ``image``, which is missing; the caller has the lock.

        It is recorded before as well: a killed process may leave a complete image. An image that
        was there by another name does not become ours.
        """
        source = mirror_name(image, self.mirrors)
        with engine_errors():
            earlier_ids = {other["Id"] for other in self.client.api.images(all=True)}
            if self.limit is None:
                check_space(self.client, image)
        record.images[image] = PulledImage(source=source)
        self._write_record(record)
        self.say(f"pull image {source}")
        started = time.monotonic()
        try:
            self._pull_with_retries(source)
            if source != image:
                with engine_errors():
                    self.client.images.get(source).tag(*repository_and_tag(image))
        finally:
            # A failed pull must not make ours what the user pulls later.
            record = self._current_record()
            if image in record.images and record.images[image].id in earlier_ids:
                del record.images[image]
            self._write_record(record)
        seconds = time.monotonic() - started
        self.say(f"pulled {image} in {seconds:.0f} s; {self._describe_size(record)}")

    def _pull_with_retries(self, source: str) -> None:
        delays = {failure: iter(seconds) for failure, seconds in RETRIES.items()}
        while True:
            try:
                pull(self.client, source)
                return
            except PullError as error:
                seconds = next(delays.get(error.failure, iter(())), None)
                if seconds is None:
                    raise
                if error.failure is PullFailure.LIMIT:
                    seconds = retry_after(source) or seconds
                self.say(f"{one_line(str(error))}; again in {seconds:.0f} s")
            self.wait(seconds)

    @engine_errors()
    def _own_layers(self, record: ImageRecord, image_id: str) -> dict[str, int]:
        # The layers of other images stay anyway, so they do not count.
        recorded = {image.id for image in record.images.values()}
        layers = self._layers(image_id)
        for other in self.client.api.images():
            if other["Id"] not in recorded and LABEL not in (other.get("Labels") or {}):
                for layer in self._layers(other["Id"]):
                    layers.pop(layer, None)
        return layers

    def _layers(self, image_id: str) -> dict[str, int]:
        from docker.errors import APIError, ImageNotFound

        try:
            attributes = self.client.images.get(image_id).attrs
            history = self.client.api.history(image_id)
        except ImageNotFound:  # it was removed meanwhile
            return {}
        except (
            APIError
        ):  # Podman 4.3 fails at a step without a time; then nothing counts as shared
            return {image_id: attributes["Size"]}
        return layer_sizes(attributes["RootFS"].get("Layers") or [], history)

    def _describe_size(self, record: ImageRecord) -> str:
        limit = ""
        if self.limit is not None:
            limit = f" of {decimal(self.limit)}"
        return f"images take {decimal(record.size())}{limit}"
