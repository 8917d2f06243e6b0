"""The event loop of calls, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")

_LOCK = threading.Lock()


class Background:
    """A loop that runs until the process ends."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(
            target=self._loop.run_forever, name="calls", daemon=True
        ).start()

    def wait(
        self, coroutine: Coroutine[Any, Any, T], seconds: float | None = None
    ) -> T:
        limited = asyncio.wait_for(coroutine, seconds)
        future = asyncio.run_coroutine_threadsafe(limited, self._loop)
        try:
            return future.result()
        except TimeoutError as error:  # which says nothing
            raise TimeoutError(str(error) or f"no answer within {seconds} s") from error
        except BaseException:
            future.cancel()
            raise


def background() -> Background:
    """Return the loop of this process, which keeps the connections to providers."""
    # A cache alone would create a loop for each thread that asks before the first exists.
    with _LOCK:
        return _make_background()


_make_background = cache(Background)
