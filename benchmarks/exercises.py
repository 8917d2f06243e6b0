"""Measure the benchmarks of code editing against their bounds.

``python -m benchmarks.exercises rescoring DIR`` takes a folder of evaluated CanItEdit completions:
the CPU seconds of ``report`` on it, and the memory of a process that holds all of its files. Both
are measured in processes of their own, imports included.

``python -m benchmarks.exercises isolation ROWS`` runs the solutions of the problems without
libraries with their tests, isolated and by ``subprocess.run([python, file])``, with the same
workers, in turns: the quickest isolated round over the quickest bare one.

``python -m benchmarks.exercises replay RUN EXERCISES`` replays a run of Python exercises, and runs
the test commands of the same tries alone with the same workers, in turns: the quickest replay over
the quickest bare round, and the CPU seconds of the replay without its tests for an exercise.

The exit code is 1 above a bound.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from swe_retry.environments.base import EnvironmentKind
from swe_retry.environments.choice import make_folders
from swe_retry_exercises.canitedit.evaluation import LIMITS, TestedProgram, run_program
from swe_retry_exercises.canitedit.problems import load_problems
from swe_retry_exercises.canitedit.results import EVALUATED, read_file
from swe_retry_exercises.exercism.catalog import Exercise, read_catalog
from swe_retry_exercises.exercism.languages import LANGUAGES
from swe_retry_exercises.exercism.results import RunFacts, read_facts, read_result

MAX_CPU = 6.0
"""CPU seconds for 210 files with 4,200 completions."""
MAX_MEMORY = 300.0
"""Megabytes that a process with all of them in memory may have at its peak."""
MAX_ISOLATION = 1.3
"""Time of isolated programs over that of the same programs in a bare loop."""
MAX_REPLAY = 1.3
"""Time of a replayed run over that of its bare test commands."""
MAX_HARNESS_CPU = 50.0
"""CPU milliseconds for an exercise, without its tests."""
_TOP = Path(__file__).resolve().parents[1]


Item = TypeVar("Item")


@dataclass(frozen=True)
class BoundedFigure:
    """A figure, and the bound that it may not exceed."""

    name: str
    value: float
    bound: float
    unit: str

    @property
    def is_exceeded(self) -> bool:
        return self.value > self.bound

    def __str__(self) -> str:
        line = f"{self.name:24} {self.value:8.2f} {self.unit:10} bound {self.bound:.2f}"
        if self.is_exceeded:
            return f"{line}  EXCEEDED"
        return line


def rescoring(folder: Path) -> Iterator[BoundedFigure]:
    """Score a folder in a process of its own, and hold its files in another."""
    before = _children_cpu()
    options = ("--environment", "none", "--format", "json")
    _python("swe_retry_exercises.canitedit", "report", str(folder), *options)
    yield BoundedFigure("re-scoring", _children_cpu() - before, MAX_CPU, "s of CPU")
    printed = _python("benchmarks.exercises", "hold", str(folder))
    figures = json.loads(printed)
    name = f"{figures['completions']:,} completions"
    yield BoundedFigure(name, figures["peak_bytes"] / 1e6, MAX_MEMORY, "MB")


def _python(module: str, *options: str) -> str:
    argv = [sys.executable, "-m", module, *options]
    return subprocess.check_output(argv, cwd=_TOP, text=True)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def hold(folder: Path) -> dict[str, int]:
    """Read all files of a folder; return how many completions they have, and the peak of bytes."""
    paths = sorted(folder.glob(f"*{EVALUATED}"))
    files = [read_file(path) for path in paths]
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "completions": sum(len(file.results) for file in files),
        # Linux counts in KiB.
        "peak_bytes": 1024 * usage.ru_maxrss,
    }


def isolation(rows: Path, workers: int, rounds: int) -> Iterator[BoundedFigure]:
    """Run the solutions that need no library, in a bare loop and isolated."""
    programs = []
    for problem in load_problems(str(rows)):
        if not problem.taxonomy.libraries:
            programs.append(TestedProgram(f"{problem.after}\n{problem.tests}"))
    python = Path(sys.executable)
    folders = make_folders(
        EnvironmentKind.LOCAL, python, limits=LIMITS, run_key="benchmark"
    )
    with tempfile.TemporaryDirectory() as name:
        files = []
        for number, program in enumerate(programs):
            file = Path(name) / f"{number}.py"
            file.write_text(program.text, encoding="utf-8")
            files.append(file)
        ratio = _best_ratio(
            "isolated",
            lambda: _run_all(partial(run_program, folders), programs, workers),
            lambda: _run_all(_run_bare, files, workers),
            rounds,
        )
    title = f"isolation, {len(programs)} programs"
    yield BoundedFigure(title, ratio, MAX_ISOLATION, "x")


def _best_ratio(
    name: str,
    work: Callable[[], object],
    bare_work: Callable[[], object],
    rounds: int,
) -> float:
    """Time both in turns, and return the quickest round of ``work`` over the quickest bare one."""
    times: list[float] = []
    bare_times: list[float] = []
    for number in range(1, rounds + 1):
        bare_seconds = _seconds(bare_work)
        bare_times.append(bare_seconds)
        seconds = _seconds(work)
        times.append(seconds)
        print(f"round {number}: bare {bare_seconds:.2f} s, {name} {seconds:.2f} s")
    return min(times) / min(bare_times)


def _run_bare(file: Path) -> None:
    subprocess.run([sys.executable, str(file)], capture_output=True, check=False)


def replay(
    run: Path, exercises: Path, workers: int, rounds: int
) -> Iterator[BoundedFigure]:
    """Replay a run and run its test commands alone."""
    facts = read_facts(run)
    catalog = read_catalog(exercises)
    by_key = {exercise.key: exercise for exercise in catalog.exercises}
    paths = sorted(run.glob("results/*/*/*.json"))
    results = [read_result(path) for path in paths]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare_folders: list[Path] = []
        for result in results:
            for try_ in result.extra.tries:
                bare = folder / "bare" / str(len(bare_folders))
                _write_exercise(bare, by_key[result.key], try_.patch)
                bare_folders.append(bare)
        options = _replay_options(facts, run, exercises, workers, folder)
        # Counts the examples' tests, and proves for later runs that each solution's tests ran.
        _python("swe_retry_exercises.exercism", *options, "--run", "warm")
        cpu: list[float] = []

        def replay_once() -> None:
            before = _children_cpu()
            _python(
                "swe_retry_exercises.exercism", *options, "--run", f"again{len(cpu)}"
            )
            # Without that of the tests: bubblewrap's first process ends before they are counted.
            cpu.append(_children_cpu() - before)

        ratio = _best_ratio(
            "replayed",
            replay_once,
            lambda: _run_all(_test, bare_folders, workers),
            rounds,
        )
    yield BoundedFigure(f"replay, {len(results)} exercises", ratio, MAX_REPLAY, "x")
    milliseconds = 1e3 * min(cpu) / len(results)
    yield BoundedFigure(
        "harness, an exercise", milliseconds, MAX_HARNESS_CPU, "ms of CPU"
    )


def _replay_options(
    facts: RunFacts,
    run: Path,
    exercises: Path,
    workers: int,
    out: Path,
) -> list[str]:
    models = [f"{column.model}@{column.edit_format}" for column in facts.columns]
    options = {
        "--models": ",".join(dict.fromkeys(models)),
        "--replay": run,
        "--exercises": exercises,
        "--tries": facts.tries,
        "--environment": "local",
        "--workers": workers,
        "--out": out,
    }
    settings = {
        "exercises.profile": facts.profile,
        "exercises.repeats": max(column.repeat for column in facts.columns),
        "scale.jobs": workers,
        "folders.cache": out / "cache",
    }
    argv = ["run"]
    for option, value in options.items():
        argv += [option, str(value)]
    for setting, value in settings.items():
        argv += ["--set", f"{setting}={value}"]
    return argv


def _write_exercise(folder: Path, exercise: Exercise, patch: str) -> None:
    """Write the folder that is tested in a try."""
    files = exercise.tested_files(exercise.stubs())
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    if patch:
        argv = ["patch", "-s", "-p1"]
        subprocess.run(
            argv,
            cwd=folder,
            input=patch.encode(),
            check=True,
        )


def _test(folder: Path) -> None:
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    env = {**os.environ, **LANGUAGES["python"].variables}
    subprocess.run(
        argv,
        cwd=folder,
        env=env,
        capture_output=True,
        check=False,
    )


def _run_all(
    run: Callable[[Item], object], items: Sequence[Item], workers: int
) -> None:
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(run, items))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> int:
    """Print the figures beside their bounds."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else ""
    )
    commands = parser.add_subparsers(dest="command", required=True)
    workers = {"isolation": os.cpu_count() or 1, "replay": 4}
    for name in ("rescoring", "hold", "isolation", "replay"):
        command = commands.add_parser(name)
        command.add_argument("path", type=Path)
        if name == "replay":
            command.add_argument("exercises", type=Path)
        if name in workers:
            command.add_argument("--workers", type=int, default=workers[name])
            command.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    path = options.path.resolve()
    if options.command == "hold":
        print(json.dumps(hold(path)))
        return 0
    if options.command == "rescoring":
        figures = rescoring(path)
    elif options.command == "isolation":
        figures = isolation(path, options.workers, options.rounds)
    else:
        exercises = options.exercises.resolve()
        figures = replay(path, exercises, options.workers, options.rounds)
    exit_code = 0
    for figure in figures:
        print(figure)
        if figure.is_exceeded:
            exit_code = 1
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
