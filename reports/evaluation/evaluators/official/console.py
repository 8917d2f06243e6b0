"""The output of an official tool: all of it in a log, its lines as progress."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import IO

from core.output import Tail
from core.plaintext import shortened

_PAUSE = 10.0
_WIDTH = 200
_LONGEST = 1 << 16
_ENDS = re.compile(rb"[\r\n]")


class ConsoleLog(Tail):
    """Writes output to ``stream``, and shows its lines.

    A line that ends with a carriage return is a progress bar's: one in ten seconds is shown.
    """

    def __init__(
        self,
        stream: IO[bytes],
        show: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(head_size=0, tail_size=1 << 16)
        self.last_line = ""
        self._stream, self._show, self._clock = stream, show, clock
        self._rest, self._shown = b"", clock()

    def _add(self, chunk: bytes) -> None:
        super()._add(chunk)
        self._stream.write(chunk)
        self._stream.flush()
        self._rest += chunk
        while match := _ENDS.search(self._rest):
            line, self._rest = self._rest[: match.start()], self._rest[match.end() :]
            self._line(line, bar=match[0] == b"\r")
        self._rest = self._rest[-_LONGEST:]

    def end(self) -> None:
        """Show an unfinished last line."""
        line, self._rest = self._rest, b""
        self._line(line, bar=False)

    def _line(self, raw: bytes, *, bar: bool) -> None:
        line = shortened(raw.decode("utf-8", "replace"), _WIDTH)
        if not line:
            return
        self.last_line = line
        now = self._clock()
        if bar and now - self._shown < _PAUSE:
            return
        self._shown = now
        self._show(line)
