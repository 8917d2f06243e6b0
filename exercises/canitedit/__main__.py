"""CanItEdit: ``python -m exercises.canitedit run|report|stats``."""

from __future__ import annotations

import sys

from bench.cli.dispatch import Command, Program

COMMANDS = {
    "run": Command(
        "exercises.canitedit.generation", help="Ask models for edited programs."
    ),
    "report": Command(
        "exercises.canitedit.report",
        help="Run completions with their tests, and score them.",
    ),
    "stats": Command(
        "exercises.canitedit.stats", help="Describe the data set in a table."
    ),
}
PROGRAM = Program("canitedit", "python -m exercises.canitedit", COMMANDS)

if __name__ == "__main__":
    sys.exit(PROGRAM.dispatch())
