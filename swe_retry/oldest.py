"""Refuse a Python that is too old, in syntax that Python 2.7 reads."""

import sys

OLDEST = (3, 11)

if sys.version_info < OLDEST:
    sys.stderr.write(
        "error: Python %d.%d is too old; use Python %d.%d or newer\n"  # noqa: UP031
        % (sys.version_info[:2] + OLDEST)
    )
    sys.exit(2)
