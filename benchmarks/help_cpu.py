"""CPU of ``--help`` of each program against ``import typer``: ``python -m benchmarks.help_cpu``."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

_RUNS = 5
_PEER: tuple[str, ...] = ("-c", "import typer")
_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("harness.py", "--help"),
    ("report.py", "--help"),
    ("-m", "exercises.exercism", "run", "--help"),
    ("-m", "exercises.canitedit", "run", "--help"),
    ("-m", "exercises.editpack", "mine", "--help"),
)


def measure_cpu(words: tuple[str, ...]) -> float:
    """Return the seconds of CPU, of system and user, that an interpreter took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    user = after.ru_utime - before.ru_utime
    system = after.ru_stime - before.ru_stime
    return user + system


def main() -> None:
    seconds: dict[tuple[str, ...], list[float]] = {}
    # In turn, so that a busy moment of the machine meets all.
    for _ in range(_RUNS):
        for words in (_PEER, *_COMMANDS):
            seconds.setdefault(words, []).append(measure_cpu(words))
    peer = statistics.median(seconds[_PEER])
    for words, values in seconds.items():
        median = statistics.median(values)
        print(f"{' '.join(words):42}  {median:5.2f} s  {median / peer:5.1f} x")


if __name__ == "__main__":
    main()
