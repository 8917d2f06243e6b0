"""The files of a chart."""

from __future__ import annotations

from pathlib import Path

from swe_retry.kit import Picture, write_bytes_atomic, write_text_atomic


def write_chart(picture: Picture, path: Path) -> list[Path]:
    """Write ``.png``, or ``.svg`` with ``-dark.svg`` beside it, and return the paths."""
    if path.suffix == ".png":
        write_bytes_atomic(path, picture.png)
        return [path]
    dark = path.with_name(f"{path.stem}-dark.svg")
    write_text_atomic(path, picture.light)
    write_text_atomic(dark, picture.dark)
    return [path, dark]
