"""Print the project's frames at the first request: ``python -m tests.support.waytrace SCRIPT …``.

A thread's frames come after those that started it, as those of a coroutine come after those that
handed it to its loop. The last line of standard output is JSON: the file and the function of each
frame.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import runpy
import sys
import threading
from collections.abc import Coroutine
from contextvars import ContextVar
from types import FrameType
from typing import Any

import httpx

from tests.support import TOP

Frames = list[tuple[str, str]]
_ROOT = f"{TOP}/"
_BEFORE: ContextVar[Frames | None] = ContextVar("before", default=None)
"""The frames before those of a coroutine."""
_STARTS: dict[threading.Thread, Frames] = {}
_WAY: Frames = []
_start = threading.Thread.start
_run_in_loop = asyncio.run_coroutine_threadsafe
_send = httpx.AsyncClient.send


def frames_of(frame: FrameType | None) -> Frames:
    """Return the project's frames up to ``frame``, the first first, with those before."""
    frames: Frames = []
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(_ROOT) and not path.startswith((f"{_ROOT}.venv", __file__)):
            # The documents name the files of the agent where they lie, not by the link.
            file = path.removeprefix(_ROOT).replace("swe_retry/agent/", "agent/")
            frames.insert(0, (file, frame.f_code.co_qualname))
        frame = frame.f_back
    before = _BEFORE.get()
    if before is None:
        before = _STARTS.get(threading.current_thread(), [])
    return before + frames


def start(thread: threading.Thread) -> None:
    _STARTS[thread] = frames_of(sys._getframe(1))
    _start(thread)


def run_in_loop(
    coroutine: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop
) -> concurrent.futures.Future[Any]:
    token = _BEFORE.set(frames_of(sys._getframe(1)))
    try:
        return _run_in_loop(coroutine, loop)
    finally:
        _BEFORE.reset(token)


async def send(
    client: httpx.AsyncClient, request: httpx.Request, **options: Any
) -> httpx.Response:
    if request.method == "POST" and not _WAY:
        _WAY.extend(frames_of(sys._getframe(1)))
    return await _send(client, request, **options)


def main() -> None:
    patched: Any = threading.Thread
    patched.start = start
    patched = asyncio
    patched.run_coroutine_threadsafe = run_in_loop
    patched = httpx.AsyncClient
    patched.send = send
    sys.argv = sys.argv[1:]
    try:
        runpy.run_path(str(TOP / sys.argv[0]), run_name="__main__")
    finally:
        print(json.dumps(_WAY))


if __name__ == "__main__":
    main()
