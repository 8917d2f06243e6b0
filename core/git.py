"""Run git the same way everywhere: no user configuration, no inherited ``GIT_*``.

A ``GIT_DIR`` or ``GIT_INDEX_FILE`` in the environment, as hooks set them, makes git act on another
repository (as pre-commit found), and a user's ``core.autocrlf`` changes the files of a checkout.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from core.errors import InfrastructureError

# Called directly, not through GitPython: that passes inherited GIT_* variables on, leaves processes
# and file handles to the garbage collector (its README advises against it in long-running
# processes), and has no API for most commands here (pack-objects, read-tree, apply --cached).
_FIXED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ATTR_NOSYSTEM": "1",
    "LC_ALL": "C",
}
# Set for one process instead of in a global file: mirrors often belong to another user.
_CONFIG = {
    "safe.directory": "*",
    "core.quotePath": "true",
    "core.hooksPath": os.devnull,
    "gc.auto": "0",
    "core.fsmonitor": "false",
    # Their defaults lie in the home folder, also with GIT_CONFIG_GLOBAL.
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "user.name": "harness",
    "user.email": "harness@localhost",
    "advice.detachedHead": "false",
}


class GitError(InfrastructureError):
    """A git command failed; the message holds the command and the end of its error output."""


def git_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment without ``GIT_*``, plus fixed settings and ``extra``."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    config = {"GIT_CONFIG_COUNT": str(len(_CONFIG))}
    for number, (key, value) in enumerate(_CONFIG.items()):
        config[f"GIT_CONFIG_KEY_{number}"] = key
        config[f"GIT_CONFIG_VALUE_{number}"] = value
    return {**kept, **_FIXED, **config, **(extra or {})}


def git_result(
    *args: str | Path,
    cwd: Path,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run ``git args`` in ``cwd`` and return the result, with any exit code."""
    return subprocess.run(
        ["git", *map(str, args)],
        cwd=cwd,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        env=git_environment(env),
        capture_output=True,
        # Ctrl-C in the terminal is for the harness, which lets git finish.
        start_new_session=True,
        check=False,
    )


def git(
    *args: str | Path,
    cwd: Path,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
) -> bytes:
    """Run ``git args`` in ``cwd`` and return its standard output.

    Raises:
        GitError: the exit code is not 0.
    """
    result = git_result(*args, cwd=cwd, stdin=stdin, env=env)
    if result.returncode:
        words = result.stderr.decode("utf-8", "replace").strip()[-500:]
        raise GitError(f"git {' '.join(map(str, args))} in {cwd}: {words}")
    return result.stdout
