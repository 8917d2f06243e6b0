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
from pathlib import Path

from environments.base import EnvironmentKind
from environments.choice import make_folders
from environments.folders import Folders
from exercises.canitedit.evaluation import LIMITS, TestedProgram, run_program
from exercises.canitedit.problems import load_problems
from exercises.canitedit.results import EVALUATED, read_file
from exercises.exercism.catalog import Exercise, read_catalog
from exercises.exercism.languages import LANGUAGES
from exercises.exercism.results import RunFacts, read_facts, read_result

MOST_CPU = 6.0
"""CPU seconds for 210 files with 4,200 completions."""
MOST_MEMORY = 300.0
"""Megabytes that a process with all of them in memory may have at its peak."""
MOST_ISOLATION = 1.3
"""Time of isolated programs over that of the same programs in a bare loop."""
MOST_REPLAY = 1.3
"""Time of a replayed run over that of its bare test commands."""
MOST_HARNESS_CPU = 50.0
"""CPU milliseconds for an exercise, without its tests."""
_TOP = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class BoundedFigure:
    """A figure, and the bound that it may not exceed."""

    name: str
    value: float
    bound: float
    unit: str

    def __str__(self) -> str:
        words = (
            f"{self.name:24} {self.value:8.2f} {self.unit:10} bound {self.bound:.2f}"
        )
        if self.value <= self.bound:
            return words
        return f"{words}  EXCEEDED"


def rescoring(folder: Path) -> Iterator[BoundedFigure]:
    """Score a folder in a process of its own, and hold its files in another."""
    before = _children_cpu()
    words = ("report", str(folder), "--environment", "none", "--format", "json")
    _python("exercises.canitedit", *words)
    yield BoundedFigure("re-scoring", _children_cpu() - before, MOST_CPU, "s of CPU")
    held = json.loads(_python("benchmarks.exercises", "hold", str(folder)))
    name = f"{held['completions']:,} completions"
    yield BoundedFigure(name, held["peak_bytes"] / 1e6, MOST_MEMORY, "MB")


def _python(module: str, *words: str) -> str:
    argv = [sys.executable, "-m", module, *words]
    done = subprocess.run(argv, cwd=_TOP, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def hold(folder: Path) -> dict[str, int]:
    """Read all files of a folder; return how many completions they have, and the peak of bytes."""
    files = [read_file(path) for path in sorted(folder.glob(f"*{EVALUATED}"))]
    # Linux counts in KiB.
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"completions": sum(len(file.results) for file in files), "peak_bytes": peak}


def isolation(rows: Path, workers: int, rounds: int) -> Iterator[BoundedFigure]:
    """Run the solutions that need no library, in a bare loop and isolated."""
    problems = [p for p in load_problems(str(rows)) if not p.taxonomy.libraries]
    programs = [TestedProgram(f"{p.after}\n{p.tests}") for p in problems]
    python = Path(sys.executable)
    folders = make_folders(
        EnvironmentKind.LOCAL, python, limits=LIMITS, run_key="benchmark"
    )
    with tempfile.TemporaryDirectory() as name:
        files = [Path(name) / f"{number}.py" for number in range(len(programs))]
        for file, program in zip(files, programs, strict=True):
            file.write_text(program.text, encoding="utf-8")
        bare = list[float]()
        isolated = list[float]()
        for number in range(rounds):
            bare.append(_timed(lambda: _at_once(workers, _run_bare, files)))
            isolated.append(
                _timed(lambda: _at_once(workers, _isolated(folders), programs))
            )
            print(
                f"round {number + 1}: bare {bare[-1]:.2f} s, isolated {isolated[-1]:.2f} s"
            )
    ratio = min(isolated) / min(bare)
    yield BoundedFigure(
        f"isolation, {len(programs)} programs", ratio, MOST_ISOLATION, "x"
    )


def _run_bare(file: Path) -> None:
    subprocess.run([sys.executable, str(file)], capture_output=True, check=False)


def _isolated(folders: Folders) -> Callable[[TestedProgram], object]:
    return lambda program: run_program(folders, program)


def replay(
    run: Path, exercises: Path, workers: int, rounds: int
) -> Iterator[BoundedFigure]:
    """Replay a run and run its test commands alone."""
    facts = read_facts(run)
    known = {one.key: one for one in read_catalog(exercises).exercises}
    results = [read_result(path) for path in sorted(run.glob("results/*/*/*.json"))]
    with tempfile.TemporaryDirectory() as name:
        tried = [
            _written(Path(name) / "bare" / str(number), known[result.key], one.patch)
            for number, (result, one) in enumerate(
                (result, one) for result in results for one in result.extra.tries
            )
        ]
        words = _words(facts, run, exercises, workers, Path(name))
        # Counts the examples' tests, and proves for later runs that each solution's tests ran.
        _python("exercises.exercism", *words, "--run", "warm")
        bare = list[float]()
        replayed = list[float]()
        cpu = list[float]()
        for number in range(rounds):
            bare.append(_timed(lambda: _at_once(workers, _test, tried)))
            before = _children_cpu()
            again = [*words, "--run", f"again{number}"]
            replayed.append(_timed(lambda: _python("exercises.exercism", *again)))  # noqa: B023
            # Without that of the tests: bubblewrap's first process ends before they are counted.
            cpu.append(_children_cpu() - before)
            print(
                f"round {number + 1}: bare {bare[-1]:.2f} s, replayed {replayed[-1]:.2f} s"
            )
    ratio = min(replayed) / min(bare)
    yield BoundedFigure(f"replay, {len(results)} exercises", ratio, MOST_REPLAY, "x")
    each = 1e3 * min(cpu) / len(results)
    yield BoundedFigure("harness, an exercise", each, MOST_HARNESS_CPU, "ms of CPU")


def _words(
    facts: RunFacts,
    run: Path,
    exercises: Path,
    workers: int,
    out: Path,
) -> list[str]:
    columns = dict.fromkeys(f"{one.model}@{one.edit_format}" for one in facts.columns)
    return [
        "run",
        "--models",
        ",".join(columns),
        "--replay",
        str(run),
        "--exercises",
        str(exercises),
        "--set",
        f"exercises.profile={facts.profile}",
        "--tries",
        str(facts.tries),
        "--environment",
        "local",
        "--set",
        f"exercises.repeats={max(one.repeat for one in facts.columns)}",
        "--workers",
        str(workers),
        "--set",
        f"scale.jobs={workers}",
        "--out",
        str(out),
        "--set",
        f"folders.cache={out / 'cache'}",
    ]


def _written(folder: Path, exercise: Exercise, patch: str) -> Path:
    """Write the folder that is tested in a try, and return it."""
    for path, data in exercise.tested_files(exercise.stubs()).items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    if patch:
        argv = ["patch", "-s", "-p1"]
        subprocess.run(argv, cwd=folder, input=patch.encode(), check=True)
    return folder


def _test(folder: Path) -> None:
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    env = {**os.environ, **LANGUAGES["python"].variables}
    subprocess.run(argv, cwd=folder, env=env, capture_output=True, check=False)


def _at_once(
    workers: int,
    run: Callable[..., object],
    items: Sequence[object],
) -> None:
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(run, items))


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> int:
    """Print the figures beside their bounds."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else ""
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("rescoring", "hold", "isolation"):
        commands.add_parser(name).add_argument("path", type=Path)
    again = commands.add_parser("replay")
    again.add_argument("path", type=Path)
    again.add_argument("exercises", type=Path)
    for options, workers in (
        (commands.choices["isolation"], os.cpu_count() or 1),
        (again, 4),
    ):
        options.add_argument("--workers", type=int, default=workers)
        options.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    if asked.command == "hold":
        print(json.dumps(hold(asked.path)))
        return 0
    path = asked.path.resolve()
    if asked.command == "rescoring":
        measured = rescoring(path)
    elif asked.command == "isolation":
        measured = isolation(path, asked.workers, asked.rounds)
    else:
        measured = replay(path, asked.exercises.resolve(), asked.workers, asked.rounds)
    exceeded = False
    for figure in measured:
        print(figure)
        exceeded |= figure.value > figure.bound
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())
