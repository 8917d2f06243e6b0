#!/usr/bin/env python3
"""Attempt SWE-bench instances: ``python harness.py --models gpt-4o,opus``."""

import sys

from swe_retry.cli.harness import main

if __name__ == "__main__":
    sys.exit(main())
