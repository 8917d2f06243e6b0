"""The driver's side of the workers: fetches what they ask for, and does it."""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayError

from swe_retry.core.errors import StoppedError
from swe_retry.runner.engine import Driver
from swe_retry.runner.progress.state import WorkStep
from swe_retry.runner.ray.messages import JobStart, WorkerRequest

# Each waits for the disk now and then; requests of one job wait for each other.
_THREADS = 16
# Seconds until a worker is asked again that could not be reached.
_PAUSE = 0.5


class ReplacedError(StoppedError):
    """This worker was taken for dead, and another has its job."""


@dataclass
class _JobState:
    number: int = 0  # of the start that counts; 0 while none does
    log: logging.Logger | None = None
    open: ExitStack = field(default_factory=ExitStack)  # ends with the work on the job
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class RunServer:
    """Does for the run what its workers ask for; safe to use from many threads."""

    driver: Driver
    may_start: Callable[[], bool]
    _jobs: dict[str, _JobState] = field(default_factory=dict)
    _threads: Executor = field(default_factory=partial(ThreadPoolExecutor, _THREADS))

    def answer(self, requests: Sequence[WorkerRequest]) -> list[Any]:
        """Handle requests at once, so that the disk writes them together.

        An exception is an answer, too: it is raised at the worker.
        """
        futures = []
        for request in requests:
            if request.answered:
                futures.append(self._threads.submit(self._handle, request))
            else:
                self._handle(request)
        return [future.result() for future in futures]

    def _handle(self, request: WorkerRequest) -> Any:  # noqa: ANN401
        method = getattr(self, request.method)
        try:
            return method(*request.arguments)
        except Exception as error:
            return _portable(error)

    def start(self, key: str) -> JobStart:
        state = self._jobs.setdefault(key, _JobState())
        with state.lock:
            state.number += 1
            return JobStart(key, state.number)

    def give_up(self, key: str) -> None:
        """Refuse from now on what the job's worker sends; its calls end here."""
        state = self._jobs[key]
        with state.lock:
            state.number += 1
            self.driver.coordinator.abandon(key)
            state.open.close()

    def open(self, start: JobStart) -> bool:
        """Start a job unless the run is ending."""
        with self._state(start) as state:
            if not self.may_start():
                return False
            job = self.driver.start_job(start.key)
            state.log = state.open.enter_context(job)
            return True

    def close(self, start: JobStart) -> None:
        """End the work on a job."""
        with self._state(start) as state:
            state.open.close()

    def call(self, start: JobStart, method: str, *arguments: object) -> Any:  # noqa: ANN401
        """Have a method of the coordinator called."""
        with self._state(start):
            method_of_run = getattr(self.driver.coordinator, method)
            return method_of_run(*arguments)

    def step(self, start: JobStart, attempt: int, model: str, step: WorkStep) -> None:
        with self._state(start):
            self.driver.progress.step(start.key, attempt, model, step)

    def record(self, start: JobStart, record: logging.LogRecord) -> None:
        with self._state(start) as state:
            if state.log is not None:
                state.log.handle(record)

    def warn(self, text: str) -> None:
        self.driver.warn_once(text)

    @contextmanager
    def _state(self, start: JobStart) -> Iterator[_JobState]:
        state = self._jobs[start.key]
        with state.lock:
            if start.number != state.number:
                raise ReplacedError("another worker has this instance")
            yield state


def serve(actor: Any, server: RunServer) -> None:  # noqa: ANN401 - Ray's handles have no types
    """Answer the requests of a worker until it is dead.

    The driver fetches them, so that workers need not be able to connect to it.
    """
    number = 1
    answers: list[Any] = []
    while True:
        try:
            requests = ray.get(actor.exchange.remote(number, answers))
        except ActorUnavailableError:
            time.sleep(_PAUSE)
        except RayError:
            ray.kill(actor)  # if it lives, its jobs would wait for ever
            break
        else:
            answers = server.answer(requests)
            number += 1


def _portable(error: Exception) -> Exception:
    """Return an exception that can be pickled: some cannot be built again from their pickle."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(repr(error))
    return error
