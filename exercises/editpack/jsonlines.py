"""Rows as lines of JSON, written as a stream to a file that appears complete."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from core.atomic import writing_atomic


@contextmanager
def writing_rows(path: Path) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Yield a function that writes a row as a line; the file appears after the block."""
    with writing_atomic(path) as raw, ExitStack() as stack:
        handle: BinaryIO = raw
        if path.suffix == ".gz":
            # Without name and time, so that equal rows give equal bytes.
            packed = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)
            handle = cast(BinaryIO, stack.enter_context(packed))
        yield lambda row: (handle.write(line_of(row)), None)[1]


def line_of(row: Mapping[str, Any]) -> bytes:
    """Return a row as one line of JSON."""
    try:
        return _json(row, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate
        return _json(row, ensure_ascii=True).encode("ascii")


def _json(row: Mapping[str, Any], *, ensure_ascii: bool) -> str:
    try:
        text = json.dumps(row, ensure_ascii=ensure_ascii, default=str, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(row), ensure_ascii=ensure_ascii, default=str)
    return text + "\n"


def _finite(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
