"""Standard streams whose reader may leave, as of ``| head``."""

from __future__ import annotations

import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any


class _Output(FileIO):
    """Standard output whose reader may leave: the work goes on without it."""

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        try:
            return super().write(data)
        except BrokenPipeError:
            return len(data)


def survive_readers() -> None:
    """Replace the standard streams by such that outlive their readers."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None or stream is not getattr(sys, f"__{name}__"):
            continue
        buffer: Any = _Output(number, "wb", closefd=False)
        if not stream.write_through:  # as with `python -u`
            buffer = BufferedWriter(buffer)
        text = TextIOWrapper(
            buffer,
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        setattr(sys, name, text)
