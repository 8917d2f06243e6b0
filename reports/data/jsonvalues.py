"""Pure: values of JSON files; a value of the wrong type counts as missing.

Files of other harnesses lack keys or hold nulls, and statistics must work without these values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from typing import Any

from core import money
from core.jsontypes import JsonMapping

_MAX = 2**53


def values_of(rows: Iterable[JsonMapping], name: str) -> list[Any]:
    return [row[name] for row in rows]


def texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(part for part in value if isinstance(part, str))


def integer(value: object) -> int | None:
    """Return ``value`` if it is an integer from 0 to 2**53, else None."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX:
        return value
    return None


def number(value: object) -> float | None:
    """Return ``value`` if it is a finite number of 0 or more, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    with suppress(OverflowError):
        if math.isfinite(value) and value >= 0:
            return float(value)
    return None


def dollars(value: object) -> Decimal | None:
    """Return dollars; None if unknown."""
    with suppress(ValueError):
        return money.dollars_or_none(number(value))
    return None
