"""Show a run: on a terminal a tqdm bar with a line per running instance, else plain lines."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable
from decimal import Decimal
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TextIO, cast

from tqdm import tqdm

from swe_retry.core.plaintext import Say, one_line
from swe_retry.runner.progress.state import ProgressState, headline, running_lines


class Spoken(io.TextIOBase):
    """A stream that passes its lines to ``say``."""

    encoding = "utf-8"

    def __init__(self, say: Say) -> None:
        super().__init__()
        self._say = say

    def write(self, text: str) -> int:
        """Pass on ``text``, which is a whole line."""
        self._say(text.removesuffix("\n"))
        return len(text)


def stream_of(say: Say) -> TextIO:
    """Return standard output where ``say`` is ``print``, else a stream that calls ``say``."""
    if say is print:
        return sys.stdout
    return cast(TextIO, Spoken(say))


_EVERY = 0.5
_CLOSING = 5.0
# For terminals without a size, as on some build servers.
_USUAL_SIZE = os.terminal_size((80, 24))
_ERASE_BELOW = "\r\x1b[J"


class Display:
    """A context manager that writes a line per finished instance and per note.

    Its methods may be called from any thread. Text may come from models and repositories, so
    control characters are removed. When the stream can no longer be written to, the display is
    silent and the run continues.
    """

    def __init__(self, stream: TextIO, progress: ProgressState) -> None:
        self._stream = stream
        self.progress = progress

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def note_finished(self, key: str, status: str, reason: str, cost: str) -> None:
        """Note the end of a job, and write ``[3/300] key: status; reason; cost``."""
        progress = self.progress
        number = progress.note_end(key, status)
        description = progress.descriptions.get(key, key)
        outcome = "; ".join(filter(None, [status, reason, cost]))
        self.note(f"[{number}/{progress.total}] {description}: {outcome}")

    def note(self, text: str) -> None:
        """Write a line, as a warning; safe in a signal handler."""
        with contextlib.suppress(OSError, ValueError):
            # In one write: lines of several threads must not mix.
            self._stream.write(_encodable(one_line(text), self._stream) + "\n")
            self._stream.flush()

    def note_retry(self, line: str) -> None:
        """Show why a call is repeated, in a line of its own."""
        self.note(line)

    def close(self) -> None:
        """Write pending lines and clear the bars; safe to call twice."""


def make_display(
    stream: TextIO,
    progress: ProgressState,
    spent: Callable[[], tuple[Decimal | None, Decimal | None]],
    every: float = _EVERY,
) -> Display:
    """Return the display for ``stream``: with bars on a terminal, unless it is a dumb one.

    Args:
        stream: receives all output.
        progress: is shown.
        spent: returns the dollars of the run so far: those that are due, and at most; None is
            unknown.
        every: seconds from one drawing to the next.
    """
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        return TerminalDisplay(stream, progress, spent, every)
    return Display(stream, progress)


class TerminalDisplay(Display):
    """The bar, with running instances below it and finished ones above.

    Only one thread writes to the terminal, so that an interrupt cannot break a line.
    """

    def __init__(
        self,
        stream: TextIO,
        progress: ProgressState,
        spent: Callable[[], tuple[Decimal | None, Decimal | None]],
        every: float,
    ) -> None:
        super().__init__(stream, progress)
        self._spent = spent
        self._every = every
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._stop = Event()
        self._thread = Thread(target=self._show, name="display", daemon=True)
        self._bars: list[_Bar] = []
        self._size = _USUAL_SIZE

    def __enter__(self) -> TerminalDisplay:
        self._thread.start()
        return self

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSING)

    def note_retry(self, line: str) -> None:
        self.progress.note_retry(line)

    def note(self, text: str) -> None:
        self._lines.put(one_line(text))

    def _show(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone
            try:
                while not self._stop.wait(self._every):
                    self._draw()
                self._draw()
            finally:
                self._close_bars()

    def _draw(self) -> None:
        size = _size(self._stream)
        if size != self._size:
            self._close_bars()
            self._stream.write(
                _ERASE_BELOW
            )  # lines that the terminal has wrapped or cut
            self._size = size
        with contextlib.suppress(Empty):
            while True:
                line = _encodable(self._lines.get_nowait(), self._stream)
                _Bar.write(line, file=self._stream)
        seen = self.progress.snapshot(*self._spent())
        running = running_lines(seen, size.lines, size.columns, self.progress.more())
        texts = [headline(seen), *running]
        while len(self._bars) > len(texts):
            self._bars.pop().close()
        for position, text in enumerate(texts):
            if position == len(self._bars):
                bar = _bar(self._stream, position, seen.total, self._size)
                self._bars.append(bar)
            bar = self._bars[position]
            bar.n = seen.done
            bar.set_description_str(_encodable(text, self._stream), refresh=False)
            bar.refresh()
        self._stream.flush()

    def _close_bars(self) -> None:
        while self._bars:
            self._bars.pop().close()
        self._stream.flush()


class _Bar(tqdm):  # type: ignore[type-arg]
    monitor_interval = 0  # no thread that refreshes as well


def _bar(stream: TextIO, position: int, total: int, size: os.terminal_size) -> _Bar:
    return _Bar(
        total=total,
        file=stream,
        position=position,
        leave=False,
        disable=False,
        ncols=max(size.columns - 1, 1),
        # tqdm hides lines below this height; ours are cut to it already.
        nrows=size.lines + 2,
        bar_format="{desc}" if position else "{desc} {bar}",
    )


def _size(stream: TextIO) -> os.terminal_size:
    with contextlib.suppress(OSError, ValueError):
        size = os.get_terminal_size(stream.fileno())
        if size.columns and size.lines:
            return size
    return _USUAL_SIZE


def _encodable(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)
