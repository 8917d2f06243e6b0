"""Values of rows, and how they are printed."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Mapping
from io import StringIO
from typing import Any

JsonObject = dict[str, Any]
JsonMapping = Mapping[str, Any]
"""One that is only read."""
Say = Callable[[str], None]
"""Shows a line to the user."""
NONE = "–"
"""What a table shows for an unknown value."""


def values_of(rows: Iterable[JsonMapping], name: str) -> list[Any]:
    return [row[name] for row in rows]


def number_text(value: float | None, form: str, unit: str = "") -> str:
    """Return a number with its unit; a dash for None."""
    if value is None:
        return NONE
    return format(value, form) + unit


def say_aside(line: str) -> None:
    """Print a line about the progress, which does not belong to the result."""
    print(line, file=sys.stderr, flush=True)


def csv_text(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    stream = StringIO()
    csv.writer(stream, lineterminator="\n").writerows([headings, *rows])
    return stream.getvalue()
