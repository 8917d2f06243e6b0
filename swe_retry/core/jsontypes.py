"""JSON objects, whose values are of any type of JSON, and what stands in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

JsonObject = dict[str, Any]
JsonMapping = Mapping[str, Any]
"""One that is only read."""


def value_at(value: object, *path: str) -> Any:  # noqa: ANN401
    """Return what stands in nested objects, None where a key is missing."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def objects(value: object, *path: str) -> list[JsonObject]:
    items = value_at(value, *path)
    if not isinstance(items, list):
        return []
    return [item for item in items if isinstance(item, dict)]


def first_object(value: JsonObject, key: str) -> JsonObject:
    for item in objects(value, key):
        return item
    return {}


def object_at(value: object, *path: str) -> JsonObject:
    item = value_at(value, *path)
    if isinstance(item, dict):
        return item
    return {}


def text_at(value: object, *path: str) -> str:
    item = value_at(value, *path)
    if isinstance(item, str):
        return item
    return ""


def count_at(value: object, *path: str) -> int:
    item = value_at(value, *path)
    if isinstance(item, bool) or not isinstance(item, int):
        return 0
    return max(item, 0)


def map_texts(data: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401
    """Return JSON with all texts in it changed, keys included."""
    if isinstance(data, str):
        return change(data)
    if isinstance(data, Mapping):
        changed = {}
        for key, value in data.items():
            changed[map_texts(key, change)] = map_texts(value, change)
        return changed
    if isinstance(data, list | tuple):
        return [map_texts(value, change) for value in data]
    return data


def texts_in(data: object) -> Iterator[str]:
    """Yield all texts in JSON except keys."""
    if isinstance(data, str):
        yield data
    values: Iterable[object] = ()
    if isinstance(data, dict):
        values = data.values()
    if isinstance(data, list | tuple):
        values = data
    for value in values:
        yield from texts_in(value)
