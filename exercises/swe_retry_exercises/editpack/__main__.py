"""Training data of edits: ``python -m swe_retry_exercises.editpack mine|filter|dedup|…``."""

from __future__ import annotations

import sys

from swe_retry.kit import packages_or_restart

with packages_or_restart():
    from swe_retry.kit import Command, Program
    from swe_retry_exercises.editpack import (
        decontaminate,
        dedup,
        filter,
        mine,
        shaping,
        stats,
        train,
    )

COMMANDS = {
    "mine": Command(mine.main, help="Read edits from the commits of repositories."),
    "filter": Command(filter.main, help="Keep the rows that pass the rules."),
    "dedup": Command(dedup.main, help="Keep one row of each cluster."),
    "decontaminate": Command(
        decontaminate.main,
        help="Take out rows that share text with evaluation problems.",
    ),
    "stats": Command(stats.main, help="Describe rows: a table and JSON."),
    "format": Command(
        shaping.format_rows, help="Add instruction and content; drop nothing."
    ),
    "sample": Command(shaping.sample_rows, help="Take rows at random."),
    "train": Command(train.main, help="Tune a model on rows."),
}
PROGRAM = Program("editpack", "python -m swe_retry_exercises.editpack", COMMANDS)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
