"""What differs between a file and the values that it should hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from swe_retry.core.untrusted import Keys, key_path, read_object
from swe_retry.record.records import Values

Difference = tuple[Path, str]
"""A file, and in words what differs there."""

_LONGEST = 80
_MISSING = object()


def compare_json(
    path: Path,
    *expected: Values,
    left_out: set[str] | None = None,
) -> Iterator[Difference]:
    """Compare a file, if it is there, with the values that are valid for it."""
    if not path.is_file():
        return
    recorded = read_object(path, "have report.py write it again")
    differences = []
    for values in expected:
        difference = first_difference(recorded, values, left_out=left_out)
        differences.append(difference)
    if all(differences):
        yield path, str(differences[0])


def compare_text(path: Path, expected: str) -> Iterator[Difference]:
    """Compare the lines of a file with the expected ones."""
    # Texts are written with lone surrogates as escapes.
    writable = expected.encode("utf-8", "backslashreplace").decode()
    text = path.read_bytes().decode("utf-8", "replace")
    pairs = zip_longest(
        text.split("\n"),
        writable.split("\n"),
        fillvalue=_MISSING,
    )
    for number, pair in enumerate(pairs, 1):
        difference = first_difference(*pair)
        if difference:
            yield path, f"line {number}: {difference}"
            return


def first_difference(
    recorded: Any,  # noqa: ANN401 - any JSON value
    expected: Any,  # noqa: ANN401
    keys: Keys = (),
    left_out: set[str] | None = None,
) -> str | None:
    """Return the first place where ``recorded`` is not ``expected``; None if nowhere.

    With ``left_out``, keys that only one of both has are added to it instead.
    """
    pairs: dict[str | int, tuple[Any, Any]] = {}
    # In Python true equals 1.
    same_type = isinstance(recorded, bool) == isinstance(expected, bool)
    if isinstance(recorded, list) and isinstance(expected, list):
        parts = zip_longest(recorded, expected, fillvalue=_MISSING)
        pairs.update(enumerate(parts))
    elif isinstance(recorded, Mapping) and isinstance(expected, Mapping):
        for key in {**expected, **recorded}:
            in_both = key in recorded and key in expected
            if in_both or left_out is None:
                pairs[key] = (
                    recorded.get(key, _MISSING),
                    expected.get(key, _MISSING),
                )
            else:
                left_out.add(key)
    elif recorded != expected or not same_type:
        value = _excerpt(recorded, expected)
        other = _excerpt(expected, recorded)
        return f"{key_path(keys) or 'it'} is {value}, but should be {other}"
    for key, pair in pairs.items():
        difference = first_difference(*pair, (*keys, key), left_out)
        if difference:
            return difference
    return None


def _excerpt(value: object, other: object) -> str:
    """Return ``value`` on one line; of long texts the part around the first difference."""
    if value is _MISSING:
        return "missing"
    text = json.dumps(value, default=str)
    if len(text) <= _LONGEST:
        return text
    other_text = json.dumps(other, default=str)
    start = 0
    for character, counterpart in zip(text, other_text, strict=False):
        if character != counterpart:
            break
        start += 1
    start = max(0, min(start, len(text) - 1) - _LONGEST // 4)
    prefix = "…" if start else ""
    end = start + _LONGEST
    return f"{prefix}{text[start:end]}…"
