"""The definitions of one file, and the words in each of them."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

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
        units = [
            [n for w in sorted(unit) for n in (number[w], unit[w])]
            for unit in self.words
        ]
        rows = [
            [
                d.name,
                d.kind,
                d.first,
                d.last,
                d.parent,
                d.signature,
                d.decorators,
                d.doc,
            ]
            for d in self.definitions
        ]
        return zlib.compress(json.dumps([rows, " ".join(names), units]).encode(), 1)

    @classmethod
    def unpack(cls, packed: bytes) -> FileTags:
        try:
            rows, joined, units = json.loads(zlib.decompress(packed))
            names = joined.split(" ")
            definitions = tuple(
                Definition(
                    name, kind, first, last, parent, head, tuple(decorators), doc
                )
                for name, kind, first, last, parent, head, decorators, doc in rows
            )
            words = tuple(
                {
                    names[n]: count
                    for n, count in zip(unit[::2], unit[1::2], strict=True)
                }
                for unit in units
            )
        except (zlib.error, ValueError, TypeError, LookupError) as error:
            raise ValueError(f"not packed tags: {error}") from error
        return cls(definitions, words)


IDENTIFIER = re.compile(r"[^\W\d]\w+")
"""An identifier: two or more characters, as single letters prove nothing."""

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]{2,}|[^\W\d_A-Za-z]+")
# Endings that change the number or tense of a word (after Porter 1980, steps 1a-1b).
_ENDINGS = (
    ("ies", "y"),
    ("sses", "ss"),
    ("ing", ""),
    ("ed", ""),
    ("es", "e"),
    ("s", ""),
)
_SHORTEST_STEM = 4


def parts(identifier: str) -> tuple[str, ...]:
    """Return the stemmed words in ``identifier``: ``get_HTTPLines`` has three."""
    found = (stem(part.lower()) for part in _PART.findall(identifier) if len(part) > 1)
    return tuple(dict.fromkeys(found))


def stem(word: str) -> str:
    """Return ``word`` without a plural's or a verb's ending; short words stay as they are."""
    for ending, other in _ENDINGS:
        if word.endswith(ending) and not word.endswith("ss"):
            cut = word[: -len(ending)] + other
            return cut if len(cut) >= _SHORTEST_STEM else word
    return word
