"""Evaluate and report on runs: ``python report.py predictions/run1``."""

import sys

from swe_retry.launch.start import Command, Program

_COMMANDS = "swe_retry.cli.report_commands"
DEFAULT = Command(_COMMANDS, "report")
SUBCOMMANDS = {
    "compare": Command(
        _COMMANDS, "compare", "RUN RUN...", "Compare runs, each with each."
    ),
    "combine": Command(
        _COMMANDS,
        "combine",
        "RUN RUN...",
        "Write a run with the best prediction of each instance.",
    ),
    "select": Command(
        "swe_retry.study.select",
        "main",
        "RUN...",
        "Choose among the candidates of runs by scripts that models write.",
    ),
    "lab": Command(
        _COMMANDS,
        "lab",
        "RUN...",
        "Replay runs under other policies, without any call.",
    ),
    "verify": Command(
        _COMMANDS,
        "verify",
        "RUN...",
        "Compute derived files again and say what differs.",
    ),
    "package": Command(
        _COMMANDS,
        "package",
        "RUN FOLDER",
        "Write the package of one run for the leaderboard.",
    ),
    "gold": Command(
        "swe_retry.study.gold",
        "main",
        "DATASET FILE",
        "Evaluate the gold and the empty patches of a data set.",
    ),
    "convert": Command(
        _COMMANDS,
        "convert",
        "RUN LAYOUT FOLDER",
        "Write a run in the layout of another harness.",
    ),
}

PROGRAM = Program("report", "", SUBCOMMANDS, DEFAULT, data_sets="swe_retry.demo")
main = PROGRAM.dispatch


if __name__ == "__main__":
    sys.exit(main())
