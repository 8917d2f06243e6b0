"""Pure: values of JSON files; a value of the wrong type counts as missing.

Files of other harnesses lack keys or hold nulls, and statistics must work without these values.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from typing import Any

from pydantic import TypeAdapter

from swe_retry.core import money
from swe_retry.core.jsontypes import JsonMapping
from swe_retry.llm.chat import Whole
from swe_retry.record.records import Known, Number, Texts

_INTEGER = TypeAdapter(Known[Whole])
_NUMBER = TypeAdapter(Known[Number])
_TEXTS = TypeAdapter(Texts)


def values_of(rows: Iterable[JsonMapping], name: str) -> list[Any]:
    return [row[name] for row in rows]


def texts(value: object) -> tuple[str, ...]:
    return _TEXTS.validate_python(value)


def integer(value: object) -> int | None:
    """Return ``value`` if it is an integer from 0 to 2**53, else None."""
    return _INTEGER.validate_python(value)


def number(value: object) -> float | None:
    """Return ``value`` if it is a finite number of 0 or more, else None."""
    return _NUMBER.validate_python(value)


def dollars(value: object) -> Decimal | None:
    """Return dollars; None if unknown."""
    with suppress(ValueError):
        return money.dollars_or_none(number(value))
    return None
