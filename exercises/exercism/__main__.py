"""The Exercism benchmark: ``python -m exercises.exercism report|diff|check``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from bench.cli.cli import run_cli
from exercises.exercism.reporting.commands import check, diff, report

_NAME = "python -m exercises.exercism"
COMMANDS: dict[str, Callable[..., None]] = {"report": report, "diff": diff, "check": check}


def main(words: Sequence[str]) -> int:
    """Run the command that the first word names; return the exit code."""
    usage = f"usage: {_NAME} {'|'.join(COMMANDS)} …; each takes --help"
    first = words[0] if words else ""
    if first in ("-h", "--help"):
        print(usage)
        return 0
    if first not in COMMANDS:
        problem = f"there is no command {first!r}; " if first else ""
        print(f"error: {problem}{usage}", file=sys.stderr)
        return 2
    sys.argv = [f"{_NAME} {first}", *words[1:]]
    return run_cli(COMMANDS[first], f"{_NAME} {first}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
