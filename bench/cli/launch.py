"""Start a command: with the packages of ``.venv`` where this interpreter lacks them.

Nothing but the standard library is needed here, so that ``./harness.py`` works before activation.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

from runs.storage.versions import CHECKOUT

_INTERRUPTED = 130


def launch(module: str, name: str, function: str = "main") -> int:
    """Run a function of ``module`` as the command ``name``; return the exit code."""
    try:
        command = getattr(import_module(module), function)
        run = import_module("bench.cli.cli").run_cli
    except ModuleNotFoundError as error:
        fix = "install swe-retry-harness again"
        if CHECKOUT is not None:
            _run_in_own_environment(CHECKOUT / ".venv")
            fix = f"run `make setup` in {CHECKOUT}"
        print(
            f"error: the package {error.name} is not installed; {fix}", file=sys.stderr
        )
        return 2
    except KeyboardInterrupt:
        return _INTERRUPTED
    return int(run(command, name))


def _run_in_own_environment(own: Path) -> None:
    """Replace this process by one of ``own``; return where there is none, or this is it."""
    python = own / "bin" / "python"
    if python.exists() and Path(sys.prefix).resolve() != own.resolve():
        # As it was called: a module started with -m has no path that could be started.
        os.execv(python, [str(python), *sys.orig_argv[1:]])
