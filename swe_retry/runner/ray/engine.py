"""The Ray engine: worker processes, here or on a cluster, that are replaced when they die.

A worker works on its share of the jobs in threads, because a process for each job would take too
much memory. Ray reserves processors and memory for it. A fault of a node does not end the run: the
node is left out and named, and its jobs are tried on others.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from swe_retry.core.errors import UserError
from swe_retry.core.plaintext import Say
from swe_retry.record.result import InstanceStatus
from swe_retry.record.versions import CODE, versions
from swe_retry.runner.checks import key_variables
from swe_retry.runner.engine import Driver
from swe_retry.runner.jobs import End, Finished, Job
from swe_retry.runner.ray.nodes import MAX_DEATHS, Node, Nodes, Room
from swe_retry.runner.ray.server import RunServer, serve
from swe_retry.runner.ray.worker import DRIVER, Worker, WorkerPlan
from swe_retry.runner.settings import ScaleSettings

# Seconds between two looks at whether the run is stopping, and between two at the nodes.
_LOOK = 0.5
_LOOK_AT_NODES = 2.0
# Starts of a job whose workers die: they die by chance, but some jobs kill theirs.
_STARTS = 4
# Nodes that a job is tried on where it ends by a fault of the infrastructure.
_NODES = 3
# Threads of a worker in which the driver fetches requests, again after the connection was lost, and
# stops it.
_CALLS_OF_DRIVER = 8
# Seconds in which a worker has to learn that the run stops.
_STOP_GRACE = 15.0


@dataclass(eq=False)
class _Hired:
    """A worker of the run; ``in_work`` counts its jobs."""

    actor: Any
    jobs: int  # at most
    node: Node
    ready: bool = False
    in_work: int = 0
    stopping: Future[None] = field(default_factory=Future)  # done once it knows


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
        benchmark = self.driver.benchmark
        config = benchmark.config
        scale = config.settings.scale
        key = self.driver.run_key
        plan = WorkerPlan(
            services=benchmark.services(),
            containers=benchmark.containers,
            needs_index=benchmark.needs_index,
            cache=config.cache,
            key=key,
            own_ray=not scale.cluster,
            keys=key_variables(config),
            versions=versions(),
        )
        count = min(config.workers, len(jobs))
        with ExitStack() as stack:
            stack.callback(ray.shutdown)
            if scale.cluster:
                work = config.cache / "work" / key
                warn = self.driver.warn_once
                connect_cluster(scale.cluster, benchmark.packages, work, warn)
            else:
                start_own_ray(min(count, scale.processors))
            server = RunServer(self.driver, may_start)
            workers = _Workers(self.driver, server, ray.put(plan), scale, count)
            stack.callback(workers.close)
            yield from workers.run(jobs)


@dataclass
class _Workers:
    driver: Driver
    server: RunServer
    plan: Any  # the reference of the workers' ``WorkerPlan``
    scale: ScaleSettings
    count: int  # of jobs at once
    _nodes: Nodes = field(default_factory=Nodes)
    _next_look: float = 0.0
    _room: Room = field(init=False)
    _hired: list[_Hired] = field(default_factory=list)
    _servers: list[threading.Thread] = field(default_factory=list)
    _waiting: deque[Job] = field(default_factory=deque)
    # By Ray's reference of what is waited for.
    _starting: dict[Any, _Hired] = field(default_factory=dict)
    _in_work: dict[Any, tuple[_Hired, Job]] = field(default_factory=dict)
    _losses: Counter[str] = field(default_factory=Counter)
    # By job, the nodes where it ended by their fault.
    _tried: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _user_error: str = ""
    _stopped: float | None = None

    def run(self, jobs: Sequence[Job]) -> Iterator[Finished[Any]]:
        self._waiting.extend(jobs)
        while True:
            if self.server.may_start():
                self._look_at_nodes()
                self._hire()
                self._hand_out()
            else:
                yield from self._end()
            if not self._in_work and not self._waiting:
                break
            for reference in self._ready():
                if reference in self._starting:
                    self._note_start(self._starting.pop(reference), reference)
                else:
                    yield from self._end_work(reference)
        if self._user_error:
            raise UserError(self._user_error)

    def close(self) -> None:
        """End all workers, and what serves them: Ray crashes where it ends before a thread."""
        for worker in list(self._hired):
            self._dismiss(worker)
        for thread in self._servers:
            thread.join()

    def _ready(self) -> Sequence[Any]:
        references = [*self._starting, *self._in_work]
        if not references:
            time.sleep(_LOOK)
            return ()
        ready, _ = ray.wait(references, timeout=_LOOK)
        return tuple(ready)

    def _look_at_nodes(self) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_AT_NODES
        earlier = set(self._nodes.alive)
        self._nodes.update(ray.nodes())
        smallest = Room.of(self.scale, self.count, self.count)
        processes = min(self._nodes.capacity(smallest), self.count)
        room = Room.of(self.scale, self.count, processes)
        self._room = room
        for node in self._nodes.alive.values():
            if node.id not in earlier and not node.capacity(room):
                self._leave_out(
                    node,
                    f"the node {node.address} has {node.cpus:g} processors and "
                    f"{node.memory / 1e6:.0f} MB, a worker needs {room.cpus:g} "
                    f"(scale.cpus_per_instance) and {room.memory / 1e6:.0f} MB",
                )
        problems = self._nodes.problems(room)
        if problems:
            self._user_error = "; ".join(problems)
            self.driver.stop.request(self._user_error)

    def _hire(self) -> None:
        """Start workers, as many as the nodes take and the jobs need, few at a time on a node."""
        count = min(
            self.count,
            len(self._waiting) + len(self._in_work),
            self._nodes.capacity(self._room),
        )
        while len(self._hired) < count:
            node = self._nodes.next_for(self._room)
            if node is None:
                break
            self._start_worker(node)
        for worker in list(self._hired):
            needed = self._waiting and not worker.node.problem
            if not worker.in_work and not needed:
                self._dismiss(worker)

    def _start_worker(self, node: Node) -> None:
        room = self._room
        here = NodeAffinitySchedulingStrategy(node.id, soft=False)
        as_actor = ray.remote(
            num_cpus=room.cpus,
            memory=room.memory or None,
            max_restarts=0,
            max_concurrency=room.jobs,
            concurrency_groups={DRIVER: _CALLS_OF_DRIVER},
            scheduling_strategy=here,
        )
        actor = as_actor(Worker).remote()
        thread = threading.Thread(
            target=serve,
            args=(actor, self.server),
            daemon=True,
        )
        thread.start()
        self._servers.append(thread)
        worker = _Hired(actor, room.jobs, node)
        self._hired.append(worker)
        node.workers += 1
        node.starting += 1
        reference = actor.prepare.remote(self.plan, room.slots)
        self._starting[reference] = worker

    def _hand_out(self) -> None:
        """Give jobs to the workers with the fewest, but not to nodes where they failed."""
        for job in tuple(self._waiting):
            tried = self._tried[job.key]
            if not self._nodes.has_other(self._room, tried):
                tried = set()
            worker = self._free_worker(tried)
            if worker is not None:
                self._waiting.remove(job)
                start = self.server.start(job.key)
                portable = job.portable()
                reference = worker.actor.work.remote(portable, start)
                self._in_work[reference] = (worker, job)
                worker.in_work += 1
            elif not tried:
                break

    def _free_worker(self, tried: set[str]) -> _Hired | None:
        if len(self._in_work) >= self.count:
            return None
        # Those that are starting have their share, too.
        workers = max(1, len(self._hired))
        share = math.ceil(self.count / workers)
        free = []
        for worker in self._hired:
            node = worker.node
            is_usable = not node.problem and node.id not in tried
            has_room = worker.in_work < min(worker.jobs, share)
            if worker.ready and is_usable and has_room:
                free.append(worker)
        return min(free, key=lambda worker: worker.in_work, default=None)

    def _end(self) -> Iterator[Finished[Any]]:
        """Start nothing more; where the run stops, let the workers know."""
        self._waiting.clear()
        reason = self.driver.coordinator.stopping()
        if not reason:
            return
        if self._stopped is None:
            self._stopped = time.monotonic()
            for worker in self._hired:
                worker.stopping = worker.actor.stop.remote(reason).future()
        elif time.monotonic() > self._stopped + _STOP_GRACE:
            yield from self._abandon_silent()

    def _abandon_silent(self) -> Iterator[Finished[Any]]:
        """Yield the jobs of workers that cannot be reached: the run does not wait for them."""
        end = End[Any](InstanceStatus.INTERRUPTED, "its node does not answer")
        for reference, (worker, job) in tuple(self._in_work.items()):
            if not worker.stopping.done():
                del self._in_work[reference]
                self.server.give_up(job.key)
                yield Finished(job.key, end)

    def _dismiss(self, worker: _Hired, failure: RayError | None = None) -> None:
        if worker in self._hired:
            self._hired.remove(worker)
            worker.node.workers -= 1
            ray.kill(worker.actor)
        if isinstance(failure, OutOfMemoryError):
            worker.node.note_memory()

    def _note_start(self, worker: _Hired, reference: Any) -> None:  # noqa: ANN401
        node = worker.node
        node.starting -= 1
        if worker not in self._hired:  # it was dismissed meanwhile
            return
        try:
            ray.get(reference)
        except RayError as failure:
            self._dismiss(worker, failure)
            problem = _problem_of(failure)
            if problem:
                self._leave_out(node, problem)
            else:
                self._note_death(node, failure)
        else:
            node.deaths = 0
            worker.ready = True

    def _note_death(self, node: Node, failure: RayError) -> None:
        node.note_death()
        problem = (
            f"on the node {node.address}: workers that died before they were ready: "
            f"{node.deaths} ({type(failure).__name__})"
        )
        self.driver.log.warning("%s", problem)
        if node.deaths >= MAX_DEATHS and not node.workers:
            self._leave_out(node, problem)

    def _leave_out(self, node: Node, problem: str) -> None:
        """Give a node no more jobs; it may come back as another one."""
        if not node.problem:
            node.problem = problem
            if self.scale.cluster:
                self.driver.warn_once(f"left out: {problem}")

    def _end_work(self, reference: Any) -> Iterator[Finished[Any]]:  # noqa: ANN401
        worker, job = self._in_work.pop(reference)
        worker.in_work -= 1
        node = worker.node
        try:
            finished: Finished[Any] | None = ray.get(reference)
        except RayError as failure:
            problem = _problem_of(failure)
            if problem:
                self._leave_out(node, problem)
                self._retry_elsewhere(node, job)
            else:
                self._dismiss(worker, failure)
                node.note_death()
                yield from self._lose(job, type(failure).__name__)
            return
        if finished is None:  # it did not start
            return
        is_fault = finished.end.status == InstanceStatus.INFRA_ERROR
        if not (is_fault and self._retry_elsewhere(node, job)):
            yield finished

    def _retry_elsewhere(self, node: Node, job: Job) -> bool:
        """Try a job on another node before its end is recorded; return whether there is any."""
        tried = self._tried[job.key]
        tried.add(node.id)
        if len(tried) >= _NODES:
            return False
        if not self._nodes.has_other(self._room, tried):
            return False
        text = f"{job.key}: tried on another node than {node.address}"
        self.driver.log.warning("%s", text)
        self._waiting.appendleft(job)
        return True

    def _lose(self, job: Job, why: str) -> Iterator[Finished[Any]]:
        key = job.key
        self.server.give_up(key)
        self._losses[key] += 1
        count = self._losses[key]
        text = "%s: its worker died (%s), for the %d. time"
        self.driver.log.warning(text, key, why, count)
        if not self.server.may_start():
            end = End[Any](InstanceStatus.INTERRUPTED, "its worker died")
            yield Finished(key, end)
        elif count < _STARTS:
            self._waiting.appendleft(job)
        else:
            reason = f"infrastructure failed: its worker died {count} times ({why})"
            end = End[Any](InstanceStatus.INFRA_ERROR, reason)
            yield Finished(key, end)


def _problem_of(failure: RayError) -> str:
    """Return what is wrong with the node of a worker that failed; empty for a death."""
    if isinstance(failure, RayTaskError):
        cause = failure.cause
        if isinstance(cause, UserError):
            return str(cause)
        why = f"{type(cause).__name__}: {cause}".partition("\n")[0]
    elif isinstance(failure, RayActorError) and failure.actor_init_failed:
        why = str(failure).strip().rpartition("\n")[2]
    else:
        return ""
    return f"a node cannot run the harness ({why}): run `make setup-ray` there"


# Of the store for large objects, which this harness does not use; Ray's least is 75 MB.
_OBJECT_STORE = 100_000_000
# Seconds that a cluster has to take a connection.
_PATIENCE = 10.0
_ASK = """
import sys
from ray._raylet import GcsClient
GcsClient(address=sys.argv[1]).internal_kv_keys(b"", namespace=None)
"""
_ASK_TIMEOUT = 60.0
_OPEN = (
    "WARNING: this Ray cluster has no authentication: anyone who reaches its ports (6379, 8265, "
    "10001 and those of its workers) can run code on every node and read its keys; start it with "
    "RAY_AUTH_MODE=token (docs/scale.md)"
)


def start_own_ray(cpus: int) -> None:
    """Start a Ray on this machine for so many worker processes; ``ray.shutdown`` ends it.

    Its processes inherit the run's key: where the driver is killed, the next start ends them. They
    import the code from where it is.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    paths = [str(CODE), os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    _initialize_ray(
        "scale.ray: Ray does not start on this machine",
        address="local",
        runtime_env={"env_vars": environment},
        num_cpus=cpus,
        include_dashboard=False,
        object_store_memory=_OBJECT_STORE,
    )


def connect_cluster(
    address: str,
    packages: Sequence[str],
    work: Path,
    warn_once: Say,
) -> None:
    """Connect this process to the cluster at ``address``, with the code for its workers.

    The code travels with the run, so that no node works with an older version that it has. Its copy
    lies in ``work``, which is removed with what else the run leaves there.
    """
    if address.startswith("ray://"):
        raise UserError(
            f"scale.ray {address}: start the run on a node of the cluster, with auto"
        )
    _check_answers(address)
    code = _copy_code(packages, work)
    problem = (
        f"scale.ray {address}: no cluster to be used there; start one with "
        "`ray start --head`"
    )
    environment = {"working_dir": str(code)}
    _initialize_ray(problem, address=address, runtime_env=environment)
    head = ray.get_runtime_context().gcs_address
    if _is_open(head):
        warn_once(_OPEN)


def _initialize_ray(problem: str, **options: Any) -> None:  # noqa: ANN401
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(f"{problem} ({reason})") from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


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


def _is_open(address: str) -> bool:
    """Tell whether the cluster takes orders without a token.

    Its own process asks: Ray reads the mode at its import, and a cluster without authentication
    accepts the token of a driver, too.
    """
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled"}
    command = [sys.executable, "-c", _ASK, address]
    probe = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        check=False,
        timeout=_ASK_TIMEOUT,
    )
    return probe.returncode == 0


def _copy_code(packages: Sequence[str], work: Path) -> Path:
    target = work / "code"
    ignore = shutil.ignore_patterns("__pycache__", ".pytest_cache")
    for package in ("swe_retry", *packages):
        spec = find_spec(package)
        assert spec is not None and spec.submodule_search_locations
        [source] = spec.submodule_search_locations
        shutil.copytree(source, target / package, ignore=ignore)
    return target
