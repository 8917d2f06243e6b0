"""The values of the linter: what changed, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A fatal problem: where it is (line from 1) and what it is."""

    path: str
    line: int
    problem: str


@dataclass(frozen=True)
class Change:
    """A file's text before and after the edits; ``before`` is None for a new file."""

    path: str
    before: str | None
    after: str
