"""Split texts and sources into words."""

from __future__ import annotations

import re

IDENTIFIER = re.compile(r"[^\W\d]\w+")
"""An identifier: two or more characters, as single letters are no evidence."""

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]{2,}|[^\W\d_A-Za-z]+")
# Endings that change the number or tense of a word (after Porter 1980, steps 1a-1b).
_ENDINGS = (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", "e"), ("s", ""))
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
