"""The Exercism benchmark: ``python -m swe_retry_exercises.exercism run|report``."""

from __future__ import annotations

import sys

from swe_retry.kit import packages_or_restart

with packages_or_restart():
    from swe_retry.kit import Command, Program
    from swe_retry_exercises.exercism import report, run

COMMANDS = {
    "run": Command(run.main, help="Run models in edit formats on exercises."),
    "report": Command(report.main, help="Report on runs: tables, chart, page."),
}
PROGRAM = Program("exercism", "python -m swe_retry_exercises.exercism", COMMANDS)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
