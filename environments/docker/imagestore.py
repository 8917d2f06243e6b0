"""The images of an engine: pulled when they are needed, and removed when others need their room.

All processes with the same cache share a folder: the record of the images that were pulled, one
lock under which images are pulled and removed, and a file for each image. Who uses an image holds a
shared lock on its file, which the system releases when the process is killed; the time of the file
is that of the last use.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from core.atomic import sweep, write_bytes_atomic
from core.errors import DamagedFileError, InfrastructureError
from core.parsing.untrusted import read_bytes
from core.plaintext import one_line
from core.shutdown import waited_for
from environments.docker.containers import LABEL
from environments.docker.engine import engine_errors
from environments.docker.images import (
    RESERVE,
    ImagePrefix,
    PullError,
    PullFailure,
    check_space,
    holds,
    mirrored,
    pull,
    registry_of,
    repository_and_tag,
)
from environments.docker.registries import Registries

_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
# Seconds before each further try; docker.io counts the pulls of six hours.
_RETRIES: Mapping[PullFailure, Sequence[float]] = {
    PullFailure.LIMIT: (60.0, 120.0, 240.0, 480.0, *[900.0] * 24),
    PullFailure.BROKEN: (2.0, 10.0, 30.0),
}


class PulledImage(BaseModel):
    """An image that was pulled and was not there before.

    Attributes:
        id: the engine's; empty until the pull has ended.
        source: the name that was pulled, where a mirror has another.
        layers: unpacked bytes of the layers, by what identifies each.
    """

    id: str = ""
    source: str = ""
    layers: dict[str, int] = Field(default_factory=dict)


class ImageRecord(BaseModel):
    """All pulled images by name."""

    images: dict[str, PulledImage] = Field(default_factory=dict)

    def size(self) -> int:
        """Return the bytes of all layers of the images; a shared layer counts once."""
        layers: dict[str, int] = {}
        for image in self.images.values():
            layers.update(image.layers)
        return sum(layers.values())


def layer_sizes(diff_ids: Sequence[str], history: Sequence[Mapping[str, object]]) -> dict[str, int]:
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
        if isinstance(size, int) and size > 0:
            below = [*diff_ids[: len(sizes) + 1], *steps]
            sizes[hashlib.sha256(json.dumps(below).encode()).hexdigest()[:16]] = size
    return sizes


@contextmanager
def _record_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InfrastructureError(f"cannot keep the record of images: {error}") from error


@dataclass(frozen=True)
class ImageStore:
    """Images in one engine, and the limits.

    Attributes:
        folder: of the record and the locks.
        limit: bytes of all pulled images; None for no limit.
        prefixes: of mirrors.
        say: takes a line for each pull, removal and further try.
        check: raises when the run stops.
        reserve: bytes that stay free on the engine's disk where there is no limit.
        retries: seconds before each further try after a failure.
        poll: seconds between two looks for room.
        layers: bytes of the layers of images that were looked at, by the images' ids.
    """

    client: Any
    folder: Path
    limit: int | None = None
    prefixes: Sequence[ImagePrefix] = ()
    say: Callable[[str], None] = lambda _: None
    check: Callable[[], None] = lambda: None
    registries: Registries = field(default_factory=Registries)
    reserve: int = RESERVE
    retries: Mapping[PullFailure, Sequence[float]] = field(default_factory=lambda: _RETRIES)
    poll: float = 0.5
    layers: dict[str, Mapping[str, int]] = field(default_factory=dict)

    @contextmanager
    def pinned(self, image: str, number: str = "") -> Iterator[None]:
        """Pull ``image`` if it is missing and keep it meanwhile; wait for room.

        Do not call this while you pin another image or hold anything that a user of another image
        waits for: it can deadlock. ``number`` says which image of how many it is.

        Raises:
            InfrastructureError: it cannot be pulled.
        """
        with self._in_use(image):
            while not self._pull_missing(image, number):
                self._wait(self.poll)
            yield

    @contextmanager
    def pinned_some(self, images: Sequence[str], most: int) -> Iterator[frozenset[str]]:
        """Keep the first of ``images``, and up to ``most`` for which there is room; yield them.

        The first is waited for, and is yielded even if it cannot be pulled.
        """
        with ExitStack() as stack:
            with suppress(InfrastructureError):
                stack.enter_context(self.pinned(images[0]))
            pinned = {images[0]}
            for image in images[1:most]:
                stack.enter_context(self._in_use(image))
                try:
                    present = self._pull_missing(image)
                except InfrastructureError:
                    break
                if not present:
                    break
                pinned.add(image)
            yield frozenset(pinned)

    def fetch(self, image: str, number: str = "") -> None:
        """Pull ``image`` if it is missing; raises as ``pinned``."""
        with self.pinned(image, number):
            pass

    def fetch_all(self, images: Iterable[str]) -> None:
        missing = [image for image in sorted(set(images)) if not self.holds(image)]
        for number, image in enumerate(missing, 1):
            self.fetch(image, f"{number} of {len(missing)}: ")

    def fetch_each(self, images: Iterable[str]) -> dict[str, str]:
        """Pull the ``images`` that are missing; return those that failed, each with the reason.

        A registry that is not reached, or a full disk, gets no further requests.
        """
        wanted = sorted(set(images))
        failed: dict[str, str] = {}
        closed: dict[str, str] = {}
        for number, image in enumerate(wanted, 1):
            registry = registry_of(mirrored(image, self.prefixes))
            if registry in closed:
                failed[image] = f"not pulled after this: {closed[registry]}"
                continue
            try:
                self.fetch(image, f"{number} of {len(wanted)}: ")
            except InfrastructureError as error:
                failed[image] = str(error)
                if getattr(error, "failure", None) is not PullFailure.NONE:
                    closed[registry] = str(error)
        return failed

    def holds(self, image: str) -> bool:
        with engine_errors():
            return holds(self.client, image)

    def read_record(self) -> ImageRecord:
        path = self._record_path
        try:
            return ImageRecord.model_validate_json(read_bytes(path))
        except FileNotFoundError:
            return ImageRecord()
        except (ValueError, OSError) as error:
            reason = str(error)
            if isinstance(error, ValidationError):
                reason = error.errors()[0]["msg"]
            fix = "delete it: the images in it then stay in the engine"
            raise DamagedFileError(path, f"is not a record of images ({reason})", fix) from error

    @property
    def _record_path(self) -> Path:
        return self.folder / "record.json"

    def _write_record(self, record: ImageRecord) -> None:
        data = record.model_dump_json(indent=1).encode("utf-8") + b"\n"
        with _record_errors():
            sweep(self._record_path)
            write_bytes_atomic(self._record_path, data)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from filelock import FileLock  # it loads asyncio

        with _record_errors():
            self.folder.mkdir(parents=True, exist_ok=True)
        with waited_for(FileLock(self.folder / "lock", is_singleton=False), self.check):
            yield

    def _use_file(self, image: str) -> Path:
        # It is never removed: another process may have opened it to lock it.
        return self.folder / "uses" / hashlib.sha256(image.encode()).hexdigest()[:16]

    @contextmanager
    def _in_use(self, image: str) -> Iterator[None]:
        path = self._use_file(image)
        with ExitStack() as stack:
            with _record_errors():
                path.parent.mkdir(parents=True, exist_ok=True)
                stream = stack.enter_context(path.open("ab"))
            # Another process may be about to remove the image.
            while not _lock(stream.fileno(), fcntl.LOCK_SH):
                self._wait(self.poll)
            try:
                yield
            finally:
                now = time.time_ns()  # the system's own time of a file is coarser
                with suppress(OSError):
                    os.utime(path, ns=(now, now))

    @contextmanager
    def _idle(self, image: str) -> Iterator[bool]:
        """Yield whether no process uses ``image``; none can begin to meanwhile."""
        with _record_errors():
            stream = self._use_file(image).open("ab")
        with stream:
            yield _lock(stream.fileno(), fcntl.LOCK_EX)

    def _last_use(self, image: str) -> int:
        try:
            return self._use_file(image).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, self.poll))

    def _pull_missing(self, image: str, number: str = "") -> bool:
        """Pull ``image`` if it is missing and there is room; tell whether it is there."""
        if self.holds(image):
            return True
        with self._locked():
            if self.holds(image):
                return True
            record = self._current_record()
            if self.limit is not None and not self._make_room(record, self.limit):
                return False
            self._pull_recorded(record, image, number)
        return True

    def _current_record(self) -> ImageRecord:
        """Return the record with what killed processes pulled, and without what others removed.

        The caller has the lock, so no other process is between the two notes of a pull.
        """
        record = self.read_record()
        with engine_errors():
            for name, image in list(record.images.items()):
                if not holds(self.client, name):
                    del record.images[name]
                elif not image.id:
                    record.images[name] = self._described(record, name)
                elif self._id(name) != image.id:
                    del record.images[name]
        return record

    def _make_room(self, record: ImageRecord, limit: int) -> bool:
        """Remove images until one more of their mean size fits; tell whether it does.

        How many bytes an image adds is known after it was pulled, so the limit is exceeded by at
        most one image. Where there is no other image, there is room.
        """
        for name in sorted(record.images, key=self._last_use):
            if _fits(record, limit):
                return True
            with self._idle(name) as idle:
                if not idle or not self._remove(name, record.images[name]):
                    continue
            del record.images[name]
            self._write_record(record)
            self.say(f"removed image {name}; {self._filled(record)}")
        return _fits(record, limit)

    def _remove(self, name: str, image: PulledImage) -> bool:
        """Remove an image from the engine; return False if something there needs it.

        An image that has another id by now is not ours, and stays.
        """
        from docker.errors import APIError, ImageNotFound

        api = self.client.api
        try:
            with engine_errors():
                if self._id(name) != image.id:
                    return True
                if api.containers(all=True, filters={"ancestor": image.id}):
                    return False
                if any(other.get("ParentId") == image.id for other in api.images(all=True)):
                    return False
                for tag in filter(None, (image.source, name)):
                    api.remove_image(tag, noprune=True)
        except InfrastructureError as error:
            if isinstance(error.__cause__, APIError):
                return isinstance(error.__cause__, ImageNotFound)
            raise
        return True

    def _pull_recorded(self, record: ImageRecord, image: str, number: str) -> None:
        """Pull ``image``, which is missing; the caller has the lock.

        It is recorded before as well: a killed process may leave a complete image. An image that
        was there by another name does not become ours.
        """
        source = mirrored(image, self.prefixes)
        renamed = source != image
        with engine_errors():
            ids_before = {str(other["Id"]) for other in self.client.api.images(all=True)}
            if self.limit is None:
                check_space(self.client, image, self.reserve)
        record.images[image] = PulledImage(source=source if renamed else "")
        self._write_record(record)
        packed = self.registries.size(source)
        size = f" ({in_units(packed)} packed)" if packed else ""
        self.say(f"pull image {number}{source}{size}")
        started = time.monotonic()
        try:
            self._pull_with_retries(source)
            if renamed:
                with engine_errors():
                    self.client.images.get(source).tag(*repository_and_tag(image))
        except BaseException:
            # A failed pull must not make ours what the user pulls later.
            with suppress(InfrastructureError):
                if not self.holds(image):
                    del record.images[image]
                    self._write_record(record)
            raise
        with engine_errors():
            described = self._described(record, image)
        record.images[image] = described
        if described.id in ids_before:
            del record.images[image]
        self._write_record(record)
        seconds = time.monotonic() - started
        unpacked = in_units(sum(described.layers.values()))
        self.say(f"pulled {image}: {unpacked} in {seconds:.0f} s; {self._filled(record)}")

    def _pull_with_retries(self, source: str) -> None:
        failures: Counter[PullFailure] = Counter()
        while True:
            try:
                with engine_errors():
                    pull(self.client, source)
                return
            except PullError as error:
                delays = self.retries.get(error.failure, ())
                if failures[error.failure] >= len(delays):
                    raise
                seconds = delays[failures[error.failure]]
                if error.failure is PullFailure.LIMIT:
                    asked = self.registries.retry_after(source)
                    seconds = seconds if asked is None else asked
                failures[error.failure] += 1
                self.say(f"{one_line(str(error))}; again in {seconds:.0f} s")
            self._wait(seconds)

    def _described(self, record: ImageRecord, name: str) -> PulledImage:
        image_id = self._id(name)
        # The layers of other images stay anyway, so they do not count.
        ours = {image.id for image in record.images.values()} | {image_id}
        layers = dict(self._layers(image_id))
        for other in self.client.api.images():
            if other["Id"] not in ours and LABEL not in (other.get("Labels") or {}):
                for layer in self._layers(str(other["Id"])):
                    layers.pop(layer, None)
        return PulledImage(id=image_id, source=record.images[name].source, layers=layers)

    def _id(self, name: str) -> str:
        return str(self.client.images.get(name).id)

    def _layers(self, image_id: str) -> Mapping[str, int]:
        from docker.errors import APIError, ImageNotFound

        if image_id in self.layers:
            return self.layers[image_id]
        try:
            attributes = self.client.images.get(image_id).attrs
            layers = (attributes.get("RootFS") or {}).get("Layers") or []
            self.layers[image_id] = layer_sizes(layers, self.client.api.history(image_id))
        except ImageNotFound:  # it was removed meanwhile
            return {}
        except APIError:  # Podman 4.3 fails at a step without a time; then nothing counts as shared
            self.layers[image_id] = {image_id: int(attributes.get("Size") or 0)}
        return self.layers[image_id]

    def _filled(self, record: ImageRecord) -> str:
        whole = f" of {in_units(self.limit)}" if self.limit is not None else ""
        return f"images take {in_units(record.size())}{whole}"


def _lock(descriptor: int, kind: int) -> bool:
    """Take a lock of a file until it is closed; return False if another holder prevents it."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _fits(record: ImageRecord, limit: int) -> bool:
    size = record.size()
    count = len(record.images)
    return not count or size + size // count <= limit


def store_folder(client: Any, cache: Path) -> Path:  # noqa: ANN401 - the SDK has no types
    """Return the folder in ``cache`` for the images of the engine of ``client``."""
    with engine_errors():
        about = client.info()
    # Copies of a machine share the engine's id, and Podman makes a new one for each answer.
    engine = f"{about.get('Name')}:{about.get('DockerRootDir')}"
    return cache / "images" / hashlib.sha256(engine.encode()).hexdigest()[:12]


def in_units(size: float) -> str:
    """Return a number of bytes in words: ``1.2 GB``."""
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size / 1e3:.1f} kB"
