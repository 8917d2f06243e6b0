"""Training data of edits: ``python -m swe_retry_exercises.editpack mine|filter|dedup|…``."""

from __future__ import annotations

import sys

from swe_retry.kit import Command, Program

_PACKAGE = "swe_retry_exercises.editpack"
COMMANDS = {
    "mine": Command(
        f"{_PACKAGE}.mine", help="Read edits from the commits of repositories."
    ),
    "filter": Command(f"{_PACKAGE}.filter", help="Keep the rows that pass the rules."),
    "dedup": Command(f"{_PACKAGE}.dedup", help="Keep one row of each cluster."),
    "decontaminate": Command(
        f"{_PACKAGE}.decontaminate",
        help="Take out rows that share text with evaluation problems.",
    ),
    "stats": Command(f"{_PACKAGE}.stats", help="Describe rows: a table and JSON."),
    "format": Command(
        f"{_PACKAGE}.shaping",
        "format_rows",
        help="Add instruction and content; drop nothing.",
    ),
    "sample": Command(
        f"{_PACKAGE}.shaping", "sample_rows", help="Take rows at random."
    ),
    "train": Command(f"{_PACKAGE}.train", help="Tune a model on rows."),
}
PROGRAM = Program("editpack", "python -m swe_retry_exercises.editpack", COMMANDS)

if __name__ == "__main__":
    sys.exit(PROGRAM.dispatch())
