"""The images of an engine: pulled when they are needed or ahead, and kept while they are used."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from core.errors import InfrastructureError, StoppedError
from core.plaintext import one_line
from environments.docker.containers import LABEL
from environments.docker.engine import engine_errors
from environments.docker.images import (
    PullError,
    PullFailure,
    check_space,
    digest,
    holds,
    pull,
    registry_of,
    repository_and_tag,
)
from environments.docker.imagestore.access import ImageAccess, in_units
from environments.docker.imagestore.names import mirrored
from environments.docker.imagestore.record import ClaimKind, ImageRecord, PulledImage, layer_sizes
from environments.docker.imagestore.recordfile import record_file
from environments.options import ImageOptions


@dataclass(frozen=True)
class ImageStore:
    """Images in one engine."""

    access: ImageAccess

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
        found = (image for image in dict.fromkeys(images) if self.access.holds(image))
        wanted = [*islice(found, most)]
        self.claim(wanted, ClaimKind.USED)
        try:
            # Another process may have removed one before it was claimed.
            yield frozenset(filter(self.access.holds, wanted))
        finally:
            for image in wanted:
                self._used(image)

    def claim(self, images: Iterable[str], kind: ClaimKind) -> None:
        with self.access.file.changed(self.access.check) as record:
            for image in images:
                record.claim(image, self.access.file.owner, kind)

    def release(self, images: Iterable[str], *kinds: ClaimKind) -> None:
        with self.access.file.changed() as record:
            for image in images:
                record.release(image, self.access.file.owner, *kinds)

    def leave(self) -> None:
        with self.access.file.changed() as record:
            record.leave(self.access.file.owner)

    def _used(self, image: str) -> None:
        with self.access.file.changed() as record:
            record.release(image, self.access.file.owner, ClaimKind.USED)
            if image in record.images:
                record.images[image].used = time.time()

    def fetch(self, image: str, *, patient: bool = True, number: str = "") -> bool:
        """Pull ``image`` if it is missing; tell whether it is there.

        ``patient`` waits for room. ``number`` says which image of how many it is.
        """
        access, source = self.access, mirrored(image, self.access.prefixes)
        failures, used = Counter[PullFailure](), time.monotonic()
        while not access.holds(image):
            access.check()
            wait_for_pause(access, registry_of(source))
            with access.file.changed(access.check) as record:
                used = time.monotonic() if record.in_use() else used
                if not patient and self._others_wait(record, image):
                    return False
            forced = patient and time.monotonic() - used > access.patience.stuck
            # The turn is not kept while there is no room: who makes room may wait for it.
            with access.file.pulling(access.patience.poll) as turn:
                try:
                    if turn and self._fetch_now(image, source, number, forced=forced):
                        return True
                    seconds = access.patience.poll
                except PullError as error:
                    seconds = before_next_try(access, error, source, failures[error.failure])
                    failures[error.failure] += 1
            if turn and not patient and not failures:
                return False
            if turn:
                access.wait(seconds)
            else:  # another pull is in work, which is a use
                used = time.monotonic()
        return True

    def _others_wait(self, record: ImageRecord, image: str) -> bool:
        return not all(self.access.holds(name) for name in record.wanted() - {image})

    def _fetch_now(self, image: str, source: str, number: str, *, forced: bool) -> bool:
        """Pull an image where that is possible now; tell whether it is there.

        The caller has the turn. Both the engine and the pauses may have changed while others had
        it.
        """
        if self.access.holds(image):
            return True
        if paused_seconds(self.access, registry_of(source)):
            return False
        complete_record(self.access)
        if not make_room(self.access, forced=forced):
            return False
        packed = self.access.registries.size(source)
        words = f"{source} ({in_units(packed)} packed)" if packed else source
        pull_recorded(self.access, image, source, f"{number}{words}")
        return True

    def fetch_all(self, images: Iterable[str]) -> None:
        missing = [image for image in sorted({*images}) if not self.access.holds(image)]
        for number, image in enumerate(missing, 1):
            self.fetch(image, number=f"{number} of {len(missing)}: ")

    def fetch_each(self, images: Iterable[str]) -> dict[str, str]:
        """Pull the ``images`` that are missing; return those that failed, each with the reason.

        A registry that is not reached, or a full disk, gets no further requests.
        """
        wanted, failed, closed = sorted({*images}), dict[str, str](), dict[str, str]()
        for number, image in enumerate(wanted, 1):
            registry = registry_of(mirrored(image, self.access.prefixes))
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
        store = ImageStore(replace(self.access, check=_checks(self.access.check, ended)))
        thread = threading.Thread(target=store._fetch_each, args=(images,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            # The engine gives up a pull whose client is gone.
            thread.join(self.access.patience.poll)
            self.release(images, ClaimKind.AHEAD)

    def _fetch_each(self, images: Sequence[str]) -> None:
        every = [*dict.fromkeys(images)]
        try:
            for number, image in enumerate(every, 1):
                self._fetch_when_possible(image, f"{number} of {len(every)}: ")
        except StoppedError:
            return

    def _fetch_when_possible(self, image: str, number: str) -> None:
        try:
            while self._is_ahead(image) and not self.fetch(image, patient=False, number=number):
                self.access.wait(self.access.patience.poll)
        except InfrastructureError as error:
            self.access.say(f"note: {one_line(str(error))}; it is tried again when it is needed")

    def _is_ahead(self, image: str) -> bool:
        owner = self.access.file.owner
        with self.access.file.changed(self.access.check) as record:
            return any(
                (claim.image, claim.owner, claim.kind) == (image, owner, ClaimKind.AHEAD)
                for claim in record.claims
            )


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
    return ImageStore(ImageAccess(client, file, limit, prefixes, say, check))


def _checks(check: Callable[[], None], ended: threading.Event) -> Callable[[], None]:
    def both() -> None:
        check()
        if ended.is_set():
            raise StoppedError("no more images are needed")

    return both


def complete_record(access: ImageAccess) -> None:
    """Add what killed processes had pulled to the record, and take out what others removed.

    The caller has the turn to pull, so no other process is between the two notes of a pull.
    """
    with access.file.changed(access.check) as record, engine_errors():
        for name, image in [*record.images.items()]:
            if not holds(access.client, name):
                del record.images[name]
            elif not image.complete:
                record.images[name] = _described(access, record, name)
            elif str(access.client.images.get(name).id) != image.id:
                del record.images[name]


def pull_recorded(access: ImageAccess, image: str, source: str, words: str) -> None:
    """Pull ``image``, which is missing, by the name ``source``; the caller has the turn to pull.

    It is recorded before as well: a killed process may leave a complete image. An image that was
    there by another name does not become ours.
    """
    own = "" if source == image else source
    with engine_errors():
        before = {str(found["Id"]) for found in access.client.api.images(all=True)}
        if access.limit is None:
            check_space(access.client, image, access.reserve)
    with access.file.changed(access.check) as record:
        record.images[image] = PulledImage(source=own)
    access.say(f"pull image {words}")
    started = time.monotonic()
    try:
        with engine_errors():
            pull(access.client, source)
            if own:
                access.client.images.get(source).tag(*repository_and_tag(image))
    except BaseException:
        # A failed pull must not make ours what the user pulls later.
        with suppress(InfrastructureError), access.file.changed() as record:
            if not access.holds(image):
                del record.images[image]
        raise
    with access.file.changed() as record, engine_errors():
        described = record.images[image] = _described(access, record, image)
        if described.id in before:
            del record.images[image]
        filled = access.filled(record)
    size = in_units(sum(described.layers.values()))
    access.say(f"pulled {image}: {size} in {time.monotonic() - started:.0f} s; {filled}")


def _described(access: ImageAccess, record: ImageRecord, name: str) -> PulledImage:
    """Return the record of an image that was pulled; layers of the images of others stay anyway."""
    client = access.client
    ours = {image.id for image in record.images.values()} | {str(client.images.get(name).id)}
    others = [
        str(found["Id"])
        for found in client.api.images()
        if found["Id"] not in ours and LABEL not in (found.get("Labels") or {})
    ]
    theirs = {layer for image in others for layer in _layers(access, image)}
    layers = _layers(access, str(client.images.get(name).id))
    return PulledImage(
        complete=True,
        id=str(client.images.get(name).id),
        digest=digest(client, name),
        source=record.images[name].source,
        pulled=time.time(),
        layers={layer: size for layer, size in layers.items() if layer not in theirs},
    )


def _layers(access: ImageAccess, image_id: str) -> Mapping[str, int]:
    """Return the bytes of an image's layers; empty if it was removed meanwhile."""
    from docker.errors import ImageNotFound

    if image_id not in access.layers:
        try:
            access.layers[image_id] = _asked_layers(access, image_id)
        except ImageNotFound:
            return {}
    return access.layers[image_id]


def _asked_layers(access: ImageAccess, image_id: str) -> Mapping[str, int]:
    from docker.errors import APIError

    found = access.client.images.get(image_id).attrs
    diff_ids = (found.get("RootFS") or {}).get("Layers") or []
    try:
        return layer_sizes(diff_ids, access.client.api.history(image_id))
    except APIError:  # Podman 4.3 fails at a step without a time; then nothing counts as shared
        return {image_id: int(found.get("Size") or 0)}


def before_next_try(access: ImageAccess, error: PullError, source: str, tries: int) -> float:
    """Return the seconds until ``source`` is pulled again; a rate limit pauses all processes."""
    if error.failure is PullFailure.LIMIT:
        _pause(access, error, source, tries)
        return 0.0
    if error.failure is not PullFailure.BROKEN or tries >= len(access.patience.retries):
        raise error
    seconds = access.patience.retries[tries]
    access.say(f"{one_line(str(error))}; again in {seconds:.0f} s")
    return seconds


def _pause(access: ImageAccess, error: PullError, source: str, tries: int) -> None:
    first, longest = access.patience.paused
    asked, registry = access.registries.retry_after(source), registry_of(source)
    seconds = min(first * 2**tries, longest) if asked is None else asked
    with access.file.changed(access.check) as record:
        until = max(time.time() + seconds, record.paused.get(registry, 0.0))
        record.paused[registry] = until
    access.say(f"{one_line(str(error))}; no pulls from {registry} for {seconds:.0f} s")


def wait_for_pause(access: ImageAccess, registry: str) -> None:
    while (left := paused_seconds(access, registry)) > 0:
        access.wait(min(left, access.patience.poll))


def paused_seconds(access: ImageAccess, registry: str) -> float:
    with access.file.changed(access.check) as record:
        return max(record.paused.get(registry, 0.0) - time.time(), 0.0)


def make_room(access: ImageAccess, *, forced: bool) -> bool:
    """Remove images until one more of their mean size fits; tell whether it does.

    The caller has the turn to pull. How many bytes an image adds is known after it was pulled, so
    the limit is exceeded by at most one image. Where there is no other image, there is room.
    """
    if access.limit is None:
        return True
    with access.file.changed(access.check) as record:
        return _fits(access, record) or _remove_oldest(access, record, forced=forced)


def _fits(access: ImageAccess, record: ImageRecord) -> bool:
    size, count = record.size(), len(record.images)
    return not count or size + size // count <= (access.limit or 0)


def _remove_oldest(access: ImageAccess, record: ImageRecord, *, forced: bool) -> bool:
    for name in record.removable(time.time(), forced=forced):
        if _remove(access.client, name, record.images[name]):
            del record.images[name]
            access.say(f"removed image {name}; {access.filled(record)}")
        if _fits(access, record):
            return True
    return False


def _remove(client: Any, name: str, image: PulledImage) -> bool:  # noqa: ANN401 - no types
    """Remove an image from the engine; return False if something there needs it.

    An image that has another id by now is not ours, and stays.
    """
    from docker.errors import APIError, ImageNotFound

    try:
        with engine_errors():
            if str(client.images.get(name).id) != image.id:
                return True
            if _is_needed(client, image.id):
                return False
            for tag in filter(None, (image.source, name)):
                client.api.remove_image(tag, noprune=True)
    except InfrastructureError as error:
        if isinstance(error.__cause__, APIError):
            return isinstance(error.__cause__, ImageNotFound)
        raise
    return True


def _is_needed(client: Any, image_id: str) -> bool:  # noqa: ANN401
    if client.api.containers(all=True, filters={"ancestor": image_id}):
        return True
    return any(found.get("ParentId") == image_id for found in client.api.images(all=True))
