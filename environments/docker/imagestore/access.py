"""What all work with the images of an engine needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from environments.docker.engine import engine_errors
from environments.docker.images import RESERVE, holds
from environments.docker.imagestore.names import ImagePrefix
from environments.docker.imagestore.record import ImageRecord
from environments.docker.imagestore.recordfile import RecordFile
from environments.docker.registries import Registries

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
class ImageAccess:
    """An engine, the record of the images that were pulled, and the limits.

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

    def holds(self, image: str) -> bool:
        with engine_errors():
            return holds(self.client, image)

    def wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, self.patience.poll))

    def filled(self, record: ImageRecord) -> str:
        whole = f" of {in_units(self.limit)}" if self.limit is not None else ""
        return f"images take {in_units(record.size())}{whole}"


def in_units(size: float) -> str:
    """Return a number of bytes in words: ``1.2 GB``."""
    unit, name = next(((u, n) for u, n in _UNITS if size >= u), _UNITS[-1])
    return f"{size / unit:.1f} {name}"
