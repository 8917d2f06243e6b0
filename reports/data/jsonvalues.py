"""Pure: values of JSON files; a value of the wrong type counts as missing.

Files of other harnesses lack keys or hold nulls, and statistics must work without these values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from core import money

_MOST = 2**53


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def objects(value: object) -> list[Mapping[str, Any]]:
    return (
        [part for part in value if isinstance(part, dict)]
        if isinstance(value, list)
        else []
    )


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def texts(value: object) -> tuple[str, ...]:
    return (
        tuple(part for part in value if isinstance(part, str))
        if isinstance(value, list)
        else ()
    )


def flag(value: object) -> bool | None:
    """Return an outcome; None if unknown."""
    return value if isinstance(value, bool) else None


def integer(value: object) -> int | None:
    """Return ``value`` if it is an integer from 0 to 2**53, else None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= _MOST else None


def number(value: object) -> float | None:
    """Return ``value`` if it is a finite number of 0 or more, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) and value >= 0 else None
    except OverflowError:
        return None


def dollars(value: object) -> Decimal | None:
    """Return dollars; None if unknown."""
    try:
        return money.dollars_or_none(number(value))
    except ValueError:
        return None
