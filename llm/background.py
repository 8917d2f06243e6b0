"""Run coroutines in an event loop in its own thread, and wait for them in synchronous code.

Hundreds of model calls need one thread only, and a call at its time limit is cancelled and its
connection closed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


_LOCK = threading.Lock()


class Background:
    """An event loop that runs until the process ends."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="calls", daemon=True).start()

    def wait(self, coroutine: Coroutine[Any, Any, T], seconds: float) -> T:
        """Run ``coroutine`` in the loop and return its result, or raise its exception.

        Raises:
            TimeoutError: the coroutine took longer than ``seconds`` and was cancelled.
        """
        limited = asyncio.wait_for(coroutine, seconds)
        future = asyncio.run_coroutine_threadsafe(limited, self._loop)
        try:
            return future.result()
        except asyncio.TimeoutError as error:  # another class before Python 3.11
            raise TimeoutError(f"no answer within {seconds:.0f} s") from error
        except BaseException:
            future.cancel()
            raise


def background() -> Background:
    """Return the loop of this process, which keeps the connections to providers."""
    # A cache alone would create a loop for each thread that asks before the first exists.
    with _LOCK:
        return _made()


@cache
def _made() -> Background:
    return Background()
