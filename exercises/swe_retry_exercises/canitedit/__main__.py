"""CanItEdit: ``python -m swe_retry_exercises.canitedit run|report|stats``."""

from __future__ import annotations

import sys

from swe_retry.kit import Command, Program

COMMANDS = {
    "run": Command(
        "swe_retry_exercises.canitedit.generation",
        help="Ask models for edited programs.",
    ),
    "report": Command(
        "swe_retry_exercises.canitedit.report",
        help="Run completions with their tests, and score them.",
    ),
    "stats": Command(
        "swe_retry_exercises.canitedit.stats", help="Describe the data set in a table."
    ),
}
PROGRAM = Program("canitedit", "python -m swe_retry_exercises.canitedit", COMMANDS)

if __name__ == "__main__":
    sys.exit(PROGRAM.dispatch())
