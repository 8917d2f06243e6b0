"""The commands of ``report.py``, which read runs."""

import sys

from swe_retry.launch.packages import packages_or_restart

with packages_or_restart():
    from swe_retry.cli.report_commands import (
        combine,
        compare,
        convert,
        evaluate_gold,
        lab,
        package,
        report,
        select,
        study,
        verify,
    )
    from swe_retry.demo import register
    from swe_retry.launch.program import Command, Program

SUBCOMMANDS = {
    "compare": Command(compare, "RUN RUN...", "Compare runs, each with each."),
    "combine": Command(
        combine, "RUN RUN...", "Write a run with the best prediction of each instance."
    ),
    "select": Command(
        select,
        "RUN...",
        "Choose among the candidates of runs by scripts that models write.",
    ),
    "lab": Command(
        lab, "RUN...", "Replay runs under other policies, without any call."
    ),
    "study": Command(study, "FILE", "Compare the arms of a study, without any call."),
    "verify": Command(
        verify, "RUN...", "Compute derived files again and say what differs."
    ),
    "package": Command(
        package, "RUN FOLDER", "Write the package of one run for the leaderboard."
    ),
    "gold": Command(
        evaluate_gold,
        "DATASET FILE",
        "Evaluate the gold and the empty patches of a data set.",
    ),
    "convert": Command(
        convert, "RUN LAYOUT FOLDER", "Write a run in the layout of another harness."
    ),
}
PROGRAM = Program("report", "", SUBCOMMANDS, report, register)
main = PROGRAM.main


if __name__ == "__main__":
    sys.exit(main())
