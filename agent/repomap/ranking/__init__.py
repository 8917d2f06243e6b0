"""Rank files and definitions with numpy, which is loaded here with one thread."""

from __future__ import annotations

import os


def _load_numpy() -> None:
    """Let numpy, where it is first imported here, load its BLAS with one thread.

    BLAS starts a thread for every core otherwise, which takes a quarter of the time of a map whose
    tags are cached, and the map multiplies no matrices. The environment is left as it was.
    """
    before = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = before or "1"
    try:
        import numpy  # noqa: F401
    finally:
        if before is None:
            del os.environ["OPENBLAS_NUM_THREADS"]


_load_numpy()
