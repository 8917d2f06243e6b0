"""Attempt SWE-bench instances: ``python harness.py --models gpt-4o,opus``."""

import sys

from swe_retry.launch.start import Command, Program

DEFAULT = Command("swe_retry.cli.command_line")
SUBCOMMANDS = {
    "check": Command(
        "swe_retry.cli.check",
        "main",
        "",
        "Set a repository up and run its tests; call no model.",
    ),
    "status": Command(
        "swe_retry.cli.existing", "status", "RUN", "Print how far a run is."
    ),
    "clean": Command(
        "swe_retry.cli.existing",
        "clean",
        "RUN",
        "Remove what a killed process left, or with --all the run.",
    ),
    "list": Command(
        "swe_retry.cli.listing",
        "main",
        "WHAT",
        "List models, agents, or the images with installed projects.",
    ),
    "install": Command(
        "swe_retry.cli.listing",
        "install",
        "AGENT",
        "Install a coding agent, in the version that was tested.",
    ),
    "try": Command(
        "swe_retry.cli.tryagent",
        "main",
        "AGENT",
        "Let an agent edit one demo instance and show what it did.",
    ),
}

PROGRAM = Program("harness", "", SUBCOMMANDS, DEFAULT, data_sets="swe_retry.demo")
main = PROGRAM.dispatch


if __name__ == "__main__":
    sys.exit(main())
