"""Start a program again with the packages of ``.venv``, where this interpreter lacks them.

Nothing but the standard library is needed here, so that ``./harness.py`` works before activation.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swe_retry.record.versions import CHECKOUT

_INTERRUPTED = 130


@contextmanager
def packages_or_restart() -> Iterator[None]:
    """Let a program import its commands; where a package is missing, ``restart`` it."""
    try:
        yield
    except ImportError as error:
        sys.exit(restart(error))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def restart(error: ImportError) -> int:
    """Start again with the packages of ``.venv``; where that is no help, say what is missing."""
    fix = "install swe-retry-harness again"
    if CHECKOUT is not None:
        _run_in_own_environment(CHECKOUT / ".venv")
        fix = f"run `make setup` in {CHECKOUT}"
    print(
        f"error: the package {error.name or error} is missing or of another version; {fix}",
        file=sys.stderr,
    )
    return 2


def _run_in_own_environment(own: Path) -> None:
    """Replace this process by one of ``own``; return where there is none, or this is it."""
    python = own / "bin" / "python"
    if not python.exists() or Path(sys.prefix).resolve() == own.resolve():
        return
    # Without options of this interpreter: -S would hide the packages again.
    script = [sys.argv[0]]
    spec = sys.modules["__main__"].__spec__
    if spec is not None:  # started with -m
        script = ["-m", spec.name.removesuffix(".__main__")]
    os.execv(python, [str(python), *script, *sys.argv[1:]])
