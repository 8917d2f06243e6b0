"""A worker process of a Ray run: works on jobs in threads, and asks the run's actor."""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from logging.handlers import QueueHandler
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import ray
from ray.exceptions import ActorUnavailableError, RayError

from core.errors import InfrastructureError, StoppedError, UserError
from core.redaction import Redactor
from core.shutdown import Shutdown
from llm.gate import CallOutcome, PlannedCall
from runs.calls.coordinator import Ticket, Wait
from runs.calls.journal import JournalEntry
from runs.engines.ray.actor import (
    KEEP_SECONDS,
    DriverAnswer,
    JobStart,
    WorkerRequest,
)
from runs.engines.ray.nodes import node_name
from runs.jobs import Finished, Job, JobContext, WorkerAccess, work_on
from runs.leftovers import claim, mark_children, node_cache, sweep
from runs.progress.state import WorkStep
from runs.records import Attempt
from runs.slots import Slots, prepare_process

# Seconds in which requests of a worker's jobs gather, and at most until those without an answer are
# sent: each message costs milliseconds here, in the actor and in the driver.
_GATHER = 0.005
_EVERY = 0.2
_MIN_DISK = 1_000_000_000


@dataclass(frozen=True)
class WorkerPlan:
    """What all workers of a run need; see ``Benchmark`` and ``Driver``."""

    services: Callable[[WorkerAccess], Any]
    containers: bool
    cache: Path
    key: str
    own_ray: (
        bool  # the worker shares the driver's machine, and so its folders and its key
    )
    actor: Any  # the handle of the run's ``RunActor``
    keys: Sequence[str]  # variables that a node needs, because the driver has them
    versions: Mapping[str, str]  # of the driver's packages


@dataclass(frozen=True)
class Returned:
    """How the work on a job ended."""

    finished: Finished[Any] | None = None  # None when the job did not start
    user_error: str = ""  # what the user has to fix; no other job starts then


class Worker:
    """A Ray actor; ``work`` is called by as many threads as it has room for jobs."""

    def __init__(self) -> None:
        self._stop = Shutdown()
        self._redact = Redactor.of_environment(os.environ)
        self._connection = Connection(None)
        self._services: Any = None
        self._results: dict[JobStart, Future[Returned]] = {}
        self._ended: deque[tuple[float, JobStart]] = deque()

    def prepare(
        self,
        plan: WorkerPlan,
        slots: int,
        number: int,
    ) -> str:
        """Build the services; return what the user has to fix, empty where nothing is."""
        self._connection = Connection(plan.actor)
        threading.Thread(target=self._connection.keep_sending, daemon=True).start()
        prepare_process()
        node = node_name(os.environ, ray.util.get_node_ip_address())
        self._node = "" if plan.own_ray else f"on the node {node}: "
        threading.Thread(
            target=_follow, args=(self._connection, self._stop, number), daemon=True
        ).start()
        try:
            if not plan.own_ray:
                check_node(plan)
            self._worker = self._access(plan, node, slots)
            self._services = plan.services(self._worker)
        except (UserError, InfrastructureError, OSError) as error:
            return f"{self._node}{error}"
        finally:
            self._connection.send()
        return ""

    def _access(
        self,
        plan: WorkerPlan,
        node: str,
        slots: int,
    ) -> WorkerAccess:
        cache = plan.cache
        key = plan.key
        if not plan.own_ray:
            cache = node_cache(plan.cache, node)
            for thing in sweep(cache, containers=plan.containers):
                self._connection.tell("warn", f"{node}: removed {thing}")
            # The lock is held until this process ends.
            self._claim = claim(cache, plan.key)
            key = self._claim.key
        mark_children(key)
        warn = partial(self._connection.tell, "warn")
        return WorkerAccess(cache, key, Slots(slots, self._stop), self._stop, warn)

    def work(self, job: Job, start: JobStart) -> Returned:
        """Work on a job if it may still start; once, however often Ray repeats the call."""
        future: Future[Returned] = Future()
        result = self._results.setdefault(start, future)
        if result is future:
            try:
                future.set_result(self._work(job, start))
            except BaseException as error:
                future.set_exception(error)
            now = time.monotonic()
            self._ended.append((now, start))
            while self._ended[0][0] < now - KEEP_SECONDS:
                del self._results[self._ended.popleft()[1]]
        return result.result()

    def _work(self, job: Job, start: JobStart) -> Returned:
        calls = RemoteCalls(self._connection, self._stop, start)
        try:
            if not self._connection.ask("open", start):
                return Returned()
        except StoppedError:
            return Returned()
        except OSError as error:
            return Returned(Finished.without_log(job.key, error))
        log = logging.Logger(job.key, logging.INFO)
        log.addHandler(RemoteLog(self._connection, start, self._redact))
        try:
            try:
                context = JobContext(job.key, self._worker, calls, calls, log)
                return Returned(work_on(job, self._services, context))
            finally:
                # All that was sent before has been handled when this is answered.
                self._connection.ask("close", start)
        except StoppedError:
            return Returned()
        except UserError as error:
            return Returned(user_error=f"{self._node}{error}")


@dataclass
class Connection:
    """Sends what the jobs of a worker ask of the run, together, in the order of the calls.

    ``method`` is one of ``RunServer``.
    """

    actor: Any
    _waiting: list[tuple[WorkerRequest, Future[Any] | None]] = field(
        default_factory=list
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _asked: threading.Event = field(default_factory=threading.Event)

    def tell(self, method: str, *arguments: object) -> None:
        """Have a method called soon; no answer is awaited."""
        with self._lock:
            self._waiting.append(
                (WorkerRequest(method, arguments, answered=False), None)
            )

    def ask(self, method: str, *arguments: object) -> Any:  # noqa: ANN401
        """Have a method called and return what it returns."""
        future: Future[Any] = Future()
        with self._lock:
            self._waiting.append((WorkerRequest(method, arguments), future))
        self._asked.set()
        return future.result()

    def keep_sending(self) -> None:
        """Send from time to time, as long as the process lives."""
        while True:
            self._asked.wait(_EVERY)
            self._asked.clear()
            time.sleep(_GATHER)
            self.send()

    def send(self) -> None:
        """Send what waits."""
        with self._lock:
            requests = [request for request, _ in self._waiting]
            futures = [future for _, future in self._waiting if future is not None]
            self._waiting = []
            if requests:
                # A future: in ``ray.get`` Ray would give the worker's processor to another one
                # meanwhile, and more would run than there are processors for.
                pickled = pickle.dumps(requests)
                handle = self.actor.handle.options(max_task_retries=-1)
                sent = handle.remote(uuid4().hex, pickled).future()
                sent.add_done_callback(partial(_deliver, futures))


def _deliver(
    futures: Sequence[Future[Any]],
    sent: Future[bytes],
) -> None:
    try:
        answers: list[DriverAnswer] = pickle.loads(sent.result())
    except Exception as error:
        for future in futures:
            future.set_exception(
                InfrastructureError(f"the driver does not answer: {error}")
            )
        return
    for future, answer in zip(futures, answers, strict=True):
        if answer.error is None:
            future.set_result(answer.value)
        else:
            future.set_exception(answer.error)


@dataclass(frozen=True)
class RemoteCalls:
    """The run as one start of a job sees it; see ``WorkerCalls`` and ``Steps``."""

    connection: Connection
    stop: Shutdown
    start: JobStart

    def entries(self, instance_id: str) -> Sequence[JournalEntry]:
        return cast(Sequence[JournalEntry], self._ask("entries", instance_id))

    def begin(
        self,
        instance_id: str,
        attempt: int,
        ask: PlannedCall,
    ) -> Ticket | Wait:
        return cast("Ticket | Wait", self._ask("begin", instance_id, attempt, ask))

    def end(self, call: str, outcome: CallOutcome) -> bool:
        return bool(self._ask("end", call, outcome))

    def note_attempt(self, instance_id: str, attempt: Attempt) -> None:
        self._ask("note_attempt", instance_id, attempt)

    def _ask(self, method: str, *arguments: object) -> Any:  # noqa: ANN401
        return self.connection.ask("call", self.start, method, *arguments)

    def stopping(self) -> str:
        return self.stop.reason

    def note_start(self, instance_id: str) -> None:
        """Do nothing: the driver started the job."""

    def step(
        self,
        instance_id: str,
        attempt: int,
        model: str,
        step: WorkStep,
    ) -> None:
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
        record.msg = record.message = self._redact(str(record.msg))
        self._connection.tell("record", self._start, record)


def check_node(plan: WorkerPlan) -> None:
    """Check that this node has what the driver has, and some disk.

    Raises:
        UserError: naming what is missing.
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


def _follow(connection: Connection, stop: Shutdown, number: int) -> None:
    while not stop.reason:
        try:
            stop.request(str(connection.actor.stopping.remote().future().result()))
            connection.tell("note_stop", number)
        except ActorUnavailableError:
            time.sleep(_EVERY)
        except RayError as error:
            stop.request(f"the driver is gone: {error}")
