"""Tables and statistics must not wait for libraries that only pages and evaluations need."""

from __future__ import annotations

import subprocess
import sys

SLOW = ("matplotlib", "numpy", "datasets", "markdown_it", "swebench")
PROGRAM = f"""
import sys
import swe_retry.report.report
print(*(name for name in {SLOW} if name in sys.modules))
"""


def test_the_commands_import_no_slow_library() -> None:
    argv = [sys.executable, "-c", PROGRAM]
    result = subprocess.run(argv, capture_output=True, check=True)
    assert result.stdout == b"\n"
