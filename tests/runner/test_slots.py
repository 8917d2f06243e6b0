"""Slots, the stop, the local pool and the run's lock."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from swe_retry.core.errors import StoppedError, UserError
from swe_retry.core.shutdown import Shutdown
from swe_retry.llm.chat import Message, Reply
from swe_retry.llm.replay import ReplayModel
from swe_retry.record.records import Attempt
from swe_retry.record.runlock import run_lock
from swe_retry.runner.jobs import End
from swe_retry.runner.progress.state import WorkStep
from swe_retry.runner.slots import Slot, Slots, waiting_for_model
from swe_retry.runner.threads import ThreadEngine
from tests.support import TOP
from tests.support.runner import in_threads


def test_no_more_than_the_slots_work_at_once() -> None:
    slots = Slots(2)
    lock = threading.Lock()
    working = 0
    peak = 0
    waiting = 0
    most_waiting = 0

    def work(_: int) -> None:
        nonlocal working, peak, waiting, most_waiting
        with Slot(slots) as slot:
            for _ in range(3):
                with lock:
                    working += 1
                    peak = max(peak, working)
                time.sleep(0.002)
                with lock:
                    working -= 1
                with slot.given_back():
                    with lock:
                        waiting += 1
                        most_waiting = max(most_waiting, waiting)
                    time.sleep(0.02)
                    with lock:
                        waiting -= 1

    in_threads(8, work)
    assert peak == 2
    assert most_waiting > 2


def test_who_waits_longest_is_next() -> None:
    slots = Slots(1)
    order = []
    slots.take()

    def work(number: int) -> None:
        slots.take()
        order.append(number)
        slots.give_back()

    threads = []
    for number in range(5):
        thread = threading.Thread(target=work, args=(number,))
        thread.start()
        threads.append(thread)
        time.sleep(0.02)
    slots.give_back()
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4]


def test_a_stop_ends_who_waits_and_who_comes_back_but_keeps_other_errors() -> None:
    stop = Shutdown()
    slots = Slots(1, stop)
    with (
        pytest.raises(StoppedError, match="enough"),
        Slot(slots) as slot,
        slot.given_back(),
    ):
        stop.request("enough")
        stop.request("later")
    with pytest.raises(StoppedError, match="enough"):
        slots.take()
    other = Slots(1)
    with (
        pytest.raises(ValueError, match="mine"),
        Slot(other) as slot,
        slot.given_back(),
    ):
        other.stop.request("enough")
        raise ValueError("mine")
    assert other._taken == 0
    assert slots._taken == 0


def test_a_model_is_waited_for_without_a_slot() -> None:
    slots = Slots(1)
    steps: list[WorkStep] = []
    done: list[str] = []

    class Model(ReplayModel):
        def _serve(self, sha256: str) -> Reply:
            with Slot(slots):
                done.append("asked")
                return Reply("yes")

    with Slot(slots) as slot:
        settle = partial(done.append, "settled")
        waiting = partial(waiting_for_model, slot, steps.append, settle)
        model = Model((), waiting=waiting)
        assert model.complete([Message("user", "?")]).content == "yes"
        assert slots._taken == 1
    assert [step.value for step in steps] == ["asking", "editing"]
    assert done == ["settled", "asked"]


@dataclass(frozen=True)
class Solved:
    """A job that is solved by a function of its key."""

    key: str
    solve: Callable[[str], None]

    def start(self, *_: object) -> Solved:
        return self

    def run(self) -> End[str]:
        self.solve(self.key)
        return End("done", "")

    def attempts(self, end: End[Any]) -> Sequence[Attempt]:
        return ()


def jobs(count: int, solve: Callable[[str], None]) -> list[Any]:
    return [Solved(f"i-{number}", solve) for number in range(count)]


def pool_of_two() -> tuple[ThreadEngine, Shutdown]:
    """Return an engine of two threads, and what its driver is stopped by."""
    driver = Mock(stop=Shutdown())
    driver.benchmark.config.workers = 2
    driver.start_job = lambda key: nullcontext(logging.getLogger(key))
    worker: Any = None
    return ThreadEngine(driver, worker, None), driver.stop


def test_the_pool_works_on_several_and_one_that_hangs_delays_nobody() -> None:
    names = [f"i-{n}" for n in range(6)]
    release = threading.Event()

    def solve(key: str) -> None:
        if key == "i-0":
            release.wait(10)

    pool, _ = pool_of_two()
    ended: list[str] = []
    for finished in pool.run(jobs(6, solve), lambda: True):
        ended.append(finished.key)
        if len(ended) == 5:
            release.set()
    assert sorted(ended) == names
    assert ended[-1] == "i-0"


def test_an_error_of_the_user_ends_the_pool_and_what_has_started_is_yielded() -> None:
    started = threading.Barrier(2)
    pool, stop = pool_of_two()

    def solve(key: str) -> None:
        started.wait(10)
        if key == "i-0":
            raise UserError("fix it")
        while not stop.reason:
            time.sleep(0.01)

    ended: list[str] = []
    with pytest.raises(UserError, match="fix it"):
        for finished in pool.run(jobs(9, solve), lambda: not stop.reason):
            ended.append(finished.key)
    assert ended == ["i-1"]


HOLD = """
import sys, time
from pathlib import Path
from swe_retry.record.records import Attempt
from swe_retry.record.runlock import run_lock
from swe_retry.runner.jobs import End
with run_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_refused_and_a_dead_one_is_known(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, folder],
        cwd=TOP,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    message = f"process {other.pid} on .*choose another --run"
    with pytest.raises(UserError, match=message):
        run_lock(folder).__enter__()
    other.kill()
    other.wait()
    other.stdout.close()
    with run_lock(folder) as died:
        assert died is not None
        assert died.pid == other.pid
    assert not list(folder.iterdir())
    with run_lock(folder) as died:
        assert died is None


def test_spare_slots_are_those_that_nobody_waits_for() -> None:
    slots = Slots(3)
    slots.take()
    with slots.spare(5) as spare:
        assert spare == 2
        with slots.spare(1) as none:
            assert none == 0
    with slots.spare(0) as none:
        assert none == 0
        with slots.spare(2) as both:
            assert both == 2
    for _ in range(2):
        slots.take()
    waiting = threading.Thread(target=slots.take, daemon=True)
    waiting.start()
    while not slots._waiting:
        time.sleep(0.001)
    with slots.spare(1) as none:
        assert none == 0
    slots.give_back()
    waiting.join(5)
    assert not waiting.is_alive()
