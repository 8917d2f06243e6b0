"""Writes that are whole or not there at all."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

UNFINISHED = ".tmp"
"""How the name of a file ends that is being written; one that a killed process left is litter."""


def write_bytes_atomic(path: Path, data: bytes) -> None:
    """Write ``data`` to a temporary name beside ``path``, flush it to disk and rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.name[:80]}.", suffix=UNFINISHED
    )
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text_atomic(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8, atomically; lone surrogates (odd file names) survive as escapes."""
    write_bytes_atomic(path, text.encode("utf-8", "backslashreplace"))


def write_json_atomic(path: Path, value: Any) -> None:  # noqa: ANN401 - whatever json takes
    """Write ``value`` as readable JSON with a final newline, atomically."""
    write_text_atomic(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")
