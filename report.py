#!/usr/bin/env python3
"""Evaluate and report on runs: ``python report.py predictions/run1``."""

import sys

from swe_retry.cli.report import main

if __name__ == "__main__":
    sys.exit(main())
