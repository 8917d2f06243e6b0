#!/usr/bin/env python3
"""Evaluate and report on runs: ``python report.py predictions/run1``."""

from __future__ import annotations

import sys

from bench.cli.launch import launch
from demo import register

if __name__ == "__main__":
    register()
    # It makes a run of its own, and takes the options of harness.py.
    selects = any(word.partition("=")[0] == "--select" for word in sys.argv[1:])
    sys.exit(launch("reports.selecting" if selects else "reports.command_line", "report.py"))
