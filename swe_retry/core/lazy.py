"""Names of a package that are imported when a program first uses them."""

from __future__ import annotations

import ast
from pathlib import Path


def homes_in(path: str) -> dict[str, str]:
    """Return the modules that a file imports names from for type checkers, by these names."""
    homes = {}
    for block in ast.parse(Path(path).read_text("utf-8")).body:
        for node in getattr(block, "body", ()):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    homes[alias.name] = str(node.module)
    return homes
