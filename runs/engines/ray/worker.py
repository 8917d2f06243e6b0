"""A worker process of a Ray run: works on jobs in threads, and asks the run's actor."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from logging.handlers import QueueHandler
from pathlib import Path
from typing import Any, cast

import ray
from ray.exceptions import RayError, RayTaskError

from core.errors import InfrastructureError, StoppedError, UserError
from core.redaction import Redactor
from core.shutdown import Shutdown
from llm.gate import Ask, Outcome
from runs.calls.coordinator import Ticket, Wait
from runs.calls.journal import InstanceEntry
from runs.engines.ray.actor import JobStart, Request
from runs.engines.ray.nodes import claim, node_cache, node_name, sweep
from runs.jobs import Finished, Job, JobAccess, WorkerAccess
from runs.leftovers import mark_children
from runs.progress.state import WorkStep
from runs.progress.statuses import InstanceStatus
from runs.session import prepare_process
from runs.slots import Slots

# Seconds between two messages without an answer: each costs the driver and the actor milliseconds.
_EVERY = 0.2


@dataclass(frozen=True)
class WorkerPlan:
    """What all workers of a run need.

    Attributes:
        services: see ``JobKind``; so is ``containers``.
        cache: the folder that runs share.
        key: of the run, see ``runs.leftovers``.
        own_ray: the worker shares the driver's machine, and so its folders and its key.
        actor: the handle of the run's ``RunActor``.
    """

    services: Callable[[WorkerAccess], Any]
    containers: bool
    cache: Path
    key: str
    own_ray: bool
    actor: Any


@dataclass(frozen=True)
class Returned:
    """How the work on a job ended.

    Attributes:
        finished: None when the job did not start.
        user_error: what the user has to fix; no other job starts then.
    """

    finished: Finished[Any] | None = None
    user_error: str = ""


class Worker:
    """A Ray actor; ``work`` is called by as many threads as it has room for jobs."""

    def __init__(self) -> None:
        self._stop = Shutdown()
        self._redact = Redactor.of_environment(os.environ)
        self._actor: Any = None
        self._outbox: Outbox = Outbox(None)
        self._services: Any = None

    def prepare(self, plan: WorkerPlan, slots: int) -> str:
        """Build the services; return what the user has to fix, empty where nothing is."""
        self._actor, self._outbox = plan.actor, Outbox(plan.actor)
        threading.Thread(target=self._outbox.keep_sending, daemon=True).start()
        prepare_process()
        node = node_name(os.environ, ray.util.get_node_ip_address())
        try:
            self._services = plan.services(self._access(plan, node, slots))
        except UserError as error:
            return str(error) if plan.own_ray else f"on the node {node}: {error}"
        finally:
            self._outbox.send()
        return ""

    def _access(self, plan: WorkerPlan, node: str, slots: int) -> WorkerAccess:
        cache, key = plan.cache, plan.key
        if not plan.own_ray:
            cache = node_cache(plan.cache, node)
            for thing in sweep(cache, containers=plan.containers):
                self._outbox.put("warn", f"{node}: removed {thing}")
            # The lock is held until this process ends.
            self._claim = claim(cache, plan.key)
            key = self._claim.key
        mark_children(key)
        threading.Thread(target=_follow, args=(plan.actor, self._stop), daemon=True).start()
        warn = partial(self._outbox.put, "warn")
        return WorkerAccess(cache, key, Slots(slots, self._stop), self._stop, warn)

    def work(self, job: Job, start: JobStart) -> Returned:
        """Work on a job if it may still start."""
        calls = RemoteCalls(self._actor, self._outbox, self._stop, start)
        try:
            if not calls.wait(self._actor.open):
                return Returned()
        except StoppedError:
            return Returned()
        except OSError as error:  # a full disk takes no log; the others may need less
            reason = f"cannot write its log: {error}"
            return Returned(Finished(job.key, InstanceStatus.INFRA_ERROR, reason))
        log = logging.Logger(job.key, logging.INFO)
        log.addHandler(RemoteLog(self._outbox, start, self._redact))
        try:
            try:
                return Returned(job.work(self._services, JobAccess(calls, calls, log)))
            finally:
                # All that was sent before has been handled when this is answered.
                self._outbox.send()
                calls.wait(self._actor.close)
        except StoppedError:
            return Returned()
        except UserError as error:
            return Returned(user_error=str(error))


@dataclass
class Outbox:
    """Sends what needs no answer, of all jobs of a worker together, in the order of ``put``."""

    actor: Any
    _waiting: list[Request] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, method: str, *arguments: object) -> None:
        """Have a method of ``RunServer`` called soon."""
        with self._lock:
            self._waiting.append(Request(None, method, arguments))

    def send(self) -> None:
        """Send what waits; what this process sends afterwards arrives later."""
        with self._lock:
            if self._waiting:
                self.actor.pass_on.remote(self._waiting)
                self._waiting = []

    def keep_sending(self) -> None:
        """Send from time to time, as long as the process lives."""
        while True:
            time.sleep(_EVERY)
            self.send()


@dataclass(frozen=True)
class RemoteCalls:
    """The run as one start of a job sees it; see ``WorkerCalls`` and ``Steps``."""

    actor: Any
    outbox: Outbox
    stop: Shutdown
    start: JobStart

    def entries(self, instance_id: str) -> Sequence[InstanceEntry]:
        """See ``WorkerCalls``."""
        return cast(Sequence[InstanceEntry], self.wait(self.actor.entries))

    def begin(self, instance_id: str, attempt: int, ask: Ask) -> Ticket | Wait:
        """See ``WorkerCalls``."""
        return cast("Ticket | Wait", self.wait(self.actor.begin, attempt, ask))

    def end(self, call: str, outcome: Outcome) -> bool:
        """See ``WorkerCalls``."""
        return bool(self.wait(self.actor.end, call, outcome))

    def stopping(self) -> str:
        """See ``WorkerCalls``."""
        return self.stop.reason

    def started(self, instance_id: str) -> None:
        """Do nothing: the driver started the job."""

    def step(self, instance_id: str, attempt: int, model: str, step: WorkStep) -> None:
        """See ``Steps``."""
        self.outbox.put("step", self.start, attempt, model, step)

    def wait(self, method: Any, *arguments: Any) -> Any:  # noqa: ANN401 - of ``RunActor``
        """Call a method of the run's actor and wait for its answer.

        By a future: in ``ray.get`` Ray would give the worker's processor to another one meanwhile,
        and more would run than there are processors for.

        Raises:
            InfrastructureError: the driver is gone.
            Exception: what the driver raised.
        """
        try:
            return method.remote(self.start, *arguments).future().result()
        except RayTaskError as error:
            raise error.cause from None
        except RayError as error:
            raise InfrastructureError(f"the driver does not answer: {error}") from error


class RemoteLog(QueueHandler):
    """Sends records to the driver, without the secrets of this machine."""

    def __init__(self, outbox: Outbox, start: JobStart, redact: Redactor) -> None:
        # The base class only gives its queue to ``enqueue``.
        super().__init__(cast(Any, None))
        self._outbox, self._start, self._redact = outbox, start, redact

    def enqueue(self, record: logging.LogRecord) -> None:
        """Send ``record``, whose arguments and traceback are text already."""
        record.msg = record.message = self._redact(str(record.msg))
        self._outbox.put("record", self._start, record)


def _follow(actor: Any, stop: Shutdown) -> None:  # noqa: ANN401 - an actor's handle
    """Stop when the run stops, or when its driver is gone."""
    try:
        stop.request(str(actor.stopping.remote().future().result()))
    except RayError as error:
        stop.request(f"the driver is gone: {error}")
