"""Pull one image: record it, try again after errors, and pause at a registry's rate limit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

from core.errors import InfrastructureError
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
from environments.docker.imagestore.record import ImageRecord, PulledImage, layer_sizes


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

    Raises:
        PullError: it cannot be pulled.
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
    """Return the seconds until ``source`` is pulled again; a rate limit pauses all processes.

    Raises:
        PullError: another try is of no use.
    """
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
    """Wait while any process has paused pulls from ``registry``."""
    while (left := paused_seconds(access, registry)) > 0:
        access.wait(min(left, access.patience.poll))


def paused_seconds(access: ImageAccess, registry: str) -> float:
    """Return for how long pulls from ``registry`` are paused; 0 where they are not."""
    with access.file.changed(access.check) as record:
        return max(record.paused.get(registry, 0.0) - time.time(), 0.0)
