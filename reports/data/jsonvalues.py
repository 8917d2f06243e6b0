"""Pure: values of JSON files; a value of the wrong type counts as missing.

Files of other harnesses lack keys or hold nulls, and statistics must work without these values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any, TypeVar

from core import money
from core.jsontypes import JsonMapping

T = TypeVar("T")
_MAX = 2**53


def mapping(value: object) -> JsonMapping:
    if isinstance(value, dict):
        return value
    return {}


def values_of(rows: Iterable[JsonMapping], name: str) -> list[Any]:
    return [row[name] for row in rows]


def objects(value: object) -> list[JsonMapping]:
    return list(_parts(value, dict))


def text(value: object) -> str:
    if isinstance(value, str):
        return value
    return ""


def texts(value: object) -> tuple[str, ...]:
    return tuple(_parts(value, str))


def _parts(
    value: object,
    kind: type[T],
) -> Iterator[T]:
    """Yield the parts of a list that are of this type."""
    if isinstance(value, list):
        for part in value:
            if isinstance(part, kind):
                yield part


def flag(value: object) -> bool | None:
    """Return an outcome; None if unknown."""
    if isinstance(value, bool):
        return value
    return None


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
