"""CPU of ``import swe_retry`` and of each ``--help``, against ``import typer``.

``python -m benchmarks.help_cpu``.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from collections import defaultdict

_RUNS = 5
_PEER: tuple[str, ...] = ("-c", "import typer")
_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("-c", "import swe_retry"),
    ("harness.py", "--help"),
    ("report.py", "--help"),
    ("-m", "swe_retry_exercises.exercism", "run", "--help"),
    ("-m", "swe_retry_exercises.canitedit", "run", "--help"),
    ("-m", "swe_retry_exercises.editpack", "mine", "--help"),
)


def measure_cpu(argv: tuple[str, ...]) -> float:
    """Return the seconds of CPU, of system and user, that an interpreter took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, *argv]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    user = after.ru_utime - before.ru_utime
    system = after.ru_stime - before.ru_stime
    return user + system


def main() -> None:
    seconds = defaultdict(list)
    # In turn, so that a busy moment of the machine meets all.
    for _ in range(_RUNS):
        for argv in (_PEER, *_COMMANDS):
            seconds[argv].append(measure_cpu(argv))
    peer = statistics.median(seconds[_PEER])
    for argv, values in seconds.items():
        median = statistics.median(values)
        print(f"{' '.join(argv):42}  {median:5.2f} s  {median / peer:5.1f} x")


if __name__ == "__main__":
    main()
