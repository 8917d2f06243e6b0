"""The tables of ``pyproject.toml`` that test runners read. Pure."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Per line: the time of TOML's parser grows with the square of a dotted name's length.
_MOST_DOTS = 150
# Elements of arrays look similar, but are indented or end in a comma.
_TABLE = re.compile(r"\[[^,\n]*\]\s*(#.*)?$")
# As in inisettings.py; tox's dependencies are in the same tables as its commands.
_TABLES = (
    ("tool", "pytest"),
    ("tool", "coverage"),
    ("tool", "tox"),
    ("project", "entry-points", "pytest11"),
    ("tool", "poetry", "plugins", "pytest11"),
    ("tool", "flit", "entrypoints", "pytest11"),
    ("tool", "setuptools", "dynamic", "entry-points"),
)


def with_toml_settings_of(base: str, new: str) -> str:
    """Return ``new`` with the tables that test runners read taken from ``base``.

    Raises:
        ValueError: the tables cannot be separated from the rest, or a text is not TOML.
        RecursionError: a text is nested too deeply.
    """
    if max(line.count(".") for line in [*base.split("\n"), *new.split("\n")]) > _MOST_DOTS:
        raise ValueError("a line has too many dots")
    before, after = tomllib.loads(base), tomllib.loads(new)
    if _picked(before) == _picked(after):
        return new
    taken, left = _parted(base)[0], _parted(new)[1]
    merged = "\n".join((left.removesuffix("\n"), taken)) if taken else left
    found = tomllib.loads(merged)
    if _picked(found) != _picked(before) or _without_picked(found) != _without_picked(after):
        raise ValueError("the settings cannot be put back")
    return merged


def _parted(text: str) -> tuple[str, str]:
    """Split a text into the tables that a runner reads and the rest."""
    lines = text.splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if _TABLE.match(line)]
    ours: list[str] = []
    others = lines[: starts[0] if starts else len(lines)]
    for start, end in pairwise([*starts, len(lines)]):
        names = _table(lines[start])
        read = any(names[: len(table)] == table for table in _TABLES)
        (ours if read else others).extend(lines[start:end])
    return "".join(ours), "".join(others)


def _table(line: str) -> tuple[str, ...]:
    """Return the names in the table header ``line``; empty if it is none."""
    try:
        found: Any = tomllib.loads(line)
    except ValueError:
        return ()
    names: list[str] = []
    while found:
        (name, found) = next(iter(found.items())) if isinstance(found, dict) else ("", found[0])
        names += [name] if name else []
    return tuple(names)


def _picked(document: Mapping[str, Any]) -> list[Any]:
    return [_at(document, table) for table in _TABLES]


def _at(document: Any, names: Sequence[str]) -> Any:  # noqa: ANN401 - whatever TOML has
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _without_picked(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``document`` without the tables of runners and tables that this leaves empty."""
    rest = copy.deepcopy(dict(document))
    for table in _TABLES:
        above = _at(rest, table[:-1])
        if isinstance(above, dict):
            above.pop(table[-1], None)
        for depth in range(len(table) - 1, 0, -1):
            above = _at(rest, table[: depth - 1])
            if isinstance(above, dict) and above.get(table[depth - 1]) == {}:
                del above[table[depth - 1]]
    return rest
