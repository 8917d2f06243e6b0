#!/usr/bin/env python3
"""Attempt SWE-bench instances: ``python harness.py --models gpt-4o,opus``."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.cli.dispatch import Command, Program
from demo import register

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


def main() -> int:
    register()
    name = Path(sys.argv[0]).name
    return Program("harness", name, SUBCOMMANDS, DEFAULT).dispatch()


if __name__ == "__main__":
    sys.exit(main())
