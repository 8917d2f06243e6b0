"""Datasets that come with the project; the entry scripts register them by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Bundled:
    """Where the parts of a bundled dataset come from, as no host serves them.

    Attributes:
        path: the task repository.
        build_mirrors: makes the mirrors of its repositories in a folder, and returns the folder.
        build_images: has the engine hold the images of these instances.
    """

    path: Path
    build_mirrors: Callable[[Path], Path]
    build_images: Callable[[Sequence[str]], None]


BUNDLED: dict[str, Bundled] = {}
"""The registered datasets by name."""
