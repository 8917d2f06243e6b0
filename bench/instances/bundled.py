"""Datasets that come with the project; the entry scripts register them by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Bundled:
    """The parts of a bundled dataset, which no host serves."""

    path: Path
    build_mirrors: Callable[[Path], Path]
    build_images: Callable[[Sequence[str]], None]


BUNDLED: dict[str, Bundled] = {}
"""The registered datasets by name."""
