"""Errors that end a run, each with its exit code."""

from __future__ import annotations

import errno
from pathlib import Path

_FREE = "free space there, or choose another folder, as by --out"
_PERMIT = "correct its permissions, or choose another folder, as by --out"
_FIXES = {
    errno.ENOSPC: _FREE,
    errno.EDQUOT: _FREE,
    errno.EROFS: _PERMIT,
    errno.EACCES: _PERMIT,
    errno.EPERM: _PERMIT,
}


class UserError(Exception):
    """An error that the user can fix; one line names the cause and the fix. Exit 2."""


class DamagedFileError(UserError):
    """A file cannot be used.

    Attributes:
        problem: what is wrong, with its line where that is known, and the fix.
    """

    def __init__(self, path: Path, problem: str, fix: str) -> None:
        self.path = path
        self.problem = f"{problem}; {fix}"
        super().__init__(f"{path} {self.problem}")


class InfrastructureError(Exception):
    """An engine, network or disk failed: uses no try, writes no prediction.

    Exit 1 where it ended an instance, 2 where it ended a command.
    """


class StoppedError(Exception):
    """The run is stopping: work ends here, and finished results are kept. Exit 130."""


def describe_os_error(error: OSError) -> str:
    """Return what the system refused in one line: path, cause and fix."""
    if error.filename is None:
        return f"{error}; correct it, and repeat the command"
    path = str(error.filename)
    fix = _FIXES.get(error.errno or 0, "correct it, and repeat the command")
    if isinstance(error, FileNotFoundError) and "/" not in path:
        return f"{path} is not in PATH; install it, or add its folder to PATH"
    return f"{path}: {error.strerror}; {fix}"
