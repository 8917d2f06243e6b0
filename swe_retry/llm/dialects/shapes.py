"""What of a request is forwarded: a table for each protocol, in shapes.yaml.

A table has an entry for each kind of object: ``SHAPE``, or ``SHAPE TYPE`` for one with a key
``type``. The entry lists its keys; ``KEY:SHAPE`` says what stands at the key, and without a shape
any JSON does. An object is forwarded with these keys alone, and without an entry not at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from swe_retry.core.data import read_yaml

SHAPES: dict[str, dict[str, str]] = read_yaml(__file__, "shapes.yaml")
_FILES = ("data", "address")  # base64, and an address that holds the file
_TEXTS = ("part", "item")  # a text may stand in place of these
_BEGINNINGS = {"address": "data:", **dict.fromkeys(("data", *_TEXTS), "")}


def _letters(key: str) -> str:
    """Return what a key has in all its spellings: Gemini accepts two."""
    return key.replace("_", "").lower()


@dataclass
class Rewriter:
    """Rewrites one request.

    Attributes:
        removed: the keys and shapes that are not forwarded.
        is_text: all that is forwarded is text, so that its bytes limit its tokens.
    """

    shapes: dict[str, str]
    removed: list[str] = field(default_factory=list)
    is_text: bool = True

    def rewrite(self, value: Any, shape: str) -> Any:  # noqa: ANN401
        """Return what is forwarded of ``value``; None for nothing."""
        if isinstance(value, list):
            items = [self.rewrite(item, shape) for item in value]
            return [item for item in items if item is not None]
        if shape in _FILES:
            self.is_text = False
        rewritten = None
        if isinstance(value, dict):
            rewritten = self._rewrite_object(value, shape)
        elif isinstance(value, str) and value.startswith(_BEGINNINGS.get(shape, "\0")):
            rewritten = value
        if rewritten is None:
            self.removed.append(shape)
        return rewritten

    def _rewrite_object(self, value: dict[str, Any], shape: str) -> Any:  # noqa: ANN401
        kind = shape
        if "type" in value:
            kind = f"{shape} {value['type']}"
        entries = {}
        for entry in self.shapes.get(kind, "").split():
            key, _, inner = entry.partition(":")
            entries[_letters(key)] = key, inner
        rewritten = {}
        for name, item in value.items():
            if _letters(name) not in entries:
                self.removed.append(name)
                continue
            key, inner = entries[_letters(name)]
            if inner and item is not None:
                item = self.rewrite(item, inner)
                if item is None:
                    if shape in _TEXTS:
                        return None  # without its file, a part says nothing
                    continue
            rewritten[key] = item
        if shape in _TEXTS and rewritten.keys() <= {"type"}:
            return None
        return rewritten or None
