"""The driver's answers to the workers of a Ray run."""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from unittest.mock import Mock

import pytest

from swe_retry.llm.gate import PlannedCall
from swe_retry.runner.calls.journal import AskedEntry
from swe_retry.runner.engine import Driver
from tests.support.runs import coordinator as coordinator_of

_JOBS = 8
_CALL = PlannedCall("gpt-4o", "openai", "a" * 64, 10, None)


@pytest.mark.ray
def test_requests_of_a_message_wait_for_the_disk_together_and_are_answered_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from swe_retry.runner.ray.messages import WorkerRequest
    from swe_retry.runner.ray.server import RunServer

    coordinator = coordinator_of(tmp_path)
    log = logging.Logger("run")
    driver = Driver(Mock(), coordinator, Mock(), print, log)
    server = RunServer(driver, lambda: True)
    keys = [f"job-{number}" for number in range(_JOBS)]
    requests = []
    for key in keys:
        arguments = (server.start(key), "begin", key, 1, _CALL)
        requests.append(WorkerRequest("call", arguments, answered=True))
    disk = Barrier(_JOBS)
    synced = []

    def fsync(_: int) -> None:
        disk.wait(timeout=20)
        synced.append(1)

    def fail(_: int) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(os, "fsync", fsync)
    for key, response in zip(keys, server.answer(requests), strict=True):
        (entry,) = coordinator.entries(key)
        assert isinstance(entry, AskedEntry)
        assert response == entry.call
    assert len(synced) == _JOBS

    monkeypatch.setattr(os, "fsync", fail)
    for response in server.answer(requests):
        assert str(response) == "the disk is gone"


@pytest.mark.ray
def test_an_exchange_that_ray_repeats_gets_the_same_requests_again() -> None:
    from swe_retry.runner.ray.worker import Connection

    connection = Connection()
    with ThreadPoolExecutor(2) as jobs:
        answered = jobs.submit(connection.ask, "first")
        requests = connection.exchange(1, [])
        assert [request.method for request in requests] == ["first"]
        assert connection.exchange(1, []) == requests
        failed = jobs.submit(connection.ask, "second")
        (request,) = connection.exchange(2, ["an answer"])
        assert request.method == "second"
        assert connection.exchange(2, ["an answer"]) == [request]
        connection.tell("third")
        connection.tell("fourth")
        requests = connection.exchange(3, [OSError("the disk is gone")])
        assert [request.method for request in requests] == ["third", "fourth"]
        assert answered.result() == "an answer"
        with pytest.raises(OSError, match="the disk is gone"):
            failed.result()
