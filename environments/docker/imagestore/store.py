"""The images of an engine: pulled when they are needed or ahead, and kept while they are used."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from core.errors import InfrastructureError, StoppedError
from core.plaintext import one_line
from environments.docker.containers import LABEL
from environments.docker.engine import engine_errors
from environments.docker.images import (
    RESERVE,
    ImagePrefix,
    PullError,
    PullFailure,
    check_space,
    digest,
    holds,
    mirrored,
    pull,
    registry_of,
    repository_and_tag,
)
from environments.docker.imagestore.record import (
    ClaimKind,
    ImageRecord,
    PulledImage,
    RecordFile,
    layer_sizes,
    record_file,
)
from environments.docker.registries import Registries
from environments.options import ImageOptions

_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


@dataclass(frozen=True)
class Patience:
    """Seconds between looks and requests.

    Attributes:
        poll: between two looks for room, or for the end of a pause.
        stuck: without any use, after which images that are only expected to be used are removed.
        retries: before each further try after an error of a registry.
        paused: the first and the longest pause at a rate limit of which a registry says no more.
    """

    poll: float = 0.5
    stuck: float = 15.0
    retries: tuple[float, ...] = (2.0, 10.0, 30.0)
    paused: tuple[float, float] = (60.0, 900.0)


@dataclass(frozen=True)
class ImageStore:
    """Images in one engine: a record of those that were pulled, and the limits.

    Attributes:
        limit: bytes of all pulled images; None for no limit.
        prefixes: of mirrors.
        say: takes a line for each pull, removal and pause.
        check: raises when the run stops.
        reserve: bytes that stay free on the engine's disk where there is no limit.
        layers: bytes of the layers of images that were looked at, by the images' ids.
    """

    client: Any
    file: RecordFile
    limit: int | None = None
    prefixes: Sequence[ImagePrefix] = ()
    say: Callable[[str], None] = lambda _: None
    check: Callable[[], None] = lambda: None
    registries: Registries = field(default_factory=Registries)
    patience: Patience = field(default_factory=Patience)
    reserve: int = RESERVE
    layers: dict[str, Mapping[str, int]] = field(default_factory=dict)

    @contextmanager
    def pinned(self, image: str) -> Iterator[None]:
        """Pull ``image`` if it is missing and keep it meanwhile; wait for room and pauses.

        Do not call this while you pin another image or hold anything that a user of another image
        waits for: it can deadlock.

        Raises:
            InfrastructureError: it cannot be pulled.
        """
        self.claim([image], ClaimKind.USED)
        try:
            self.fetch(image)
            yield
        finally:
            self._used(image)

    @contextmanager
    def pinned_present(self, images: Iterable[str], most: int) -> Iterator[frozenset[str]]:
        """Keep ``most`` of the ``images`` that are there, and yield them; pull nothing."""
        found = (image for image in dict.fromkeys(images) if self.holds(image))
        wanted = [*islice(found, most)]
        self.claim(wanted, ClaimKind.USED)
        try:
            # Another process may have removed one before it was claimed.
            yield frozenset(filter(self.holds, wanted))
        finally:
            for image in wanted:
                self._used(image)

    def claim(self, images: Iterable[str], kind: ClaimKind) -> None:
        with self.file.changed(self.check) as record:
            for image in images:
                record.claim(image, self.file.owner, kind)

    def release(self, images: Iterable[str], *kinds: ClaimKind) -> None:
        with self.file.changed() as record:
            for image in images:
                record.release(image, self.file.owner, *kinds)

    def leave(self) -> None:
        with self.file.changed() as record:
            record.leave(self.file.owner)

    def _used(self, image: str) -> None:
        with self.file.changed() as record:
            record.release(image, self.file.owner, ClaimKind.USED)
            if image in record.images:
                record.images[image].used = time.time()

    def fetch(self, image: str, *, patient: bool = True, number: str = "") -> bool:
        """Pull ``image`` if it is missing; tell whether it is there.

        ``patient`` waits for room. ``number`` says which image of how many it is.
        """
        source = mirrored(image, self.prefixes)
        failures, used = Counter[PullFailure](), time.monotonic()
        while not self.holds(image):
            self.check()
            while (left := self._paused_seconds(registry_of(source))) > 0:
                self._wait(min(left, self.patience.poll))
            with self.file.changed(self.check) as record:
                used = time.monotonic() if record.in_use() else used
                others = record.wanted() - {image}
            if not patient and not all(map(self.holds, others)):
                return False
            forced = patient and time.monotonic() - used > self.patience.stuck
            # The turn is not kept while there is no room: who makes room may wait for it.
            with self.file.pulling(self.patience.poll) as turn:
                try:
                    if turn and self._fetch_now(image, source, number, forced=forced):
                        return True
                    seconds = self.patience.poll
                except PullError as error:
                    seconds = self._before_next_try(error, source, failures[error.failure])
                    failures[error.failure] += 1
            if turn and not patient and not failures:
                return False
            if turn:
                self._wait(seconds)
            else:  # another pull is in work, which is a use
                used = time.monotonic()
        return True

    def _fetch_now(self, image: str, source: str, number: str, *, forced: bool) -> bool:
        # The caller has the turn. The engine and the pauses may have changed while others had it.
        if self.holds(image):
            return True
        if self._paused_seconds(registry_of(source)):
            return False
        self._complete_record()
        if not self._make_room(forced=forced):
            return False
        packed = self.registries.size(source)
        words = f"{source} ({in_units(packed)} packed)" if packed else source
        self._pull_recorded(image, source, f"{number}{words}")
        return True

    def fetch_all(self, images: Iterable[str]) -> None:
        missing = [image for image in sorted({*images}) if not self.holds(image)]
        for number, image in enumerate(missing, 1):
            self.fetch(image, number=f"{number} of {len(missing)}: ")

    def fetch_each(self, images: Iterable[str]) -> dict[str, str]:
        """Pull the ``images`` that are missing; return those that failed, each with the reason.

        A registry that is not reached, or a full disk, gets no further requests.
        """
        wanted, failed, closed = sorted({*images}), dict[str, str](), dict[str, str]()
        for number, image in enumerate(wanted, 1):
            registry = registry_of(mirrored(image, self.prefixes))
            if registry in closed:
                failed[image] = f"not pulled after this: {closed[registry]}"
                continue
            try:
                self.fetch(image, number=f"{number} of {len(wanted)}: ")
            except InfrastructureError as error:
                failed[image] = str(error)
                if getattr(error, "failure", None) is not PullFailure.NONE:
                    closed[registry] = str(error)
        return failed

    @contextmanager
    def fetching_ahead(self, images: Sequence[str]) -> Iterator[None]:
        """Pull ``images`` meanwhile, in this order, where there is room; one for each use.

        What cannot be pulled is tried again, and reported, when it is needed.
        """
        self.claim(images, ClaimKind.AHEAD)
        ended = threading.Event()

        def check() -> None:
            self.check()
            if ended.is_set():
                raise StoppedError("no more images are needed")

        store = replace(self, check=check)
        thread = threading.Thread(target=store._fetch_each, args=(images,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            # The engine gives up a pull whose client is gone.
            thread.join(self.patience.poll)
            self.release(images, ClaimKind.AHEAD)

    def _fetch_each(self, images: Sequence[str]) -> None:
        every = [*dict.fromkeys(images)]
        try:
            for number, image in enumerate(every, 1):
                words = f"{number} of {len(every)}: "
                try:
                    while self._is_ahead(image) and not self.fetch(
                        image, patient=False, number=words
                    ):
                        self._wait(self.patience.poll)
                except InfrastructureError as error:
                    self.say(f"note: {one_line(str(error))}; it is tried again when it is needed")
        except StoppedError:
            return

    def _is_ahead(self, image: str) -> bool:
        with self.file.changed(self.check) as record:
            return record.has(image, self.file.owner, ClaimKind.AHEAD)

    def holds(self, image: str) -> bool:
        with engine_errors():
            return holds(self.client, image)

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, self.patience.poll))

    def _filled(self, record: ImageRecord) -> str:
        whole = f" of {in_units(self.limit)}" if self.limit is not None else ""
        return f"images take {in_units(record.size())}{whole}"

    def _complete_record(self) -> None:
        """Add what killed processes had pulled to the record, and take out what others removed.

        The caller has the turn to pull, so no other process is between the two notes of a pull.
        """
        with self.file.changed(self.check) as record, engine_errors():
            for name, image in [*record.images.items()]:
                if not holds(self.client, name):
                    del record.images[name]
                elif not image.complete:
                    record.images[name] = self._described(record, name)
                elif str(self.client.images.get(name).id) != image.id:
                    del record.images[name]

    def _pull_recorded(self, image: str, source: str, words: str) -> None:
        """Pull ``image``, which is missing, by the name ``source``; the caller has the turn.

        It is recorded before as well: a killed process may leave a complete image. An image that
        was there by another name does not become ours.
        """
        own = "" if source == image else source
        with engine_errors():
            before = {str(found["Id"]) for found in self.client.api.images(all=True)}
            if self.limit is None:
                check_space(self.client, image, self.reserve)
        with self.file.changed(self.check) as record:
            record.images[image] = PulledImage(source=own)
        self.say(f"pull image {words}")
        started = time.monotonic()
        try:
            with engine_errors():
                pull(self.client, source)
                if own:
                    self.client.images.get(source).tag(*repository_and_tag(image))
        except BaseException:
            # A failed pull must not make ours what the user pulls later.
            with suppress(InfrastructureError), self.file.changed() as record:
                if not self.holds(image):
                    del record.images[image]
            raise
        with self.file.changed() as record, engine_errors():
            described = record.images[image] = self._described(record, image)
            if described.id in before:
                del record.images[image]
            filled = self._filled(record)
        size = in_units(sum(described.layers.values()))
        self.say(f"pulled {image}: {size} in {time.monotonic() - started:.0f} s; {filled}")

    def _described(self, record: ImageRecord, name: str) -> PulledImage:
        client = self.client
        # The layers of other images stay anyway, so they do not count.
        ours = {image.id for image in record.images.values()} | {str(client.images.get(name).id)}
        others = [
            str(found["Id"])
            for found in client.api.images()
            if found["Id"] not in ours and LABEL not in (found.get("Labels") or {})
        ]
        theirs = {layer for image in others for layer in self._layers(image)}
        layers = self._layers(str(client.images.get(name).id))
        return PulledImage(
            complete=True,
            id=str(client.images.get(name).id),
            digest=digest(client, name),
            source=record.images[name].source,
            pulled=time.time(),
            layers={layer: size for layer, size in layers.items() if layer not in theirs},
        )

    def _layers(self, image_id: str) -> Mapping[str, int]:
        from docker.errors import APIError, ImageNotFound

        if image_id in self.layers:
            return self.layers[image_id]
        try:
            found = self.client.images.get(image_id).attrs
            layers = (found.get("RootFS") or {}).get("Layers") or []
            self.layers[image_id] = layer_sizes(layers, self.client.api.history(image_id))
        except ImageNotFound:  # it was removed meanwhile
            return {}
        except APIError:  # Podman 4.3 fails at a step without a time; then nothing counts as shared
            self.layers[image_id] = {image_id: int(found.get("Size") or 0)}
        return self.layers[image_id]

    def _before_next_try(self, error: PullError, source: str, tries: int) -> float:
        if error.failure is PullFailure.LIMIT:  # pauses all processes
            first, longest = self.patience.paused
            asked, registry = self.registries.retry_after(source), registry_of(source)
            seconds = min(first * 2**tries, longest) if asked is None else asked
            with self.file.changed(self.check) as record:
                until = max(time.time() + seconds, record.paused.get(registry, 0.0))
                record.paused[registry] = until
            self.say(f"{one_line(str(error))}; no pulls from {registry} for {seconds:.0f} s")
            return 0.0
        if error.failure is not PullFailure.BROKEN or tries >= len(self.patience.retries):
            raise error
        seconds = self.patience.retries[tries]
        self.say(f"{one_line(str(error))}; again in {seconds:.0f} s")
        return seconds

    def _paused_seconds(self, registry: str) -> float:
        with self.file.changed(self.check) as record:
            return max(record.paused.get(registry, 0.0) - time.time(), 0.0)

    def _make_room(self, *, forced: bool) -> bool:
        """Remove images until one more of their mean size fits; tell whether it does.

        The caller has the turn to pull. How many bytes an image adds is known after it was pulled,
        so the limit is exceeded by at most one image. Where there is no other image, there is room.
        """
        if self.limit is None:
            return True
        with self.file.changed(self.check) as record:
            for name in record.removable(time.time(), forced=forced):
                if self._fits(record):
                    return True
                if self._remove(name, record.images[name]):
                    del record.images[name]
                    self.say(f"removed image {name}; {self._filled(record)}")
            return self._fits(record)

    def _fits(self, record: ImageRecord) -> bool:
        size, count = record.size(), len(record.images)
        return not count or size + size // count <= (self.limit or 0)

    def _remove(self, name: str, image: PulledImage) -> bool:
        """Remove an image from the engine; return False if something there needs it.

        An image that has another id by now is not ours, and stays.
        """
        from docker.errors import APIError, ImageNotFound

        api = self.client.api
        try:
            with engine_errors():
                if str(self.client.images.get(name).id) != image.id:
                    return True
                if api.containers(all=True, filters={"ancestor": image.id}):
                    return False
                if any(found.get("ParentId") == image.id for found in api.images(all=True)):
                    return False
                for tag in filter(None, (image.source, name)):
                    api.remove_image(tag, noprune=True)
        except InfrastructureError as error:
            if isinstance(error.__cause__, APIError):
                return isinstance(error.__cause__, ImageNotFound)
            raise
        return True


def make_image_store(
    client: Any,  # noqa: ANN401 - the SDK has no types
    cache: Path,
    options: ImageOptions,
    owner: str,
    say: Callable[[str], None],
    check: Callable[[], None] = lambda: None,
) -> ImageStore:
    """Return the images of the engine of ``client``, whose record lies in ``cache``.

    ``owner`` names what this process works on; ``check`` raises when that stops.
    """
    file = record_file(client, cache, owner)
    limit, prefixes = options.image_disk, options.image_prefix
    return ImageStore(client, file, limit, prefixes, say, check)


def in_units(size: float) -> str:
    """Return a number of bytes in words: ``1.2 GB``."""
    unit, name = next(((u, n) for u, n in _UNITS if size >= u), _UNITS[-1])
    return f"{size / unit:.1f} {name}"
