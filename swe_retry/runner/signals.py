"""Ctrl-C or SIGTERM once: attempts end at their next step. Twice: everything ends now."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from swe_retry.core.plaintext import Say
from swe_retry.core.shutdown import Shutdown

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
def sigterm_as_interrupt() -> Iterator[None]:
    """Make SIGTERM what Ctrl-C is within the block, so that no unfinished file is left.

    For the main thread, which alone may set handlers.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def heeding_signals(
    stop: Shutdown,
    say: Say,
    clean_up: Callable[[], None],
    describe_steps: Callable[[], str] = str,
) -> Iterator[None]:
    """Turn the first SIGINT or SIGTERM into a stop; at the second clean up and exit with 130.

    ``describe_steps`` says for what a stop waits.

    The arguments are used in a thread: a handler runs in the middle of what the main thread does,
    and would wait forever for a lock that the main thread holds. The thread reads the signals from
    a pipe: where the system gives one to another thread than the main one, no handler runs before
    the main thread wakes up.

    A SIGINT that was ignored when the process started stays so, as shells expect of jobs in the
    background.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = {
        n for n in _SIGNALS if n is not signal.SIGINT or not ignores_interrupts()
    }
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def watch() -> None:
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            received = (n for (n,) in iter(lambda: pipe.read(1), b"") if n in signals)
            number = next(received, None)
            if number is None:
                return
            stop.request(f"{signal.Signals(number).name} was received")
            with suppress(OSError):  # the output may be a closed pipe
                steps = describe_steps()
                if steps:
                    steps = f" ({steps})"
                say(
                    f"stopping: attempts end at their next step{steps}; once more to stop now"
                )
            if next(received, None) is None:
                return
            stop.at_once = True
            try:
                with suppress(OSError):
                    say("stopping now")
                clean_up()
            finally:
                os._exit(INTERRUPTED)

    threading.Thread(target=watch, name="signals", daemon=True).start()
    before = {number: signal.signal(number, lambda *_: None) for number in signals}
    woken = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(woken)
        os.close(writing)
