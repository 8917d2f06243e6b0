"""Calls a second that one driver lets through: in its threads, against worker processes.

``python -m benchmarks.call_rate``.

A call is a permission and an outcome: two requests, two entries on the disk. Simulated jobs make
calls of no duration, first in threads of the driver, which ask the coordinator directly, then in
worker processes of a local Ray. The disk is that of ``--folder``.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import psutil
import ray

from swe_retry.core.shutdown import Shutdown
from swe_retry.llm.chat import Reply, Usage
from swe_retry.llm.gate import PlannedCall
from swe_retry.runner.calls.budget import Budget, BudgetLimits
from swe_retry.runner.calls.coordinator import CallCoordinator, WorkerCalls
from swe_retry.runner.calls.ledger import Ledger
from swe_retry.runner.calls.rate_limiter import RateLimiter, RateLimiterPolicy, Rates
from swe_retry.runner.engine import Driver
from swe_retry.runner.ray.engine import start_own_ray
from swe_retry.runner.ray.messages import JobStart, WorkerRequest
from swe_retry.runner.ray.server import RunServer, serve
from swe_retry.runner.ray.worker import DRIVER, Connection, RemoteCalls

_DIRECT_THREADS = 16
_CALL = PlannedCall(
    model="gpt-4o",
    provider="openai",
    request_sha256="a" * 64,
    tokens=5000,
    bound=Decimal("0.05"),
    exchange_sha256="b" * 64,
)
_REPLY = Reply(
    content="An edit of some lines.\n" * 60,
    usage=Usage(prompt_tokens=4000, completion_tokens=400),
    cost=Decimal("0.0143"),
    seconds=2.0,
    model="gpt-4o",
    request_sha256="a" * 64,
    exchange_sha256="b" * 64,
)


@dataclass(frozen=True)
class RateFigures:
    """Calls a second, seconds that a call took, and processors that each process used."""

    rate: float
    seconds: Sequence[float]
    processors: Mapping[str, float]

    def __str__(self) -> str:
        median = statistics.median(self.seconds)
        percentiles = statistics.quantiles(self.seconds, n=100)
        slow = percentiles[98]
        shares = [f"{name} {share:.2f}" for name, share in self.processors.items()]
        return (
            f"{self.rate:6.0f} calls/s, p50 {1000 * median:.0f} ms, "
            f"p99 {1000 * slow:.0f} ms; processors: {', '.join(shares)}"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="64,256,1000")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args(argv)
    seconds = options.seconds
    for count in options.workers.split(","):
        workers = int(count)
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            folder = Path(name)
            direct = measure_direct(folder / "direct", seconds)
            remote = measure_remote(
                folder / "ray",
                workers,
                options.processes,
                seconds,
            )
        print(f"driver alone, {_DIRECT_THREADS} threads: {direct}")
        print(f"{workers} workers of Ray:  {remote}")
        print(f"share: {remote.rate / direct.rate:.0%}", flush=True)
    return 0


def make_coordinator(folder: Path) -> CallCoordinator:
    budget = Budget(BudgetLimits(usd=Decimal(100_000)))
    return CallCoordinator(
        journals=folder / "journals",
        ledger=Ledger(folder / "ledger.jsonl"),
        budget=budget,
        rate_limiter=RateLimiter(Rates(), RateLimiterPolicy()),
        stop=Shutdown(),
    )


def measure_direct(folder: Path, seconds: float) -> RateFigures:
    """Measure threads of this process."""
    coordinator = make_coordinator(folder)
    calls = {f"job-{number}": coordinator for number in range(_DIRECT_THREADS)}
    shares: dict[str, float] = {}
    with processors_of({"driver": psutil.Process()}, shares):
        rate, durations = make_calls(calls, seconds)
    return RateFigures(rate, durations, shares)


def measure_remote(
    folder: Path, workers: int, processes: int, seconds: float
) -> RateFigures:
    """Measure threads of worker processes, whose requests this process serves."""
    coordinator = make_coordinator(folder)
    driver = Driver(
        benchmark=cast(Any, None),
        coordinator=coordinator,
        progress=cast(Any, None),
        warn_once=print,
        log=logging.getLogger("call_rate"),
    )
    server = RunServer(driver, lambda: True)
    with ExitStack() as stack:
        stack.callback(ray.shutdown)
        start_own_ray(processes)
        as_actor = ray.remote(concurrency_groups={DRIVER: 8})
        callers = [as_actor(Callers).remote() for _ in range(processes)]
        driver_process = psutil.Process()
        measured = {"driver": driver_process}
        for number, caller in enumerate(callers):
            pid = ray.get(caller.pid.remote())
            measured[f"worker {number}"] = psutil.Process(pid)
        for process in driver_process.children(recursive=True):
            name = process.name()
            if name in ("raylet", "gcs_server"):
                measured[name] = process
        shares: dict[str, float] = {}
        starts = [server.start(f"job-{number}") for number in range(workers)]
        serving = []
        for caller in callers:
            thread = threading.Thread(target=serve, args=(caller, server))
            thread.start()
            serving.append(thread)
        with processors_of(measured, shares):
            runs = []
            for number, caller in enumerate(callers):
                own_starts = starts[number::processes]
                runs.append(caller.run.remote(own_starts, seconds))
            results = ray.get(runs)
        for caller in callers:
            ray.kill(caller)
        for thread in serving:
            thread.join()
    rate = 0.0
    durations: list[float] = []
    for worker_rate, worker_durations in results:
        rate += worker_rate
        durations += worker_durations
    return RateFigures(rate, durations, shares)


class Callers:
    """A Ray actor: jobs that only make calls."""

    def __init__(self) -> None:
        self._connection = Connection()

    @ray.method(concurrency_group=DRIVER)  # type: ignore[untyped-decorator]
    def exchange(self, number: int, answers: Sequence[Any]) -> list[WorkerRequest]:
        return self._connection.exchange(number, answers)

    def pid(self) -> int:
        return psutil.Process().pid

    def run(
        self, starts: Sequence[JobStart], seconds: float
    ) -> tuple[float, list[float]]:
        calls = {}
        for start in starts:
            calls[start.key] = RemoteCalls(self._connection, start)
        return make_calls(calls, seconds)


def make_calls(
    calls: Mapping[str, WorkerCalls], seconds: float
) -> tuple[float, list[float]]:
    """Make calls for each job for ``seconds``; return the rate, and what each took."""
    durations: list[float] = []
    end = time.monotonic() + seconds

    def work(key: str, coordinator: WorkerCalls) -> None:
        while time.monotonic() < end:
            start = time.monotonic()
            ticket = coordinator.begin(key, 1, _CALL)
            assert isinstance(ticket, str)
            coordinator.end(ticket, _REPLY)
            durations.append(time.monotonic() - start)

    threads = [threading.Thread(target=work, args=item) for item in calls.items()]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.monotonic() - began
    return len(durations) / elapsed, durations


@contextmanager
def processors_of(
    processes: Mapping[str, psutil.Process], shares: dict[str, float]
) -> Iterator[None]:
    """Write to ``shares`` how many processors each process uses meanwhile."""
    started = time.monotonic()
    before = {name: _cpu(process) for name, process in processes.items()}
    psutil.cpu_percent()
    yield
    elapsed = time.monotonic() - started
    processors = psutil.cpu_count() or 1
    shares["all programs"] = psutil.cpu_percent() / 100 * processors
    for name, process in processes.items():
        used = _cpu(process) - before[name]
        shares[name] = used / elapsed


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    sys.exit(main())
