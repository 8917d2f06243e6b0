#!/usr/bin/env python3
"""Attempt SWE-bench instances: ``python harness.py --models gpt-4o,opus``."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.cli.launch import launch
from demo import register


def main() -> int:
    register()
    return launch("bench.cli.command_line", Path(sys.argv[0]).name)


if __name__ == "__main__":
    sys.exit(main())
