#!/usr/bin/env python3
"""Attempt SWE-bench instances: ``python harness.py --models gpt-4o,opus``."""

import sys

# Python 2.7 and 3.6 read this file too, and stop at this line.
import bench.cli.oldest  # noqa: F401
from bench.cli.dispatch import Command, Program

DEFAULT = Command("bench.cli.command_line")
SUBCOMMANDS = {
    "check": Command(
        "bench.cli.check",
        "main",
        "",
        "Set a repository up and run its tests; call no model.",
    ),
    "status": Command("bench.cli.existing", "status", "RUN", "Print how far a run is."),
    "clean": Command(
        "bench.cli.existing",
        "clean",
        "RUN",
        "Remove what a killed process left, or with --all the run.",
    ),
    "list": Command(
        "bench.cli.listing",
        "main",
        "WHAT",
        "List models, agents, or the images with installed projects.",
    ),
    "install": Command(
        "bench.cli.listing",
        "install",
        "AGENT",
        "Install a coding agent, in the version that was tested.",
    ),
    "try": Command(
        "bench.cli.tryagent",
        "main",
        "AGENT",
        "Let an agent edit one demo instance and show what it did.",
    ),
}

PROGRAM = Program("harness", "", SUBCOMMANDS, DEFAULT, data_sets="demo")
main = PROGRAM.dispatch


if __name__ == "__main__":
    sys.exit(main())
