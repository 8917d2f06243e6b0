"""Many workers against a slow model: ``python -m benchmarks.throughput``.

A server on loopback takes ten seconds for each answer. The harness makes three calls an attempt and
two attempts a try, with as many instances as workers, on a generated repository of flask's size,
with warm caches and no tests. A bare loop of litellm calls then sends the same conversations with
as many workers. Calls a second are taken from the server's first request to its last answer.

``--job completions`` measures jobs that only call models: CanItEdit's ``run``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from demo.setup import commit_all

_TOP = Path(__file__).resolve().parent.parent
_FILES = 240
_LINES = 60
_MODELS = 2
_CALLS = 3
_LOOK = 2.0
_REPO = "bench/flasklike"
_ENGINES = ("local", "ray")
# The least share of the bare loop by workers. Attempts on Ray have none: they make checkouts, maps
# and patches between calls, and how many the processors can make is measured, not what Ray takes.
_GOALS = {
    ("local", "attempts"): {64: 0.9, 256: 0.9},
    ("ray", "completions"): {256: 0.8},
}


@dataclass(frozen=True)
class Measured:
    """Calls per second, CPU seconds and peak memory (MB) of a run, including all children."""

    workers: int
    calls: int
    rate: float
    cpu: float
    peak: float


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table and return 1 if a share is below its goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="1,8,64,256")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--engine", choices=_ENGINES, default="local")
    parser.add_argument(
        "--job", choices=("attempts", "completions"), default="attempts"
    )
    options = parser.parse_args(argv)
    counts = [int(word) for word in options.workers.split(",")]
    with tempfile.TemporaryDirectory() as folder, slow_provider(options.seconds) as url:
        kind: type[Bench] = CompletionBench
        if options.job == "attempts":
            kind = Bench
        bench = kind(Path(folder), url, options.engine, options.tries)
        bench.prepare(max(counts))
        found = [bench.both(count) for count in counts]
    return report(found, options.seconds, _GOALS.get((options.engine, options.job), {}))


@dataclass(frozen=True)
class Bench:
    """Measures the harness and the bare loop with one server."""

    folder: Path
    url: str
    engine: str
    tries: int

    def prepare(self, instances: int) -> None:
        """Make the repository and the instances, and fill the caches."""
        commit = make_repository(self.folder)
        rows = [row(number, commit) for number in range(instances)]
        (self.folder / "rows.json").write_text(json.dumps(rows))
        self.harness(instances, "warm", 1)

    def both(self, workers: int) -> tuple[Measured, Measured]:
        """Measure the harness, then the bare loop with the same conversations."""
        ours = self.harness(workers, f"w{workers}", self.tries)
        rounds = json.dumps(self._rounds(self._ask("figures")["longest"]))
        calls = self.tries * _MODELS * _CALLS
        argv = [
            sys.executable,
            "-m",
            "benchmarks.bare_loop",
            f"{self.url}/v1",
            str(workers),
        ]
        bare = self._measured([*argv, str(calls)], workers, rounds)
        print(
            f"{workers} workers: {ours.rate:.1f} of {bare.rate:.1f} calls a second",
            flush=True,
        )
        return ours, bare

    def _rounds(self, longest: list[Any]) -> list[list[Any]]:
        """Return the messages of an attempt's calls."""
        return [longest[: 2 + 2 * number] for number in range(len(longest) // 2)]

    def harness(
        self,
        workers: int,
        run: str,
        tries: int,
    ) -> Measured:
        """Run as many instances as workers."""
        argv = [
            sys.executable,
            "harness.py",
            "--dataset",
            str(self.folder / "rows.json"),
            "--models",
            "gpt-4o,gpt-4o-mini",
            "--set",
            "choice.stop=all",
            "--environment",
            "none",
            "--slice",
            f"0:{workers}",
            "--set",
            "folders.repos=" + str(self.folder / "mirrors"),
            "--set",
            "folders.cache=" + str(self.folder / "cache"),
            "--set",
            "calls.timeout=120",
            "--tries",
            str(tries),
        ]
        if self.engine == "ray":
            argv += ["--set", "scale.ray=own"]
        return self._measured([*argv, *self._scale(workers, run)], workers, "")

    def _scale(self, workers: int, run: str) -> list[str]:
        return [
            "--api-base",
            f"{self.url}/v1",
            "--workers",
            str(workers),
            "--out",
            str(self.folder / "out"),
            "--run",
            run,
        ]

    def _measured(
        self,
        argv: list[str],
        workers: int,
        stdin: str,
    ) -> Measured:
        self._ask("reset")
        process = subprocess.Popen(
            argv, cwd=_TOP, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        assert process.stdin is not None
        process.stdin.write(stdin)
        process.stdin.close()
        with peak_memory(process.pid) as peak:
            _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{argv[1:3]} failed")
        seen = self._ask("figures")
        rate = seen["answers"] / (seen["last"] - seen["first"])
        cpu = usage.ru_utime + usage.ru_stime
        return Measured(workers, seen["answers"], rate, cpu, max(peak))

    def _ask(self, what: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/{what}") as response:
            content: dict[str, Any] = json.load(response)
        return content


class CompletionBench(Bench):
    """Measures CanItEdit's ``run``: each job has as many completions as the attempts have calls."""

    def prepare(self, instances: int) -> None:
        """Write the problems."""
        taxonomy = {"change_kind": "adaptive", "libraries": [], "topic": "DSA"}
        before = "\n\n".join(f"def f{n}(x):\n    return x + {n}" for n in range(60))
        rows = []
        for number in range((instances + 1) // 2):
            rows.append(
                {
                    "id": number,
                    "name": f"p{number}",
                    "full_name": f"{number}_p",
                    "before": before,
                    "after": before,
                    "tests": "assert f1(1) == 2",
                    "taxonomy": taxonomy,
                    "instruction_descriptive": f"Make f{number} return None.",
                    "instruction_lazy": f"Empty f{number}.",
                }
            )
        (self.folder / "problems.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def _rounds(self, longest: list[Any]) -> list[list[Any]]:
        return [longest]

    def harness(
        self,
        workers: int,
        run: str,
        tries: int,
    ) -> Measured:
        """Run one job for each worker."""
        argv = [
            sys.executable,
            "-m",
            "exercises.canitedit",
            "run",
            "--set",
            "problems.source=" + str(self.folder / "problems.jsonl"),
            "--models",
            "gpt-4o",
            "--completions",
            str(tries * _MODELS * _CALLS),
            "--set",
            "folders.cache=" + str(self.folder / "cache"),
            "--set",
            "calls.timeout=120",
        ]
        if self.engine == "ray":
            argv += ["--set", "scale.ray=own"]
        return self._measured([*argv, *self._scale(workers, run)], workers, "")


def report(
    found: Sequence[tuple[Measured, Measured]],
    seconds: float,
    goals: Mapping[int, float],
) -> int:
    """Print shares and memory; return the exit code."""
    missed = False
    print(
        "workers  calls/s  bare loop  share  ideal  share of ideal  CPU ms/attempt  peak MB"
    )
    for ours, bare in found:
        ideal = ours.workers / seconds
        share = ours.rate / bare.rate
        attempts = ours.calls / _CALLS
        missed = missed or share < goals.get(ours.workers, 0.0)
        print(
            f"{ours.workers:7d}  {ours.rate:7.1f}  {bare.rate:9.1f}  {share:4.0%}  {ideal:6.1f}"
            f"  {ours.rate / ideal:13.0%}  {1000 * (ours.cpu - bare.cpu) / attempts:14.0f}"
            f"  {ours.peak:7.0f}"
        )
    (least, _), (most, _) = found[0], found[-1]
    if most.workers > least.workers:
        each = (most.peak - least.peak) / (most.workers - least.workers)
        print(f"memory per further waiting instance: {each:.2f} MB (goal: at most 3)")
        missed = missed or each > 3
    print(
        "CPU: what the harness took, its git processes included, beyond the bare loop"
    )
    return int(missed)


def make_repository(folder: Path) -> str:
    """Make a mirror with a package of 240 modules and return its commit."""
    work = folder / "work"
    for number in range(_FILES):
        lines = [f'"""Module {number}."""', ""]
        for item in range(_LINES // 6):
            lines += [
                "",
                f"def function_{number}_{item}(value: int) -> int:",
                f'    """Return something of {item}."""',
                f"    return value * {number} + {item}",
                "",
            ]
        path = work / "flasklike" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    commit = commit_all(work, "Begin")
    mirror = folder / "mirrors" / f"{_REPO.replace('/', '__')}.git"
    mirror.parent.mkdir()
    (work / ".git").rename(mirror)
    return commit


def row(number: int, commit: str) -> dict[str, Any]:
    """Return an instance with a unique issue text."""
    return {
        "instance_id": f"bench__flasklike-{number}",
        "repo": _REPO,
        "base_commit": commit,
        "version": "1",
        "problem_statement": f"function_{number % _FILES}_1 returns a wrong value for {number}.",
    }


@contextmanager
def peak_memory(pid: int) -> Iterator[list[float]]:
    """Return a list that records the MB of a process and its children while it runs."""
    found = [0.0]
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_LOOK):
            with suppress(psutil.Error):
                parent = psutil.Process(pid)
                found.append(
                    sum(map(_megabytes, [parent, *parent.children(recursive=True)]))
                )

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def _megabytes(process: psutil.Process) -> float:
    """Return the proportional set size of a process.

    A new process may not have started its own program yet: its memory is that of its parent.
    """
    try:
        above = process.parent()
        if above is not None and above.cmdline() == process.cmdline():
            return 0.0
        return float(process.memory_full_info().pss) / 2**20
    except psutil.Error:
        return 0.0


@contextmanager
def slow_provider(seconds: float) -> Iterator[str]:
    """Run the server in a separate process and return its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.slow_provider", str(seconds)],
        cwd=_TOP,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    sys.exit(main())
