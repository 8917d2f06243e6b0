"""Measure the benchmarks of code editing against their bounds.

``python -m benchmarks.exercises DIR`` takes a folder of evaluated CanItEdit completions and prints
the CPU seconds of ``report`` on it, and the memory of a process that holds all of its files. Both
are measured in processes of their own, imports included. The exit code is 1 above a bound.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from exercises.canitedit.results import EVALUATED, read_file

MOST_CPU = 6.0
"""CPU seconds for 210 files with 4,200 completions."""
MOST_MEMORY = 300_000_000
"""Bytes that a process with all of them in memory may have at its peak."""
_HOLD = "--hold"


@dataclass(frozen=True)
class Rescoring:
    """What scoring a folder costs; bytes at the peak of a process that holds all files."""

    files: int
    completions: int
    cpu_seconds: float
    peak_bytes: int


def rescore(folder: Path) -> Rescoring:
    """Score a folder in a process of its own, and hold its files in another."""
    before = _children_cpu()
    _python("exercises.canitedit", "report", str(folder), "--json")
    cpu = _children_cpu() - before
    held = json.loads(_python("benchmarks.exercises", _HOLD, str(folder)))
    return Rescoring(cpu_seconds=cpu, **held)


def _python(module: str, *words: str) -> str:
    argv = [sys.executable, "-m", module, *words]
    top = Path(__file__).resolve().parents[1]
    done = subprocess.run(argv, cwd=top, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def hold(folder: Path) -> dict[str, int]:
    """Read all files of a folder, and return their numbers and this process's peak."""
    files = [read_file(path) for path in sorted(folder.glob(f"*{EVALUATED}"))]
    # Linux counts in KiB.
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    completions = sum(len(file.results) for file in files)
    return {"files": len(files), "completions": completions, "peak_bytes": peak}


def main(folder: Path) -> int:
    """Print the figures beside their bounds."""
    found = rescore(folder)
    print(f"{found.files} files, {found.completions:,} completions")
    print(f"re-scoring   {found.cpu_seconds:7.2f} s of CPU   bound {MOST_CPU:7.2f}")
    print(f"in memory    {found.peak_bytes / 1e6:7.1f} MB         bound {MOST_MEMORY / 1e6:7.1f}")
    return int(found.cpu_seconds > MOST_CPU or found.peak_bytes > MOST_MEMORY)


if __name__ == "__main__":
    if sys.argv[1:2] == [_HOLD]:
        print(json.dumps(hold(Path(sys.argv[2]))))
    else:
        sys.exit(main(Path(sys.argv[1]).resolve()))
