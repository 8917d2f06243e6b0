"""Print the template of ``meta.yaml``: ``python -m reports.submission > meta.yaml``."""

from __future__ import annotations

import sys

from reports.submission.entry import template

if __name__ == "__main__":
    sys.stdout.write(template())
