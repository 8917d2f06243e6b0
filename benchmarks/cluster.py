"""What faults of a cluster cost a run, against the same run without Ray.

``python -m benchmarks.cluster``.

Nodes in namespaces of this machine start by the commands of docs/scale.md. In each trial a run of
twelve instances of the demo meets one fault; its predictions must be those of a run without Ray.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.cluster import (
    CACHE,
    EXPORT,
    HOME,
    PYTHON,
    Cluster,
    Node,
    documented,
    missing_namespaces,
)
from tests.support.killing import hashes, ledger, results, wait_for

WORKERS = 6
CUT_SECONDS = 8.0
# Seconds of a round trip to a node.
DELAY = 0.2
# The most seconds until a run works again, by trial.
LIMITS = {
    "plain": 90.0,
    "kill": 60.0,
    "cut": 30.0,
    "delay": 90.0,
    "join": 60.0,
    "driver": 90.0,
    "keyless": 0.0,
}


@dataclass(frozen=True)
class FaultTrial:
    """How a run met a fault.

    Attributes:
        seconds: until the run worked again where the fault was, or of all its calls.
        calls: that the run needs.
        kinds: how the calls ended that stand in the ledger.
        repeated: requests beyond those.
        same: the predictions are those of a run without Ray, but for what lost calls may cost.
        output: what the driver printed.
    """

    name: str
    seconds: float
    calls: int
    kinds: Counter[str]
    repeated: int
    same: bool
    output: str

    @property
    def in_flight(self) -> int:
        """The calls whose end the run does not know; they may have to be made again."""
        return self.kinds.total() - self.kinds["answered"]

    def __str__(self) -> str:
        share = self.seconds / LIMITS[self.name]
        return (
            f"{self.name}: {self.seconds:.1f} s ({share:.0%} of the limit), "
            f"{self.repeated} of {self.calls} calls repeated, {self.in_flight} in flight"
        )

    @property
    def holds(self) -> bool:
        is_soon = self.seconds <= LIMITS[self.name]
        is_exact = self.kinds["answered"] == self.calls
        is_cheap = self.repeated <= self.in_flight <= WORKERS
        return self.same and is_soon and is_exact and is_cheap


@dataclass
class Trials:
    """Runs on one cluster; ``local`` makes the run without Ray that they are compared to."""

    cluster: Cluster
    needed: Counter[str] = field(default_factory=Counter)  # by request

    def local(self) -> None:
        provider = self.cluster.provider
        provider.hang = 0.1
        self.cluster.head.run(self._script("local", "--workers 6"))
        self.needed = hashes(provider)

    def out(self, name: str) -> Path:
        return self.cluster.head.outside(HOME / name)

    def _script(self, name: str, options: str) -> str:
        return (
            f"{documented(EXPORT)}; {PYTHON} harness.py --dataset {HOME}/rows.jsonl "
            "--models gpt-4o,gpt-4o-mini --environment none --set choice.stop=all "
            "--set models.temperatures=0,0.25,0.5 --tries 1 "
            f"--run r --out {HOME}/{name} --api-base {self.cluster.provider.url} "
            f"--set folders.repos={HOME}/mirrors --set calls.timeout=60 "
            f"--set folders.cache={CACHE}/swe-retry-harness {options}"
        )

    def script(self, name: str) -> str:
        """Return the command of a run with one worker process on each node."""
        cores = os.cpu_count()
        options = f"--workers {WORKERS} --set scale.ray=auto --set scale.cpus_per_instance={cores}"
        return self._script(name, options)

    @contextmanager
    def start_run(self, name: str, hang: float) -> Iterator[Future[str]]:
        """Start a run whose calls take ``hang`` seconds, and wait for its end."""
        provider = self.cluster.provider
        provider.forget()
        provider.hang = hang
        head = self.cluster.head
        with ThreadPoolExecutor(1) as other:
            script = self.script(name)
            yield other.submit(head.run, script, check=False)

    def trial(self, name: str, seconds: float, run: Future[str]) -> FaultTrial:
        there = self.out(name)
        kinds = Counter[str](line.kind for line in ledger(there))
        here = self.out("local")
        return FaultTrial(
            name=name,
            seconds=seconds,
            calls=self.needed.total(),
            kinds=kinds,
            repeated=self.cluster.provider.repeated(self.needed),
            same=results(there) == results(here),
            output=run.result(),
        )

    def plain(self) -> FaultTrial:
        """Make a run without a fault; the time is that of all its calls."""
        with self.start_run("plain", hang=0.5) as run:
            pass
        return self.trial("plain", self.cluster.provider.seconds, run)

    def kill(self) -> FaultTrial:
        """Kill a node; the time ends when a call of it is made again."""
        provider = self.cluster.provider
        node = self.cluster.nodes["first"]
        with self.start_run("kill", hang=1.0) as run:
            self._wait_for_call(node, run)
            moment = self._in_call(node, run, node.kill)
        lost = set()
        for arrival in provider.arrivals:
            if arrival.host == node.address:
                lost.add(arrival.sha256)
        again = provider.first_after(moment, lambda call: call.sha256 in lost)
        self.cluster.start("first")
        return self.trial("kill", again - moment, run)

    def cut(self) -> FaultTrial:
        """Cut a node off for some seconds; the time ends with its next call."""
        provider = self.cluster.provider
        node = self.cluster.nodes["second"]
        with self.start_run("cut", hang=1.0) as run:
            self._wait_for_call(node, run)
            self._in_call(node, run, lambda: self.cluster.cut(node.name))
            time.sleep(CUT_SECONDS)
            self.cluster.connect(node.name)
            moment = time.monotonic()
        again = provider.first_after(moment, lambda call: call.host == node.address)
        return self.trial("cut", again - moment, run)

    def delay(self) -> FaultTrial:
        """Delay two nodes; the time is that of all calls."""
        with (
            self.cluster.slow("first", "second", delay=DELAY / 2),
            self.start_run("delay", hang=0.5) as run,
        ):
            pass
        return self.trial("delay", self.cluster.provider.seconds, run)

    def join(self) -> FaultTrial:
        """Start one more node meanwhile; the time ends with its first call."""
        provider = self.cluster.provider
        with self.start_run("join", hang=4.0) as run:
            wait_for(3, provider)
            node = self.cluster.start("late")
            moment = time.monotonic()
        first = provider.first_after(moment, lambda call: call.host == node.address)
        return self.trial("join", first - moment, run)

    def driver(self) -> FaultTrial:
        """Kill the driver with -9 and continue the run; the time ends with its next call."""
        provider = self.cluster.provider
        node = self.cluster.nodes["first"]

        def kill() -> None:
            for process in self.cluster.head.processes():
                if "harness.py" in process.cmdline():
                    process.kill()

        with self.start_run("driver", hang=1.0) as run:
            self._wait_for_call(node, run)
            self._in_call(node, run, kill)
        before = len(provider.arrivals)
        moment = time.monotonic()
        head = self.cluster.head
        with ThreadPoolExecutor(1) as other:
            run = other.submit(head.run, self.script("driver"), check=False)
        seconds = provider.arrivals[before].time - moment
        return self.trial("driver", seconds, run)

    def without_key(self) -> FaultTrial:
        """Make a run where one node has no key."""
        self.cluster.stop("second")
        self.cluster.start("second", with_key=False)
        with self.start_run("keyless", hang=0.5) as run:
            pass
        self.cluster.stop("second")
        self.cluster.start("second")
        return self.trial("keyless", 0.0, run)

    def with_tests(self) -> str:
        """Make a run whose tests run in virtual environments, without Ray and on all nodes.

        Returns what the second printed.
        """
        head = self.cluster.head
        self.cluster.proxy.refuses = False
        self.cluster.provider.hang = 0.5
        head.run(_in_environments(self._script("tested-local", "--workers 2")))
        self.cluster.provider.forget()
        output = head.run(_in_environments(self.script("tested")))
        self.cluster.proxy.refuses = True
        return output

    def without_index(self) -> str:
        """Start a run that builds environments, but no node reaches an index."""
        script = _in_environments(self.script("indexless"))
        return self.cluster.head.run(script, check=False)

    def _wait_for_call(self, node: Node, run: Future[str]) -> None:
        """Wait until a node has made two calls, and a run some more."""
        provider = self.cluster.provider
        while not run.done():
            hosts = Counter(arrival.host for arrival in provider.arrivals)
            if hosts[node.address] >= 2 and hosts.total() >= 6:
                return
            time.sleep(0.02)
        raise AssertionError(run.result())

    def _in_call(
        self, node: Node, run: Future[str], act: Callable[[], object]
    ) -> float:
        """Act while a call of ``node`` is in flight, and return when."""
        provider = self.cluster.provider
        while not run.done():
            with provider.holding:
                if provider.calls_of(node.address):
                    moment = time.monotonic()
                    act()
                    return moment
            time.sleep(0.02)
        raise AssertionError(run.result())


def _in_environments(script: str) -> str:
    return script.replace("environment none", "environment local")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the trials and return 1 if one does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args(argv)
    reason = missing_namespaces()
    if reason:
        raise SystemExit(reason)
    exit_code = 0
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder)) as cluster:
        trials = Trials(cluster)
        trials.local()
        for measure in (
            trials.plain,
            trials.kill,
            trials.cut,
            trials.delay,
            trials.join,
            trials.driver,
        ):
            trial = measure()
            print(trial, flush=True)
            if not trial.holds:
                exit_code = 1
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
