"""Load numpy without the threads that it would start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_VARIABLE = "OPENBLAS_NUM_THREADS"


@contextmanager
def one_thread() -> Iterator[None]:
    """Let numpy, when it is first imported inside, load its BLAS with one thread.

    It starts one for every core otherwise, which takes a quarter of a map whose tags are cached,
    and the map multiplies no matrices. The environment is left as it was.
    """
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = before or "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
