"""Training data of edits: ``python -m exercises.editpack mine|filter|dedup|…``."""

from __future__ import annotations

import sys

from exercises.dispatch import BenchmarkCommand, dispatch

_PACKAGE = "exercises.editpack"
COMMANDS = {
    "mine": BenchmarkCommand(
        f"{_PACKAGE}.mining", "Read edits from the commits of repositories."
    ),
    "filter": BenchmarkCommand(
        f"{_PACKAGE}.filtering", "Keep the rows that pass the rules."
    ),
    "dedup": BenchmarkCommand(f"{_PACKAGE}.dedup", "Keep one row of each cluster."),
    "decontaminate": BenchmarkCommand(
        f"{_PACKAGE}.decontaminating",
        "Take out rows that share text with evaluation problems.",
    ),
    "stats": BenchmarkCommand(
        f"{_PACKAGE}.describing", "Describe rows: a table and JSON."
    ),
    "format": BenchmarkCommand(
        f"{_PACKAGE}.shaping",
        "Add instruction and content; drop nothing.",
        "format_rows",
    ),
    "sample": BenchmarkCommand(
        f"{_PACKAGE}.shaping", "Take rows at random.", "sample_rows"
    ),
    "mix": BenchmarkCommand(f"{_PACKAGE}.dedup", "Join sets of rows.", "mix_rows"),
    "train": BenchmarkCommand(f"{_PACKAGE}.training.command", "Tune a model on rows."),
}

if __name__ == "__main__":
    sys.exit(dispatch(_PACKAGE, COMMANDS))
