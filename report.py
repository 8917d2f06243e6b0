#!/usr/bin/env python3
"""Evaluate and report on runs: ``python report.py predictions/run1``."""

from __future__ import annotations

import sys

from bench.cli.launch import launch
from demo import register

if __name__ == "__main__":
    register()
    sys.exit(launch("reports.command_line", "report.py"))
