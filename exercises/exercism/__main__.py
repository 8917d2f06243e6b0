"""The Exercism benchmark: ``python -m exercises.exercism run|report``."""

from __future__ import annotations

import sys

from bench.cli.dispatch import Command, Program

_RUNNING = "exercises.exercism.running"
_READING = "exercises.exercism.reporting.commands"
COMMANDS = {
    "run": Command(
        f"{_RUNNING}.command", help="Run models in edit formats on exercises."
    ),
    "report": Command(_READING, "report", help="Report on runs: tables, chart, page."),
}
PROGRAM = Program("exercism", "python -m exercises.exercism", COMMANDS)

if __name__ == "__main__":
    sys.exit(PROGRAM.dispatch())
