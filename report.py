#!/usr/bin/env python3
"""Evaluate and report on runs: ``python report.py predictions/run1``."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.cli.launch import launch
from demo import register


def main() -> int:
    register()
    # It makes a run of its own, and takes the options of harness.py.
    selects = any(word.partition("=")[0] == "--select" for word in sys.argv[1:])
    module = "reports.selecting" if selects else "reports.command_line"
    return launch(module, Path(sys.argv[0]).name)


if __name__ == "__main__":
    sys.exit(main())
