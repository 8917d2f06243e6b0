"""Pure: nested JSON as flat names and texts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted name and the text of each value in ``value`` that is not empty."""
    for key, part in value.items():
        name = f"{prefix}{key}"
        if _is_empty(part):
            continue
        if isinstance(part, Mapping):
            yield from flat(part, f"{name}.")
        elif isinstance(part, list) and any(isinstance(one, Mapping) for one in part):
            numbered = {str(number): one for number, one in enumerate(part, 1)}
            yield from flat(numbered, f"{name}.")
        else:
            yield name, _text(part)


def _text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return json.dumps(value)


def _is_empty(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    return value is None or value in ("", [], {})
