"""The Exercism benchmark: ``python -m swe_retry_exercises.exercism run|report``."""

from __future__ import annotations

import sys

from swe_retry.kit import Command, Program

COMMANDS = {
    "run": Command(
        "swe_retry_exercises.exercism.run",
        help="Run models in edit formats on exercises.",
    ),
    "report": Command(
        "swe_retry_exercises.exercism.report",
        help="Report on runs: tables, chart, page.",
    ),
}
PROGRAM = Program("exercism", "python -m swe_retry_exercises.exercism", COMMANDS)

if __name__ == "__main__":
    sys.exit(PROGRAM.dispatch())
