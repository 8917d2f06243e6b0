"""Make room for an image: remove pulled images that nobody needs, the oldest first."""

from __future__ import annotations

import time
from typing import Any

from core.errors import InfrastructureError
from environments.docker.engine import engine_errors
from environments.docker.imagestore.access import ImageAccess
from environments.docker.imagestore.record import ImageRecord, PulledImage


def make_room(access: ImageAccess, *, forced: bool) -> bool:
    """Remove images until one more of their mean size fits; tell whether it does.

    The caller has the turn to pull. How many bytes an image adds is known after it was pulled, so
    the limit is exceeded by at most one image. Where there is no other image, there is room.

    Args:
        access: to the engine.
        forced: also remove images that are only expected to be used.
    """
    if access.limit is None:
        return True
    with access.file.changed(access.check) as record:
        return _fits(access, record) or _remove_oldest(access, record, forced=forced)


def _fits(access: ImageAccess, record: ImageRecord) -> bool:
    size, count = record.size(), len(record.images)
    return not count or size + size // count <= (access.limit or 0)


def _remove_oldest(access: ImageAccess, record: ImageRecord, *, forced: bool) -> bool:
    """Remove what nobody needs until the rest fits; tell whether it does."""
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
    """Tell whether a container, also a stopped one, or another image is made of an image.

    The engine would remove the name of an image with such children, and keep its layers.
    """
    if client.api.containers(all=True, filters={"ancestor": image_id}):
        return True
    return any(found.get("ParentId") == image_id for found in client.api.images(all=True))
