"""The files and innermost definitions that a gold patch changes, for evaluating maps only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agent.repomap.scanning.tags import Definition

_HUNK = re.compile(r"@@ -(\d+)")


def touched_lines(patch: str) -> dict[str, set[int]]:
    """Return the changed lines of each old file of ``patch``, counted from 1.

    These are the removed lines and, for hunks that only insert, the line before them.
    """
    touched: dict[str, set[int]] = {}
    path, number, removing = None, 0, False
    for line in patch.splitlines():
        if line.startswith("diff --git"):
            path = None
        elif path is None and line.startswith("--- a/"):
            path = line.removeprefix("--- a/")
            touched[path] = set()
        elif path and (hunk := _HUNK.match(line)):
            number, removing = int(hunk[1]), False
        elif path and line[:1] == "-":
            touched[path].add(number)
            number, removing = number + 1, True
        elif path and line[:1] == "+" and not line.startswith("+++ "):
            touched[path] |= set() if removing else {number - 1}
        elif path and line[:1] in (" ", ""):
            number, removing = number + 1, False
    return touched


def innermost(definitions: Sequence[Definition], lines: set[int]) -> set[int]:
    """Return the indexes of the innermost definitions around ``lines``, where there are any."""
    return {found[-1] for line in lines if (found := list(_around(definitions, line)))}


def _around(definitions: Sequence[Definition], line: int) -> Iterator[int]:
    """Yield the definitions around ``line``, outer ones first."""
    return (n for n, d in enumerate(definitions) if d.first <= line <= d.last)
