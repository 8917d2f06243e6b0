"""Calls a second of many workers with a slow model, against a bare loop of litellm calls.

``python -m benchmarks.throughput``.

A server on loopback takes ten seconds for each answer. The harness makes three calls an attempt and
two attempts a try, with as many instances as workers, on a generated repository of flask's size,
with warm caches and no tests. A bare loop of litellm calls then sends the same conversations with
as many workers. Calls a second are taken from the server's first request to its last answer.

``--cold`` measures a run with empty caches from its start to its end, with more instances.
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
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from swe_retry.demo.setup import commit_all

_TOP = Path(__file__).resolve().parent.parent
_FILES = 240
_LINES = 60
_MODELS = 2
_CALLS = 3
_LOOK = 2.0
_REPO = "bench/flasklike"
_PER_WORKER = 5
_ENGINES = ("local", "ray")
# The least share of the bare loop by workers. Attempts on Ray have none: they make checkouts, maps
# and patches between calls, and how many the processors can make is measured, not what Ray takes.
_GOALS = {
    ("local", "attempts"): {64: 0.9, 256: 0.9},
    ("ray", "completions"): {256: 0.8},
}


@dataclass(frozen=True)
class Figures:
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
    parser.add_argument(
        "--cold",
        action="store_true",
        help="five instances for each worker, two attempts each, empty caches",
    )
    parser.add_argument("--engine", choices=_ENGINES, default="local")
    parser.add_argument(
        "--job", choices=("attempts", "completions"), default="attempts"
    )
    options = parser.parse_args(argv)
    counts = list(map(int, options.workers.split(",")))
    goals = _GOALS.get((options.engine, options.job), {})
    kind: type[Bench] = Bench
    if options.job == "completions":
        kind = CompletionBench
    with tempfile.TemporaryDirectory() as folder, slow_provider(options.seconds) as url:
        bench = kind(Path(folder), url, options.engine, options.tries)
        if options.cold:
            return measure_cold(bench, counts[-1], options.seconds)
        bench.prepare(max(counts))
        pairs = [bench.measure_both(count) for count in counts]
    return report(pairs, options.seconds, goals)


def measure_cold(bench: Bench, workers: int, seconds: float) -> int:
    """Print the share of the ideal, from the start of the process to its end."""
    bench.make_instances(_PER_WORKER * workers)
    started = time.monotonic()
    figures = bench.measure(workers, "cold", 1, instances=_PER_WORKER * workers)
    elapsed = time.monotonic() - started
    ideal = figures.calls * seconds / workers
    print(
        f"{figures.calls} calls with {workers} workers: {elapsed:.1f} s, ideal {ideal:.1f} s "
        f"({ideal / elapsed:.0%}); CPU {figures.cpu:.1f} s, peak {figures.peak:.0f} MB"
    )
    return 0


@dataclass(frozen=True)
class Bench:
    """Measures the harness and the bare loop with one server."""

    folder: Path
    url: str
    engine: str
    tries: int

    def prepare(self, instances: int) -> None:
        """Make the repository and the instances, and fill the caches."""
        self.make_instances(instances)
        self.measure(instances, "warm", 1)

    def make_instances(self, instances: int) -> None:
        commit = make_repository(self.folder)
        rows = [row(number, commit) for number in range(instances)]
        (self.folder / "rows.json").write_text(json.dumps(rows))

    def measure_both(self, workers: int) -> tuple[Figures, Figures]:
        """Measure the harness, then the bare loop with the same conversations."""
        ours = self.measure(workers, f"w{workers}", self.tries)
        rounds = json.dumps(self._rounds(self._get("figures")["longest"]))
        calls = self.tries * _MODELS * _CALLS
        argv = ["-m", "benchmarks.bare_loop", f"{self.url}/v1", workers, calls]
        bare = self._measure(argv, workers, rounds)
        print(
            f"{workers} workers: {ours.rate:.1f} of {bare.rate:.1f} calls a second",
            flush=True,
        )
        return ours, bare

    def _rounds(self, longest: list[Any]) -> list[list[Any]]:
        """Return the messages of an attempt's calls."""
        return [longest[: 2 + 2 * number] for number in range(len(longest) // 2)]

    def measure(
        self, workers: int, run: str, tries: int, instances: int | None = None
    ) -> Figures:
        """Run as many jobs as workers, or ``instances``."""
        argv = self._command(instances or workers, tries)
        options = {
            "--api-base": f"{self.url}/v1",
            "--workers": workers,
            "--out": self.folder / "out",
            "--run": run,
        }
        for option, value in options.items():
            argv += [option, value]
        settings = {"calls.timeout": 120, "folders.cache": self.folder / "cache"}
        if self.engine == "ray":
            settings["scale.ray"] = "own"
        return self._measure([*argv, *_as_options(settings)], workers, "")

    def _command(self, workers: int, tries: int) -> list[object]:
        argv: list[object] = ["harness.py", "--dataset", self.folder / "rows.json"]
        argv += ["--models", "gpt-4o,gpt-4o-mini", "--environment", "none"]
        argv += ["--slice", f"0:{workers}", "--tries", tries]
        mirrors = self.folder / "mirrors"
        return argv + _as_options({"choice.stop": "all", "folders.repos": mirrors})

    def _measure(self, arguments: list[Any], workers: int, stdin: str) -> Figures:
        """Run Python with ``stdin`` as its input."""
        self._get("reset")
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            cwd=_TOP,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(stdin)
        process.stdin.close()
        with peak_memory(process.pid) as megabytes:
            _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{arguments[:2]} failed")
        counts = self._get("figures")
        return Figures(
            workers=workers,
            calls=counts["answers"],
            rate=counts["answers"] / (counts["last"] - counts["first"]),
            cpu=usage.ru_utime + usage.ru_stime,
            peak=max(megabytes),
        )

    def _get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/{path}") as response:
            content: dict[str, Any] = json.load(response)
        return content


def _as_options(settings: Mapping[str, object]) -> list[object]:
    options: list[object] = []
    for name, value in settings.items():
        options += ["--set", f"{name}={value}"]
    return options


class CompletionBench(Bench):
    """Measures CanItEdit's ``run``: each job has as many completions as the attempts have calls."""

    def prepare(self, instances: int) -> None:
        """Write the problems."""
        taxonomy = {"change_kind": "adaptive", "libraries": [], "topic": "DSA"}
        before = "\n\n".join(f"def f{n}(x):\n    return x + {n}" for n in range(60))
        lines = []
        for number in range((instances + 1) // 2):
            problem = {
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
            lines.append(json.dumps(problem))
        (self.folder / "problems.jsonl").write_text("\n".join(lines))

    def _rounds(self, longest: list[Any]) -> list[list[Any]]:
        return [longest]

    def _command(self, workers: int, tries: int) -> list[object]:
        argv: list[object] = [
            "-m",
            "swe_retry_exercises.canitedit",
            "run",
            "--models",
            "gpt-4o",
        ]
        argv += ["--completions", tries * _MODELS * _CALLS]
        return argv + _as_options({"problems.source": self.folder / "problems.jsonl"})


def report(
    pairs: Sequence[tuple[Figures, Figures]],
    seconds: float,
    goals: Mapping[int, float],
) -> int:
    """Print shares and memory; return the exit code."""
    exit_code = 0
    print(
        "workers  calls/s  bare loop  share  ideal  share of ideal  CPU ms/attempt  peak MB"
    )
    for ours, bare in pairs:
        ideal = ours.workers / seconds
        share = ours.rate / bare.rate
        milliseconds = 1000 * (ours.cpu - bare.cpu) / (ours.calls / _CALLS)
        if share < goals.get(ours.workers, 0.0):
            exit_code = 1
        print(
            f"{ours.workers:7d}  {ours.rate:7.1f}  {bare.rate:9.1f}  {share:4.0%}  {ideal:6.1f}"
            f"  {ours.rate / ideal:13.0%}  {milliseconds:14.0f}  {ours.peak:7.0f}"
        )
    fewest = pairs[0][0]
    most_workers = pairs[-1][0]
    further = most_workers.workers - fewest.workers
    if further > 0:
        megabytes = (most_workers.peak - fewest.peak) / further
        print(
            f"memory per further waiting instance: {megabytes:.2f} MB (goal: at most 3)"
        )
        if megabytes > 3:
            exit_code = 1
    print(
        "CPU: what the harness took, its git processes included, beyond the bare loop"
    )
    return exit_code


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
    megabytes = [0.0]
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(_LOOK):
            with suppress(psutil.Error):
                parent = psutil.Process(pid)
                processes = [parent, *parent.children(recursive=True)]
                megabytes.append(sum(map(_megabytes, processes)))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield megabytes
    finally:
        stop.set()
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
