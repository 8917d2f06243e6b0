"""The Exercism benchmark: ``python -m exercises.exercism run|status|report``."""

from __future__ import annotations

import sys

from exercises.dispatch import BenchmarkCommand, dispatch

_RUNNING = "exercises.exercism.running"
_READING = "exercises.exercism.reporting.commands"
COMMANDS = {
    "run": BenchmarkCommand(
        f"{_RUNNING}.command", "Run models in edit formats on exercises."
    ),
    "status": BenchmarkCommand(
        f"{_RUNNING}.progress", "Print how far runs are; start nothing."
    ),
    "report": BenchmarkCommand(
        _READING, "Report on runs: tables, chart, page.", "report"
    ),
}

if __name__ == "__main__":
    sys.exit(dispatch("exercises.exercism", COMMANDS))
