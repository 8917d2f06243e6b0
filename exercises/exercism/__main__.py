"""The Exercism benchmark: ``python -m exercises.exercism run|report``."""

from __future__ import annotations

import sys

from bench.cli.dispatch import Command, Program

COMMANDS = {
    "run": Command(
        "exercises.exercism.run", help="Run models in edit formats on exercises."
    ),
    "report": Command(
        "exercises.exercism.report", help="Report on runs: tables, chart, page."
    ),
}
PROGRAM = Program("exercism", "python -m exercises.exercism", COMMANDS)

if __name__ == "__main__":
    sys.exit(PROGRAM.dispatch())
