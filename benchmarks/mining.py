"""Measure ``exercises.editpack mine`` on a repository: ``python -m benchmarks.mining REPO``.

The command runs in a process of its own, imports included, in turns with ``git log -p`` of the
same commits, which shows what the history costs git alone. Printed are the quickest rounds, their
ratio, the CPU seconds, and the peak of memory: that of Python plus twice that of the larger of the
two processes of git. The bounds are for requests (4,877 commits). The exit code is 1 above one.
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
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.exercises import BoundedFigure
from core.git import git_environment

MOST_SECONDS, MOST_MEGABYTES, MOST_RATIO = 15.0, 500.0, 6.0
_TOP = Path(__file__).resolve().parents[1]
# Prints the peaks of Python and of the largest of its children, in KiB.
_PROGRAM = """
import json, resource, sys
from exercises.dispatch import dispatch
from exercises.editpack.__main__ import COMMANDS
code = dispatch("exercises.editpack", COMMANDS)
kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
print(json.dumps([code, *(resource.getrusage(kind).ru_maxrss for kind in kinds)]))
"""


def measured(repository: Path, ref: str, rounds: int) -> Iterator[BoundedFigure]:
    """Mine a repository and show its log in turns.

    Raises:
        SystemExit: the repository cannot be mined.
    """
    mined, shown, cpu, peak = list[float](), list[float](), list[float](), 0.0
    for number in range(rounds):
        seconds, used, found = _timed(lambda: _mine(repository, ref))
        mined.append(seconds)
        cpu.append(used)
        peak = max(peak, found)
        shown.append(_timed(lambda: _show(repository, ref))[0])
        print(f"round {number + 1}: mine {mined[-1]:.2f} s, git log -p {shown[-1]:.2f} s")
    yield BoundedFigure("seconds", min(mined), MOST_SECONDS, "s")
    yield BoundedFigure("CPU of all processes", min(cpu), MOST_SECONDS, "s of CPU")
    yield BoundedFigure("over git log -p", min(mined) / min(shown), MOST_RATIO, "x")
    yield BoundedFigure("peak of memory", peak / 1e6, MOST_MEGABYTES, "MB")


def _timed(work: Callable[[], float]) -> tuple[float, float, float]:
    """Return wall-clock seconds, those of CPU of child processes, and what the work returns."""
    start, before = time.monotonic(), _children_cpu()
    found = work()
    return time.monotonic() - start, _children_cpu() - before, found


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _mine(repository: Path, ref: str) -> float:
    """Return the peak of memory in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/rows.jsonl"
        words = ("mine", str(repository), "--ref", ref, "--any-license", "--out", out)
        argv = [sys.executable, "-c", _PROGRAM, *words]
        done = subprocess.run(argv, cwd=_TOP, stdout=subprocess.PIPE, text=True, check=True)
    code, own, git = json.loads(done.stdout.splitlines()[-1])
    if code:
        raise SystemExit(code)
    return 1024 * float(own + 2 * git)


def _show(repository: Path, ref: str) -> float:
    argv = ["git", "log", "-p", "--no-merges", "--no-renames", ref]
    with Path(os.devnull).open("wb") as sink:
        subprocess.run(argv, cwd=repository, stdout=sink, env=git_environment(), check=True)
    return 0.0


def main() -> int:
    """Print the figures beside their bounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("repository", type=Path)
    parser.add_argument("--ref", default="HEAD")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    exceeded = False
    for figure in measured(asked.repository.resolve(), asked.ref, asked.rounds):
        print(figure)
        exceeded |= figure.value > figure.bound
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())
