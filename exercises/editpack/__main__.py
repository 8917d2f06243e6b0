"""Training data of edits: ``python -m exercises.editpack mine|filter|dedup|…``."""

from __future__ import annotations

import sys

from exercises.dispatch import BenchmarkCommand, dispatch

_PACKAGE = "exercises.editpack"
_COMMANDS = f"{_PACKAGE}.commands"
COMMANDS = {
    "mine": BenchmarkCommand(f"{_COMMANDS}.mining", "Read edits from the commits of repositories."),
    "filter": BenchmarkCommand(f"{_COMMANDS}.filtering", "Keep the rows that pass the rules."),
    "dedup": BenchmarkCommand(f"{_COMMANDS}.deduplicating", "Keep one row of each cluster."),
    "decontaminate": BenchmarkCommand(
        f"{_COMMANDS}.decontaminating", "Take out rows that share text with evaluation problems."
    ),
    "stats": BenchmarkCommand(f"{_COMMANDS}.describing", "Describe rows: a table and pictures."),
    "format": BenchmarkCommand(
        f"{_COMMANDS}.shaping", "Add instruction and content; drop nothing.", "format_rows"
    ),
    "sample": BenchmarkCommand(f"{_COMMANDS}.shaping", "Take rows at random.", "sample_rows"),
    "mix": BenchmarkCommand(f"{_COMMANDS}.shaping", "Join sets of rows.", "mix_rows"),
    "train": BenchmarkCommand(f"{_PACKAGE}.train", "Tune a model on rows."),
}

if __name__ == "__main__":
    sys.exit(dispatch(_PACKAGE, COMMANDS))
