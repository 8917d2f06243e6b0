"""The commands of ``harness.py``, which make runs."""

import sys

from swe_retry.launch.packages import packages_or_restart

with packages_or_restart():
    from swe_retry.cli.harness_commands import (
        check,
        clean,
        install,
        list_known,
        mine,
        status,
        study,
        try_once,
    )
    from swe_retry.cli.run import run
    from swe_retry.demo import register
    from swe_retry.launch.program import Command, Program

SUBCOMMANDS = {
    "check": Command(
        check, "", "Set a repository up and run its tests; call no model."
    ),
    "mine": Command(
        mine, "PATH FILE", "Make a data set of a repository's fixes with tests."
    ),
    "status": Command(status, "RUN", "Print how far a run is."),
    "clean": Command(
        clean, "RUN", "Remove what a killed process left, or with --all the run."
    ),
    "list": Command(
        list_known,
        "WHAT",
        "List models, agents, or the images with installed projects.",
    ),
    "install": Command(
        install, "AGENT", "Install a coding agent, in the version that was tested."
    ),
    "try": Command(
        try_once, "AGENT", "Let an agent edit one demo instance and show what it did."
    ),
    "study": Command(
        study, "FILE", "Compare models, agents or policies under one budget."
    ),
}
PROGRAM = Program("harness", "", SUBCOMMANDS, run, register)
main = PROGRAM.main


if __name__ == "__main__":
    sys.exit(main())
