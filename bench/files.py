"""How many files this process may have open: each worker needs a connection, a log and pipes."""

from __future__ import annotations

import contextlib
import resource

_WANTED = 16384


def allow_files(wanted: int = _WANTED) -> int:
    """Raise the limit on open files as far as the system lets us, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
