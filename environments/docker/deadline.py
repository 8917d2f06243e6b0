"""Limit the wall-clock time of a call."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_POLL = 0.2


def within(
    function: Callable[[], T], seconds: float, check: Callable[[], None] = lambda: None
) -> T:
    """Return ``function()``, or raise its exception; ``check`` may end the wait by raising.

    A time-out per read does not help against a server that sends a byte now and then, and a thread
    cannot be killed, so the call runs in a daemon thread, which does not keep the process alive.

    Raises:
        TimeoutError: the call took longer than ``seconds``.
    """
    answers: queue.SimpleQueue[tuple[list[T], BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            answers.put(([function()], None))
        except BaseException as error:
            answers.put(([], error))

    threading.Thread(target=work, daemon=True).start()
    end = time.monotonic() + seconds
    while True:
        check()
        left = end - time.monotonic()
        try:
            values, error = answers.get(timeout=max(0.0, min(left, _POLL)))
            break
        except queue.Empty:
            if left <= 0:
                raise TimeoutError(f"no answer within {seconds:.0f} s") from None
    if error is not None:
        raise error
    return values[0]
