"""Remove containers, images and processes of a crashed run, and no others."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from swe_retry.environments.docker.engine import engine_errors
from swe_retry.environments.docker.environment import INSTALLED, label_of
from swe_retry.environments.programs import is_below


def remove_containers(client: Any, run_key: str) -> list[str]:  # noqa: ANN401 - no types
    """Remove the containers of the run ``run_key`` with their volumes, and the images it made.

    Pulled images stay for the next run.
    """
    if not run_key:
        raise ValueError("a run has a key")
    from docker.errors import ImageNotFound

    ((name, value),) = label_of(run_key).items()
    ours = {"label": f"{name}={value}"}
    with engine_errors():
        containers = _remove(client.containers.list(all=True, filters=ours))
        images = client.images.list(filters=ours)
        for image in images:
            with contextlib.suppress(ImageNotFound):
                client.images.remove(image.id, force=True, noprune=True)
    removed = [f"container {name}" for name in containers]
    return sorted(removed + [f"image {image.short_id}" for image in images])


@dataclass(frozen=True)
class InstalledImage:
    """An image with an installed project, with its size in bytes."""

    name: str
    created: datetime
    size: int

    def describe(self, now: datetime) -> str:
        days = (now - self.created).days
        return f"{self.name} ({days} days old, {self.size / 1e6:,.0f} MB)"


def installed_images(client: Any) -> list[InstalledImage]:  # noqa: ANN401
    """Return the images with an installed project, the oldest first."""
    images = []
    with engine_errors():
        for image in client.images.list(name=INSTALLED):
            created = datetime.fromisoformat(image.attrs["Created"][:19] + "+00:00")
            size = image.attrs["Size"]
            images += [InstalledImage(name, created, size) for name in image.tags]
    return sorted(images, key=lambda image: image.created)


def remove_images(client: Any, images: Sequence[InstalledImage]) -> None:  # noqa: ANN401
    from docker.errors import ImageNotFound

    with engine_errors():
        for image in images:
            with contextlib.suppress(ImageNotFound):
                client.images.remove(image.name)


def remove_named(client: Any, names: re.Pattern[str]) -> list[str]:  # noqa: ANN401
    """Remove the containers whose full names match ``names``, with volumes; return their names."""
    return _remove_where(client, lambda container: names.fullmatch(container.name))


def remove_mounted(client: Any, folders: Sequence[Path]) -> list[str]:  # noqa: ANN401
    """Remove the containers that have anything below ``folders`` mounted; return their names."""

    def mounts(container: Any) -> bool:  # noqa: ANN401
        for mount in container.attrs.get("Mounts") or ():
            if is_below(Path(str(mount.get("Source"))), folders):
                return True
        return False

    return _remove_where(client, mounts)


def _remove_where(client: Any, unwanted: Callable[[Any], object]) -> list[str]:  # noqa: ANN401
    with engine_errors():
        containers = client.containers.list(all=True, ignore_removed=True)
        unwanted_containers = list(filter(unwanted, containers))
        return _remove(unwanted_containers)


def _remove(containers: list[Any]) -> list[str]:
    from docker.errors import NotFound

    for container in containers:
        with contextlib.suppress(NotFound):
            container.remove(force=True, v=True)
    return sorted(container.name for container in containers)
