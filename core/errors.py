"""Errors that end a run, each with its exit code."""

from __future__ import annotations

from pathlib import Path


class UserError(Exception):
    """An error that the user can fix; one line names the cause and the fix. Exit 2."""


class DamagedFileError(UserError):
    """A file cannot be used.

    Attributes:
        problem: what is wrong, with its line where that is known, and the fix.
    """

    def __init__(
        self,
        path: Path,
        problem: str,
        fix: str,
    ) -> None:
        self.path = path
        self.problem = f"{problem}; {fix}"
        super().__init__(f"{path} {self.problem}")


class InfrastructureError(Exception):
    """An engine, network or disk failed: uses no try, writes no prediction. Exit 1."""


class StoppedError(Exception):
    """The run is stopping: work ends here, and finished results are kept. Exit 130."""
