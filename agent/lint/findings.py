"""The input and the output of the linter."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A fatal problem and its line, counted from 1."""

    path: str
    line: int
    problem: str


@dataclass(frozen=True)
class Change:
    """A file's text before and after the edits; ``before`` is None for a new file."""

    path: str
    before: str | None
    after: str
