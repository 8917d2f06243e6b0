#!/usr/bin/env python3
"""Attempt SWE-bench instances: ``python harness.py --models gpt-4o,opus``."""

from __future__ import annotations

import sys

from bench.cli.launch import launch
from demo import register

if __name__ == "__main__":
    register()
    sys.exit(launch("bench.cli.command_line", "harness.py"))
