"""The event loop of all calls."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import llm.client
from llm.client import Background, background


def test_threads_that_ask_at_once_get_the_same_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = threading.Barrier(8)
    original = Background.__init__

    def slow(self: Background) -> None:
        threading.Event().wait(0.05)
        original(self)

    def ask(_: int) -> Background:
        waiting.wait()
        return background()

    monkeypatch.setattr(Background, "__init__", slow)
    llm.client._made.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        assert len({id(one) for one in pool.map(ask, range(8))}) == 1
