"""The definitions of one file, and the words in each of them."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

SCANNER = 5
"""Part of the key in the store, so that a changed scanner does not read older tags."""


@dataclass(frozen=True)
class Definition:
    """A function, a class or similar.

    Attributes:
        kind: ``type`` (may hold others), ``function`` or ``constant``.
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


# One-line texts contain neither.
FIELD = "\x1f"
_DECORATOR = "\x1e"


def as_row(definition: Definition) -> str:
    """Return ``definition`` as the text that ``from_row`` parses; its name comes first."""
    decorators = _DECORATOR.join(definition.decorators)
    values = vars(definition) | {"decorators": decorators}
    return FIELD.join(map(str, values.values()))


@lru_cache(maxsize=10_000)
def from_row(row: str) -> Definition:
    name, kind, first, last, parent, signature, decorators, doc = row.split(FIELD)
    return Definition(
        name,
        kind,
        int(first),
        int(last),
        int(parent),
        signature,
        tuple(filter(None, decorators.split(_DECORATOR))),
        doc,
    )


@dataclass(frozen=True)
class FileTags:
    """The definitions of one file in the order of their lines.

    Attributes:
        word_counts: how often each identifier stands in each *unit*: unit 0 lies outside all
            definitions, unit ``i + 1`` is definition ``i`` without the definitions inside it.
    """

    definitions: tuple[Definition, ...] = ()
    word_counts: tuple[Mapping[str, int], ...] = ({},)

    def pack(self) -> bytes:
        rows = list(map(as_row, self.definitions))
        text = json.dumps([rows, self.word_counts])
        return zlib.compress(text.encode(), 1)

    @classmethod
    def unpack(cls, packed: bytes) -> FileTags:
        try:
            rows, word_counts = json.loads(zlib.decompress(packed))
            return cls(tuple(map(from_row, rows)), tuple(map(dict, word_counts)))
        except (zlib.error, ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"not packed tags: {error}") from error


IDENTIFIER = re.compile(r"[^\W\d]\w+")
"""An identifier: two or more characters, as single letters prove nothing."""

# Capitals, a word with or without a capital, two or more digits, letters of other scripts.
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
_MIN_STEM = 4


def parts(identifier: str) -> tuple[str, ...]:
    """Return the stemmed words in ``identifier``: ``get_HTTPLines`` has three."""
    stems: dict[str, None] = {}
    for part in _PART.findall(identifier):
        if len(part) > 1:
            stems[stem(part.lower())] = None
    return tuple(stems)


def stem(word: str) -> str:
    """Return ``word`` without a plural's or a verb's ending; short words stay as they are."""
    if word.endswith("ss"):
        return word
    for ending, replacement in _ENDINGS:
        if word.endswith(ending):
            shortened = word[: -len(ending)] + replacement
            if len(shortened) >= _MIN_STEM:
                return shortened
            return word
    return word
