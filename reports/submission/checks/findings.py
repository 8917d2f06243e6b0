"""Faults that the validator finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

# Names and ids in a package may have any length.
_LONGEST = 400


class Kind(str, Enum):
    """The kinds of faults; see docs/submission.md."""

    MISSING = "missing"
    UNREADABLE = "unreadable"
    LINK = "link"
    SIZE = "size"
    TODO = "todo"
    SECRET = "secret"
    UNKNOWN_ID = "unknown id"
    DUPLICATE = "duplicate"
    MODEL_NAME = "model name"
    TEST_EDIT = "test edit"
    PATCH = "patch"
    METADATA = "metadata"
    NAME = "name"
    README = "readme"
    RESULTS = "results"
    LOGS = "logs"
    TRAJECTORY = "trajectory"
    ATTEMPTS = "attempts"
    TRACE = "trace"


@dataclass(frozen=True)
class PackageFinding:
    """One fault of a package.

    Attributes:
        place: the file, relative to the package, and the place in it.
        problem: the fault.
        fix: how to correct it.
    """

    kind: Kind
    place: str
    problem: str
    fix: str

    def line(self) -> str:
        """Return one printable line; other characters are escaped."""
        place, problem = self.place[:_LONGEST], self.problem[:_LONGEST]
        text = f"{self.kind.value}: {place}: {problem}; {self.fix}"
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class UnusableError(Exception):
    """A file of a package cannot be used; contains the finding."""

    def __init__(self, finding: PackageFinding) -> None:
        super().__init__(finding.line())
        self.finding = finding
