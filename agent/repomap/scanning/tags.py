"""The definitions of one file, and the words in each of them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SCANNER = 3
"""Part of the key in the store, so that a changed scanner does not read older tags."""


@dataclass(frozen=True)
class Definition:
    """A function, a class or similar.

    Attributes:
        kind: ``type`` (may hold others) or ``function``.
        first: line of its name's statement, decorators left out, counted from 1.
        parent: index of the definition around it in its file, -1 when there is none.
        signature: its head on one line, without the body.
        doc: first line of its docstring or of the comment above it.
    """

    name: str
    kind: str
    first: int
    last: int
    parent: int
    signature: str
    decorators: tuple[str, ...] = ()
    doc: str = ""


@dataclass(frozen=True)
class FileTags:
    """The definitions of one file in the order of their lines.

    Attributes:
        words: how often each identifier stands in each *unit*: unit 0 is what lies outside all
            definitions, unit ``i + 1`` is definition ``i`` without the definitions inside it.
    """

    definitions: tuple[Definition, ...] = ()
    words: tuple[Mapping[str, int], ...] = ({},)

    def pack(self) -> bytes:
        names = sorted({word for unit in self.words for word in unit})
        number = {word: place for place, word in enumerate(names)}
        units = [[n for w in sorted(unit) for n in (number[w], unit[w])] for unit in self.words]
        rows = [
            [d.name, d.kind, d.first, d.last, d.parent, d.signature, d.decorators, d.doc]
            for d in self.definitions
        ]
        return zlib.compress(json.dumps([rows, " ".join(names), units]).encode(), 1)

    @classmethod
    def unpack(cls, packed: bytes) -> FileTags:
        try:
            rows, joined, units = json.loads(zlib.decompress(packed))
            names = joined.split(" ")
            definitions = tuple(map(_definition, rows))
            words = tuple(
                {names[n]: count for n, count in zip(unit[::2], unit[1::2], strict=True)}
                for unit in units
            )
        except (zlib.error, ValueError, TypeError, LookupError) as error:
            raise ValueError(f"not packed tags: {error}") from error
        return cls(definitions, words)


def _definition(row: list[Any]) -> Definition:
    name, kind, first, last, parent, signature, decorators, doc = row
    return Definition(name, kind, first, last, parent, signature, tuple(decorators), doc)
