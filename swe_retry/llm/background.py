"""The event loop of calls, in a thread of its own, which keeps the connections to providers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")

_LOCK = threading.Lock()


def run_in_loop(coroutine: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
    """Return the result of ``coroutine``, which runs in the loop of calls.

    Raises:
        TimeoutError: it takes longer than ``seconds``.
    """
    limited = asyncio.wait_for(coroutine, seconds)
    future = asyncio.run_coroutine_threadsafe(limited, call_loop())
    try:
        return future.result()
    except TimeoutError as error:  # which says nothing
        raise TimeoutError(str(error) or f"no answer within {seconds} s") from error
    except BaseException:
        future.cancel()
        raise


def call_loop() -> asyncio.AbstractEventLoop:
    """Return the loop of this process, which runs until the process ends."""
    # A cache alone would create a loop for each thread that asks before the first exists.
    with _LOCK:
        return _start_loop()


@cache
def _start_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="calls", daemon=True).start()
    return loop
