"""Pure: where two values of JSON's types begin to differ, in words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from operator import eq
from pathlib import Path
from typing import Any

_LONGEST = 80
_DECIMAL = re.compile(r"\d{1,15}(\.\d{1,40})?")
_MISSING = object()


@dataclass(frozen=True)
class Difference:
    """A file that is not as it should be.

    Attributes:
        what: the first thing that differs, in one line.
    """

    file: Path
    what: str

    def line(self, root: Path) -> str:
        """Return the line for the user; paths below ``root`` are given from there."""
        name = self.file.relative_to(root) if self.file.is_relative_to(root) else self.file
        return f"{name}: {self.what}"


def first_difference(found: Any, expected: Any, place: str = "") -> str:  # noqa: ANN401
    """Return the first place where ``found`` is not ``expected``, empty where they are equal."""
    return next(all_differences(found, expected, place), "")


def all_differences(
    found: Any,  # noqa: ANN401
    expected: Any,  # noqa: ANN401
    place: str = "",
    same: Callable[[object, object], bool] = eq,
) -> Iterator[str]:
    """Yield every place where ``found`` is not ``expected``; ``same`` compares plain values."""
    if isinstance(found, Mapping) and isinstance(expected, Mapping):
        for key in [*expected, *(key for key in found if key not in expected)]:
            pair = found.get(key, _MISSING), expected.get(key, _MISSING)
            yield from all_differences(*pair, f"{place}.{key}" if place else str(key), same)
    elif _is_list(found) and _is_list(expected):
        for number, pair in enumerate(zip_longest(found, expected, fillvalue=_MISSING)):
            yield from all_differences(*pair, f"{place}[{number}]", same)
    elif not same(found, expected) or isinstance(found, bool) is not isinstance(expected, bool):
        is_, should = _shown(found, expected), _shown(expected, found)
        yield f"{place or 'it'} is {is_}, and should be {should}"


def nearly(found: object, expected: object) -> bool:
    """Tell whether two values are equal, numbers and decimal texts to nine digits.

    Runs before version 0.6 kept dollars as floats and rounded only their sums.
    """
    if found == expected:
        return True
    one, other = _number(found), _number(expected)
    if one is None or other is None:
        return False
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-8)


def _number(value: object) -> float | None:
    if isinstance(value, str):
        return float(value) if _DECIMAL.fullmatch(value) else None
    return float(value) if isinstance(value, (int, float)) else None


def first_line(found: str, expected: str) -> str:
    """Return the first line of a text that is not as expected, empty where there is none."""
    pairs = zip_longest(found.split("\n"), expected.split("\n"), fillvalue=_MISSING)
    for number, (one, other) in enumerate(pairs, 1):
        if one != other:
            return first_difference(one, other, f"line {number}")
    return ""


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _shown(value: object, other: object) -> str:
    """Return ``value`` on one line; of long texts the part where they begin to differ."""
    if value is _MISSING:
        return "missing"
    text = json.dumps(value, ensure_ascii=True, default=str)
    if len(text) <= _LONGEST:
        return text
    against = json.dumps(other, ensure_ascii=True, default=str) if other is not _MISSING else ""
    same = next((n for n, (a, b) in enumerate(zip(text, against, strict=False)) if a != b), 0)
    start = max(0, min(same, len(text) - 1) - _LONGEST // 4)
    return f"{'…' if start else ''}{text[start : start + _LONGEST]}…"
