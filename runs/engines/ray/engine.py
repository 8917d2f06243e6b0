"""The Ray engine: worker processes, here or on a cluster, that are replaced when they die.

A worker on a cluster has one job at a time, and Ray reserves a job's processors for it. On this
machine alone there are at most as many workers as processors, and each works on its share of the
jobs in threads, because a process for each job would take too much memory.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from core.errors import UserError
from runs.engines.base import Driver
from runs.engines.ray.actor import JobStart, RunActor
from runs.engines.ray.server import RunServer, serving
from runs.engines.ray.worker import Returned, Worker, WorkerPlan
from runs.jobs import End, Finished, Job
from runs.records import InstanceStatus
from runs.settings import ScaleSettings
from runs.storage.versions import CODE

# Seconds between two looks at whether the run is stopping.
_LOOK = 0.5
# Seconds until a job starts again, times its losses: for a while the cluster does not know that a
# node is dead, and would use it again.
_REST = 5.0
# Starts of a job whose workers die: they die by chance, but some jobs kill theirs.
_STARTS = 4


@dataclass(frozen=True)
class Room:
    """What a worker takes: jobs at once, pieces of local work at once, and processors."""

    jobs: int
    slots: int
    cpus: float


@dataclass(eq=False)
class _Hired:
    """A worker of the run; ``in_work`` counts its jobs."""

    actor: Any
    room: Room
    ready: bool = False
    in_work: int = 0

    @property
    def free(self) -> int:
        return self.room.jobs - self.in_work


@dataclass(frozen=True)
class RayEngine:
    """Workers of Ray; see ``Engine``."""

    driver: Driver

    def run(
        self,
        jobs: Sequence[Job],
        may_start: Callable[[], bool],
    ) -> Iterator[Finished[Any]]:
        if not jobs:
            return
        driver = self.driver
        benchmark = self.driver.benchmark
        scale = benchmark.options.settings.scale
        packages = benchmark.packages
        rooms = rooms_of(scale, benchmark.cpus, len(jobs))
        address = scale.cluster
        own = not address
        with (
            own_ray(len(rooms))
            if own
            else connect_cluster(address, rooms[0].cpus, packages)
        ):
            actor = make_run_actor(scale.workers)
            server = RunServer(driver, may_start)
            plan = WorkerPlan(
                benchmark.services(),
                benchmark.containers,
                benchmark.options.cache,
                driver.run_key,
                own,
                actor,
            )
            with serving(actor, server):
                yield from _Workers(driver, server, actor, ray.put(plan), rooms).run(
                    jobs
                )


def rooms_of(
    scale: ScaleSettings,
    cpus: float,
    jobs: int,
) -> list[Room]:
    """Return what the workers of a run of so many jobs take."""
    workers = min(scale.workers, jobs)
    if scale.cluster:
        return [Room(1, 1, scale.cpus_per_instance or cpus)] * workers
    count = min(workers, scale.processors)
    shares = zip(_split(workers, count), _split(scale.processors, count), strict=True)
    return [Room(in_work, slots, 1) for in_work, slots in shares]


def _split(number: int, parts: int) -> list[int]:
    least, remainder = divmod(number, parts)
    return [least + (part < remainder) for part in range(parts)]


@dataclass
class _Workers:
    driver: Driver
    server: RunServer
    actor: Any  # the handle of the run's actor
    plan: Any  # the reference of the workers' ``WorkerPlan``
    rooms: list[Room]  # of workers that may be started
    _hired: list[_Hired] = field(default_factory=list)
    _waiting: deque[Job] = field(default_factory=deque)
    _resting: list[tuple[float, Job]] = field(default_factory=list)
    # What is waited for: a worker that gets ready, or its work on a job.
    _pending: dict[Any, tuple[_Hired, Job | None]] = field(default_factory=dict)
    _losses: Counter[str] = field(default_factory=Counter)
    _failed_starts: int = 0
    _user_error: str = ""
    _stopped: bool = False

    def run(self, jobs: Sequence[Job]) -> Iterator[Finished[Any]]:
        self._waiting.extend(jobs)
        while True:
            if self.server.may_start():
                now = time.monotonic()
                self._waiting.extendleft(
                    job for until, job in self._resting if until <= now
                )
                self._resting = [
                    (until, job) for until, job in self._resting if until > now
                ]
                self._hire()
                self._hand_out()
            else:
                self._end()
            if not self._in_work and not self._waiting and not self._resting:
                break
            for reference in self._ready():
                worker, job = self._pending.pop(reference)
                if job is None:
                    self._prepared(worker, reference)
                else:
                    worker.in_work -= 1
                    yield from self._worked(worker, job, reference)
        if self._user_error:
            raise UserError(self._user_error)

    @property
    def _in_work(self) -> bool:
        return any(worker.in_work for worker in self._hired) or any(
            job is not None for _, job in self._pending.values()
        )

    def _ready(self) -> Sequence[Any]:
        if not self._pending:
            time.sleep(_LOOK)
            return ()
        ready, _ = ray.wait(list(self._pending), timeout=_LOOK)
        return tuple(ready)

    def _hire(self) -> None:
        free = sum(worker.free for worker in self._hired)
        while self.rooms and free < len(self._waiting):
            room = self.rooms.pop()
            actor = (
                ray.remote(Worker)
                .options(
                    num_cpus=room.cpus,
                    max_restarts=0,
                    max_task_retries=0,
                    max_concurrency=room.jobs,
                    scheduling_strategy="SPREAD",
                )
                .remote()
            )
            worker = _Hired(actor, room)
            self._hired.append(worker)
            self._pending[actor.prepare.remote(self.plan, room.slots)] = worker, None
            free += room.jobs
        if not self._waiting and not self._resting:
            for worker in [worker for worker in self._hired if not worker.in_work]:
                self._dismiss(worker)

    def _hand_out(self) -> None:
        while self._waiting:
            ready = [
                worker for worker in self._hired if worker.ready and worker.free > 0
            ]
            if not ready:
                return
            worker = max(ready, key=lambda one: one.free)
            job = self._waiting.popleft()
            start: JobStart = self.server.start(job.key)
            self._pending[worker.actor.work.remote(job.portable(), start)] = worker, job
            worker.in_work += 1

    def _end(self) -> None:
        """Start nothing more; where the run stops, let the workers know."""
        self._waiting.clear()
        self._resting.clear()
        if not self._stopped and (reason := self.driver.coordinator.stopping()):
            self.actor.stop.remote(reason)
            self._stopped = True

    def _dismiss(self, worker: _Hired) -> None:
        if worker in self._hired:
            self._hired.remove(worker)
            self.rooms.append(worker.room)
            ray.kill(worker.actor)

    def _prepared(self, worker: _Hired, reference: Any) -> None:  # noqa: ANN401
        if worker not in self._hired:  # it was dismissed meanwhile
            return
        try:
            error = ray.get(reference)
        except RayError as failure:
            self._dismiss(worker)
            self._failed_starts += 1
            error = _unusable(failure)
            if not error and self._failed_starts >= _STARTS:
                error = f"{_STARTS} workers died before they were ready ({type(failure).__name__})"
        else:
            self._failed_starts = 0
            worker.ready = not error
        if error:
            self._fail(error)

    def _fail(self, error: str) -> None:
        self._user_error = self._user_error or error
        self.driver.stop.request(error)

    def _worked(
        self,
        worker: _Hired,
        job: Job,
        reference: Any,  # noqa: ANN401
    ) -> Iterator[Finished[Any]]:
        try:
            returned: Returned = ray.get(reference)
        except RayTaskError as failure:
            returned = Returned(user_error=_unusable(failure))
        except RayError as failure:
            self._dismiss(worker)
            yield from self._lost(job, type(failure).__name__)
            return
        if returned.user_error:
            self._fail(returned.user_error)
        if returned.finished is not None:
            yield returned.finished

    def _lost(self, job: Job, why: str) -> Iterator[Finished[Any]]:
        self.server.give_up(job.key)
        self._losses[job.key] += 1
        count = self._losses[job.key]
        text = "%s: its worker died (%s), for the %d. time"
        self.driver.log.log(logging.WARNING, text, job.key, why, count)
        if not self.server.may_start():
            yield Finished(job.key, End(InstanceStatus.INTERRUPTED, "its worker died"))
        elif count >= _STARTS:
            reason = f"infrastructure failed: its worker died {count} times ({why})"
            yield Finished(job.key, End(InstanceStatus.INFRA_ERROR, reason))
        else:
            self._resting.append((time.monotonic() + _REST * count, job))


def _unusable(failure: RayError) -> str:
    """Return what is wrong with a node that cannot run the harness's code; empty for a death."""
    if isinstance(failure, RayTaskError):
        why = f"{type(failure.cause).__name__}: {failure.cause}".partition("\n")[0]
    elif isinstance(failure, RayActorError) and failure.actor_init_failed:
        why = str(failure).strip().rpartition("\n")[2]
    else:
        return ""
    return f"a node cannot run the harness ({why}): install requirements-ray.txt there"


_PACKAGES = ("core", "llm", "agent", "environments", "runs")
# A worker waits for the run's end, and each of its jobs for an answer.
_CALLS_PER_WORKER = 4
_CALLS_OF_DRIVER = 32
# Of the store for large objects, which this harness does not use; Ray's least is 75 MB.
_OBJECT_STORE = 100_000_000
# Seconds that a cluster has to take a connection.
_PATIENCE = 10.0


@contextmanager
def own_ray(cpus: int) -> Iterator[None]:
    """Start a Ray on this machine for so many worker processes, and stop it at the end.

    Its processes inherit the run's key: where the driver is killed, the next start ends them. They
    import the code from where it is.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    path = os.pathsep.join(filter(None, [str(CODE), os.environ.get("PYTHONPATH")]))
    environment = {"env_vars": {"PYTHONPATH": path}}
    with _initialized(
        environment,
        address="local",
        num_cpus=cpus,
        include_dashboard=False,
        object_store_memory=_OBJECT_STORE,
    ) as error:
        if error is not None:
            raise UserError(f"scale.ray: Ray does not start on this machine ({error})")
        yield


@contextmanager
def connect_cluster(
    address: str,
    cpus: float,
    packages: Sequence[str],
) -> Iterator[None]:
    """Connect this process to the cluster at ``address``, with the code for its workers.

    The code travels with the run, so that no node works with an older version that it has.
    """
    if address.startswith("ray://"):
        raise UserError(
            f"scale.ray {address}: start the run on a node of the cluster, with auto"
        )
    _check_answers(address)
    with (
        _code(packages) as code,
        _initialized({"working_dir": str(code)}, address=address) as error,
    ):
        if error is not None:
            raise UserError(
                f"scale.ray {address}: no cluster to be used there ({error}); start one "
                "with `ray start --head`"
            )
        _check_processors(cpus)
        yield


@contextmanager
def _initialized(
    runtime_env: Mapping[str, Any],
    **options: Any,  # noqa: ANN401
) -> Iterator[str | None]:
    before = signal.getsignal(signal.SIGTERM)
    error = None
    with ExitStack() as stack:
        stack.callback(ray.shutdown)
        try:
            ray.init(
                runtime_env=dict(runtime_env),
                log_to_driver=False,
                logging_level=logging.ERROR,
                **options,
            )
        except (ConnectionError, RuntimeError, ValueError) as failure:
            error = str(failure).strip().partition("\n")[0]
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)
        yield error


def _check_answers(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), _PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise UserError(
            f"scale.ray {address}: nothing answers there ({error}); start a cluster with "
            "`ray start --head`"
        ) from error


def _check_processors(cpus: float) -> None:
    largest = max(
        (node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]),
        default=0,
    )
    if cpus > largest:
        raise UserError(
            f"no node has the {cpus:g} processors of an instance, the largest {largest:g}: give "
            "less with scale.cpus_per_instance"
        )


@contextmanager
def _code(packages: Sequence[str]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="swe-retry-harness.") as name:
        for package in (*_PACKAGES, *packages):
            ignore = shutil.ignore_patterns("__pycache__", ".pytest_cache")
            shutil.copytree(CODE / package, Path(name) / package, ignore=ignore)
        yield Path(name)


def make_run_actor(workers: int) -> Any:  # noqa: ANN401 - Ray's handles have no types
    """Return the run's actor, on the driver's own node."""
    here = NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    options = {"num_cpus": 0, "max_restarts": 0, "scheduling_strategy": here}
    concurrency = _CALLS_PER_WORKER * workers + _CALLS_OF_DRIVER
    return ray.remote(RunActor).options(**options, max_concurrency=concurrency).remote()
