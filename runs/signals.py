"""Ctrl-C or SIGTERM once: attempts end at their next step. Twice: everything ends now."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from core.shutdown import Shutdown

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED = 130


def ignores_interrupts() -> bool:
    """Return whether SIGINT was ignored at the start of this process, as in background jobs."""
    return signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, _ignore)


def keep_ignoring_interrupts() -> None:
    """Continue to ignore SIGINT, but not in child processes: tests must not depend on it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, _ignore)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing: unlike an ignored signal, a handled one is reset in a child process."""


@contextmanager
def heeding_signals(
    stop: Shutdown, say: Callable[[str], None], clean_up: Callable[[], None]
) -> Iterator[None]:
    """Turn the first SIGINT or SIGTERM into a stop; at the second end the process at once.

    Args:
        stop: requested at the first signal.
        say: prints a line. It is called in a signal handler, and must not take a lock that is held.
        clean_up: ends what is running, before the process ends with code 130.

    A SIGINT that was ignored when the process started stays so, as shells expect of jobs in the
    background.
    """
    signals = [n for n in _SIGNALS if n is not signal.SIGINT or not ignores_interrupts()]

    asked = False

    def heed(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            stop.at_once = True
            say("stopping now")
            try:
                clean_up()
            finally:
                os._exit(INTERRUPTED)
        asked = True
        stop.request(f"{signal.Signals(number).name} was received")
        say("stopping: attempts end at their next step; once more to stop now")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, heed) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
