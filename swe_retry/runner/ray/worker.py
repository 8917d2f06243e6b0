"""A worker process of a Ray run: works on jobs in threads, which ask the driver."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from logging.handlers import QueueHandler
from pathlib import Path
from queue import SimpleQueue
from typing import Any, cast

import ray

from swe_retry.core.errors import InfrastructureError, StoppedError, UserError
from swe_retry.core.redaction import Redactor
from swe_retry.core.shutdown import Shutdown
from swe_retry.environments.local.packages import check_index
from swe_retry.llm.gate import CallOutcome, PlannedCall
from swe_retry.record.records import Attempt
from swe_retry.runner.calls.journal import JournalEntry
from swe_retry.runner.jobs import Finished, Job, JobContext, WorkerAccess
from swe_retry.runner.leftovers import claim, mark_children, node_cache, sweep
from swe_retry.runner.progress.state import WorkStep
from swe_retry.runner.ray.messages import JobStart, WorkerRequest
from swe_retry.runner.ray.nodes import node_name
from swe_retry.runner.slots import Slots, prepare_process
from swe_retry.runner.threads import work_on

DRIVER = "driver"
"""The threads of a worker that the driver always reaches, however many jobs are in work."""
# Seconds in which requests of a worker's jobs gather: each exchange costs a millisecond of the
# driver.
_GATHER = 0.005
# Seconds that the end of a job is kept, should Ray lose it on its way.
_KEEP_SECONDS = 600.0
_MIN_DISK = 1_000_000_000


@dataclass(frozen=True)
class WorkerPlan:
    """What all workers of a run need; see ``Benchmark`` and ``Driver``."""

    services: Callable[[WorkerAccess], Any]
    containers: bool
    needs_index: bool
    cache: Path
    key: str
    # The worker shares the driver's machine, and so its folders and its key.
    own_ray: bool
    keys: Sequence[str]  # variables that a node needs, because the driver has them
    versions: Mapping[str, str]  # of the driver's packages


_Result = Finished[Any] | None
"""How the work on a job ended; None where it did not start."""


class Worker:
    """A Ray actor; ``work`` is called by as many threads as it has room for jobs.

    It never calls Ray: in ``ray.get`` Ray would give its processor to another worker meanwhile, and
    more would run than there are processors for.
    """

    def __init__(self) -> None:
        self._stop = Shutdown()
        self._redact = Redactor.of_environment(os.environ)
        self._connection = Connection()
        self._node = ""  # begins its messages; empty where the node is the driver's
        self._results: dict[JobStart, Future[_Result]] = {}
        self._ended: deque[tuple[float, JobStart]] = deque()

    @ray.method(concurrency_group=DRIVER)  # type: ignore[untyped-decorator]
    def exchange(self, number: int, answers: Sequence[Any]) -> list[WorkerRequest]:
        return self._connection.exchange(number, answers)

    @ray.method(concurrency_group=DRIVER, max_task_retries=-1)  # type: ignore[untyped-decorator]
    def stop(self, reason: str) -> None:
        self._stop.request(reason)

    def prepare(self, plan: WorkerPlan, slots: int) -> None:
        """Build the services.

        Raises:
            UserError: naming what has to be fixed on this node.
        """
        prepare_process()
        node = node_name(os.environ, ray.util.get_node_ip_address())
        cache = plan.cache
        key = plan.key
        warn = partial(self._connection.ask, "warn")
        try:
            if not plan.own_ray:
                self._node = f"on the node {node}: "
                check_node(plan)
                cache = node_cache(cache, node)
                for thing in sweep(cache, containers=plan.containers):
                    warn(f"{node}: removed {thing}")
                # The lock is held until this process ends.
                self._claim = claim(cache, key)
                key = self._claim.key
            mark_children(key)
            stop = self._stop
            self._worker = WorkerAccess(cache, key, Slots(slots, stop), stop, warn)
            self._services = plan.services(self._worker)
        except (UserError, InfrastructureError, OSError) as error:
            raise UserError(f"{self._node}{error}") from error

    @ray.method(max_task_retries=-1)  # type: ignore[untyped-decorator]
    def work(self, job: Job, start: JobStart) -> _Result:
        """Work on a job if it may still start, once, however often Ray repeats the call.

        Raises:
            UserError: naming what has to be fixed on this node.
        """
        future: Future[_Result] = Future()
        result = self._results.setdefault(start, future)
        if result is future:
            try:
                future.set_result(self._work(job, start))
            except BaseException as error:
                future.set_exception(error)
            now = time.monotonic()
            self._ended.append((now, start))
            while self._ended[0][0] < now - _KEEP_SECONDS:
                _, old = self._ended.popleft()
                del self._results[old]
        return result.result()

    def _work(self, job: Job, start: JobStart) -> _Result:
        calls = RemoteCalls(self._connection, start)
        log = logging.Logger(job.key, logging.INFO)
        log.addHandler(RemoteLog(self._connection, start, self._redact))
        context = JobContext(job.key, self._worker, calls, calls, log)
        try:
            if not self._connection.ask("open", start):
                return None
            try:
                return work_on(job, self._services, context)
            finally:
                # All that was sent before has been handled when this is answered.
                self._connection.ask("close", start)
        except StoppedError:
            return None
        except OSError as error:
            return Finished.without_log(job.key, error)
        except UserError as error:
            raise UserError(f"{self._node}{error}") from error


_Waiting = tuple[WorkerRequest, Future[Any]]


class Connection:
    """Keeps what the jobs of a worker ask of the run until the driver fetches it.

    ``method`` is one of ``RunServer``; the order is that of the calls.
    """

    def __init__(self) -> None:
        self._waiting = SimpleQueue[_Waiting]()
        self._fetched: list[_Waiting] = []
        self._number = 0
        self._lock = threading.Lock()

    def tell(self, method: str, *arguments: object) -> None:
        """Have a method called soon; no answer is awaited."""
        request = WorkerRequest(method, arguments, answered=False)
        self._waiting.put((request, Future()))

    def ask(self, method: str, *arguments: object) -> Any:  # noqa: ANN401
        """Have a method called and return what it returns."""
        request = WorkerRequest(method, arguments, answered=True)
        future: Future[Any] = Future()
        self._waiting.put((request, future))
        return future.result()

    def exchange(self, number: int, answers: Sequence[Any]) -> list[WorkerRequest]:
        """Take the answers to the requests fetched last, and wait for the next requests.

        An exchange that comes again under its number gets the same requests again.
        """
        with self._lock:
            if number > self._number:
                self._number = number
                self._deliver(answers)
                self._fetched = [self._waiting.get()]
                time.sleep(_GATHER)
                while not self._waiting.empty():
                    self._fetched.append(self._waiting.get())
            return [request for request, _ in self._fetched]

    def _deliver(self, answers: Sequence[Any]) -> None:
        futures = [future for request, future in self._fetched if request.answered]
        for future, answer in zip(futures, answers, strict=True):
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)


@dataclass(frozen=True)
class RemoteCalls:
    """The run as one start of a job sees it; see ``WorkerCalls`` and ``Steps``."""

    connection: Connection
    start: JobStart

    def entries(self, instance_id: str) -> Sequence[JournalEntry]:
        return cast(Sequence[JournalEntry], self._ask("entries", instance_id))

    def begin(self, instance_id: str, attempt: int, ask: PlannedCall) -> str | float:
        return cast("str | float", self._ask("begin", instance_id, attempt, ask))

    def end(self, call: str, outcome: CallOutcome) -> bool:
        return bool(self._ask("end", call, outcome))

    def note_arrival(self, call: str, tokens: int) -> None:
        self._tell("note_arrival", call, tokens)

    def note_retry(self, instance_id: str, problem: str) -> None:
        self._tell("note_retry", instance_id, problem)

    def note_attempt(self, instance_id: str, attempt: Attempt) -> None:
        self._ask("note_attempt", instance_id, attempt)

    def _tell(self, method: str, *arguments: object) -> None:
        self.connection.tell("call", self.start, method, *arguments)

    def _ask(self, method: str, *arguments: object) -> Any:  # noqa: ANN401
        return self.connection.ask("call", self.start, method, *arguments)

    def note_start(self, instance_id: str) -> None:
        """Do nothing: the driver started the job."""

    def step(self, instance_id: str, attempt: int, model: str, step: WorkStep) -> None:
        self.connection.tell("step", self.start, attempt, model, step)


class RemoteLog(QueueHandler):
    """Sends records to the driver, without the secrets of this machine."""

    def __init__(
        self, connection: Connection, start: JobStart, redact: Redactor
    ) -> None:
        # The base class only gives its queue to ``enqueue``.
        super().__init__(cast(Any, None))
        self._connection = connection
        self._start = start
        self._redact = redact

    def enqueue(self, record: logging.LogRecord) -> None:
        """Send ``record``, whose arguments and traceback are text already."""
        text = self._redact(str(record.msg))
        record.msg = text
        record.message = text
        self._connection.tell("record", self._start, record)


def check_node(plan: WorkerPlan) -> None:
    """Check that this node has what the driver has, and some disk.

    Raises:
        UserError: naming what is missing.
        InfrastructureError: the package index is not reached.
    """
    for name in plan.keys:
        if not os.environ.get(name):
            raise UserError(f"{name} is not set, but it is where the run was started")
    for name, expected in plan.versions.items():
        with suppress(PackageNotFoundError):
            installed = version(name)
            if installed != expected:
                raise UserError(f"{name} is {installed}, the driver has {expected}")
    plan.cache.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(plan.cache).free
    if free < _MIN_DISK:
        raise UserError(
            f"only {free / 1e6:.0f} MB are free in {plan.cache}, "
            f"at least {_MIN_DISK / 1e6:.0f} are needed"
        )
    if plan.needs_index:
        check_index()
