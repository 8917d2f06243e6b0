"""The images of an engine: pulled when they are needed or ahead, and kept while they are used."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from core.errors import InfrastructureError, StoppedError
from core.plaintext import one_line
from environments.docker.images import PullError, PullFailure, registry_of
from environments.docker.imagestore.access import ImageAccess, in_units
from environments.docker.imagestore.names import mirrored
from environments.docker.imagestore.pulls import (
    before_next_try,
    complete_record,
    paused_seconds,
    pull_recorded,
    wait_for_pause,
)
from environments.docker.imagestore.record import ClaimKind, ImageRecord
from environments.docker.imagestore.recordfile import record_file
from environments.docker.imagestore.room import make_room
from environments.options import ImageOptions


@dataclass(frozen=True)
class ImageStore:
    """Images in one engine."""

    access: ImageAccess

    @contextmanager
    def pinned(self, image: str) -> Iterator[None]:
        """Pull ``image`` if it is missing, and keep it meanwhile; wait for room and pauses.

        Who waits here must have no other image pinned, and nothing that the user of another image
        waits for.

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
        """Claim ``images``."""
        with self.access.file.changed(self.access.check) as record:
            for image in images:
                record.claim(image, self.access.file.owner, kind)

    def release(self, images: Iterable[str], *kinds: ClaimKind) -> None:
        """Give up one claim of each of ``kinds`` on each of ``images``."""
        with self.access.file.changed() as record:
            for image in images:
                record.release(image, self.access.file.owner, *kinds)

    def leave(self) -> None:
        """Give up all claims of this process."""
        with self.access.file.changed() as record:
            record.leave(self.access.file.owner)

    def _used(self, image: str) -> None:
        with self.access.file.changed() as record:
            record.release(image, self.access.file.owner, ClaimKind.USED)
            if image in record.images:
                record.images[image].used = time.time()

    def fetch(self, image: str, *, patient: bool = True, number: str = "") -> bool:
        """Pull ``image`` if it is missing; tell whether it is there.

        Args:
            image: its name.
            patient: wait for room; without, return False where there is none.
            number: says which image of how many it is.

        Raises:
            InfrastructureError: it cannot be pulled.
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
        """Tell whether an image is needed now that is not there."""
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
        """Pull the ``images`` that are missing, one after the other.

        Raises:
            InfrastructureError: one cannot be pulled.
        """
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
        """Tell whether a use of an image is still to come."""
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

    Raises:
        InfrastructureError: the engine failed.
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
