"""The driver's side of the run's actor: does what workers ask for."""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError

from core.errors import StoppedError
from runs.engines.base import Driver
from runs.engines.ray.actor import DriverAnswer, JobStart, WorkerRequest
from runs.progress.state import WorkStep

# Each waits for the disk now and then; requests of one job wait for each other.
_THREADS = 16


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
    stopped_workers: set[int] = field(default_factory=set)
    _jobs: dict[str, _JobState] = field(default_factory=dict)

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
            state.log = state.open.enter_context(self.driver.start_job(start.key))
            return True

    def close(self, start: JobStart) -> None:
        """End the work on a job."""
        with self._state(start) as state:
            state.open.close()

    def call(self, start: JobStart, method: str, *arguments: object) -> Any:  # noqa: ANN401
        """Have a method of the coordinator called."""
        with self._state(start):
            return getattr(self.driver.coordinator, method)(*arguments)

    def step(
        self,
        start: JobStart,
        attempt: int,
        model: str,
        step: WorkStep,
    ) -> None:
        with self._state(start):
            self.driver.progress.step(start.key, attempt, model, step)

    def record(self, start: JobStart, record: logging.LogRecord) -> None:
        with self._state(start) as state:
            if state.log is not None:
                state.log.handle(record)

    def note_stop(self, worker: int) -> None:
        """Take a worker's word that its jobs are ending."""
        self.stopped_workers.add(worker)

    def warn(self, text: str) -> None:
        self.driver.warn_once(text)

    @contextmanager
    def _state(self, start: JobStart) -> Iterator[_JobState]:
        state = self._jobs[start.key]
        with state.lock:
            if start.number != state.number:
                raise ReplacedError("another worker has this instance")
            yield state


@contextmanager
def serving(actor: Any, server: RunServer) -> Iterator[None]:  # noqa: ANN401 - Ray's handles have no types
    """Answer the requests at ``actor`` meanwhile; an actor that dies stops the run."""
    closing = threading.Event()

    def serve() -> None:
        answers: list[tuple[str, bytes]] = []
        with ThreadPoolExecutor(_THREADS, "server") as threads:
            try:
                while True:
                    messages = ray.get(actor.exchange.remote(answers))
                    answers = answer(messages, server, threads)
            except RayError as error:
                if not closing.is_set():
                    server.driver.stop.request(f"the Ray cluster failed: {error}")

    thread = threading.Thread(target=serve, name="server", daemon=True)
    thread.start()
    try:
        yield
    finally:
        closing.set()
        ray.kill(actor)
        thread.join()


def answer(
    messages: Sequence[tuple[str, bytes]], server: RunServer, threads: Executor
) -> list[tuple[str, bytes]]:
    """Handle the requests of all messages at once, so that the disk writes them together."""
    handled = []
    for name, pickled in messages:
        requests: list[WorkerRequest] = pickle.loads(pickled)
        futures: list[Future[DriverAnswer]] = []
        for request in requests:
            if request.answered:
                futures.append(threads.submit(_done, request, server))
            else:
                _done(request, server)
        handled.append((name, futures))
    answers = []
    for name, futures in handled:
        answers.append((name, pickle.dumps([future.result() for future in futures])))
    return answers


def _done(request: WorkerRequest, server: RunServer) -> DriverAnswer:
    try:
        return DriverAnswer(getattr(server, request.method)(*request.arguments))
    except Exception as error:
        return DriverAnswer(error=_portable(error))


def _portable(error: Exception) -> Exception:
    """Return an exception that can be pickled: some cannot be built again from their pickle."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(repr(error))
    return error
