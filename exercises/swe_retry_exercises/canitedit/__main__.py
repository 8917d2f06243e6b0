"""CanItEdit: ``python -m swe_retry_exercises.canitedit run|report|stats``."""

from __future__ import annotations

import sys

from swe_retry.kit import packages_or_restart

with packages_or_restart():
    from swe_retry.kit import Command, Program
    from swe_retry_exercises.canitedit import generation, report, stats

COMMANDS = {
    "run": Command(generation.main, help="Ask models for edited programs."),
    "report": Command(
        report.main, help="Run completions with their tests, and score them."
    ),
    "stats": Command(stats.main, help="Describe the data set in a table."),
}
PROGRAM = Program("canitedit", "python -m swe_retry_exercises.canitedit", COMMANDS)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
