"""CanItEdit: ``python -m exercises.canitedit generate|evaluate|report|stats``."""

from __future__ import annotations

import sys

from exercises.dispatch import BenchmarkCommand, dispatch

COMMANDS = {
    "generate": BenchmarkCommand(
        "exercises.canitedit.generation.command", "Ask models for edited programs."
    ),
    "evaluate": BenchmarkCommand(
        "exercises.canitedit.evaluation.command", "Run completions with their tests."
    ),
    "report": BenchmarkCommand(
        "exercises.canitedit.reporting.command",
        "Score evaluated completions; execute nothing.",
    ),
    "stats": BenchmarkCommand(
        "exercises.canitedit.stats", "Describe the data set in a table."
    ),
}

if __name__ == "__main__":
    sys.exit(dispatch("exercises.canitedit", COMMANDS))
