"""Pure: whether the counts in a provider's answer can be read, and all have a known price."""

from __future__ import annotations

import json

from swe_retry.core.data import read_yaml

_MAX_TOKENS = 1_000_000_000
"""Of a call; more than a hundred times the longest window."""
# Where counts are, and what else the answer has of a protocol in which they must not lack.
_PLACES = {"usage": "content", "usageMetadata": "candidates"}
_UNITS = ("tokens", "count", "requests", "seconds", "details")
_DATA = read_yaml(__file__, "usage.yaml")
_TOKENS = frozenset(_DATA["tokens"].split())
_NO_COUNTS = _DATA["none"]


def is_priced(usage: object) -> bool:
    """Return whether ``usage`` counts nothing but tokens whose price is known.

    What is not listed may have a price of its own, such as audio, and a number that cannot be a
    count says nothing.
    """
    if isinstance(usage, list):
        return all(map(is_priced, usage))
    if not isinstance(usage, dict):
        return True
    if "model" in usage or usage.get("modality") == "AUDIO":
        return False
    return all(_is_priced_count(key, value) for key, value in usage.items())


def _is_priced_count(key: str, value: object) -> bool:
    letters = key.replace("_", "").lower()
    if letters in _TOKENS:
        if value is None:
            return key not in _NO_COUNTS
        return type(value) is int and 0 <= value <= _MAX_TOKENS  # true is none
    if letters.startswith("cost"):
        return True
    if isinstance(value, dict | list):
        return is_priced(value)
    if letters.endswith(_UNITS):
        return not value
    # Times and rates are not whole, and true and false are no numbers.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    return not value or value % 1 != 0


def without_odd_counts(data: bytes) -> tuple[bytes, bool]:
    """Return an answer as litellm can read it, and whether its counts have a known price.

    litellm fails on counts that it cannot read, and the answer would be lost.
    """
    odd: dict[str, object] = {}
    try:
        answer = json.loads(data)
        for place, sign in _PLACES.items():
            usage = answer.get(place)
            is_expected = place in answer or sign in answer
            if is_expected and not (isinstance(usage, dict) and is_priced(usage)):
                odd[place] = _NO_COUNTS
    except (ValueError, AttributeError, RecursionError):
        return data, True
    if not odd:
        return data, True
    return json.dumps({**answer, **odd}).encode(), False
