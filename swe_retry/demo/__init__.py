"""The dataset ``demo``: three tiny repositories with instances and scripted replies."""

from __future__ import annotations

from swe_retry.demo.images import build_images
from swe_retry.demo.setup import DEMO_DATASET, build_mirrors
from swe_retry.repositories.names import BUNDLED, Bundled


def register() -> None:
    """Let ``--dataset demo`` name the bundled instances."""
    BUNDLED["demo"] = Bundled(DEMO_DATASET, build_mirrors, build_images)
