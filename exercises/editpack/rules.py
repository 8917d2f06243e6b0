"""The rules that an edit must pass to be trained on. Pure.

``code`` are the rules of EditPackFT's public code, ``paper`` those that the CanItEdit paper states
(F. Cassano et al., 2023, arXiv:2312.12450v1). The code's are stricter: more words, and small edits
besides none.
"""

from __future__ import annotations

from enum import Enum

from rapidfuzz.distance import Levenshtein

LEAST_DISTANCE = 10
"""Edits of fewer characters are ``small`` in the public code."""
_PAPER_WORDS = ("TODO", "FIXME", "BUG")
_MORE_WORDS = ("FIX ME", "from setuptools import", "import setuptools")
# The lower-case forms as well: "debug" holds "bug", "todos" holds "todo"; "Todo" holds none.
_CODE_WORDS = tuple(
    dict.fromkeys(
        (*_PAPER_WORDS, *_MORE_WORDS, *(word.lower() for word in (*_PAPER_WORDS, *_MORE_WORDS)))
    )
)


class RuleSet(str, Enum):
    """Whose rules."""

    CODE = "code"
    PAPER = "paper"


class EditRule(str, Enum):
    """What an edit can break, in the order in which it is judged."""

    BLANK = "blank"
    WORDS = "words"
    SMALL = "small"
    SYNTAX = "syntax"


def broken_rule(old: str, new: str, rules: RuleSet) -> tuple[EditRule, str] | None:
    """Return the first rule that cleaned sides break, with what broke it; None without one.

    ``syntax``, the last, is judged by the command.
    """
    blank = " and ".join(name for name, text in (("old", old), ("new", new)) if not text.strip())
    if blank:
        return EditRule.BLANK, blank
    words = _CODE_WORDS if rules is RuleSet.CODE else _PAPER_WORDS
    if word := next((word for word in words if word in new), ""):
        return EditRule.WORDS, word
    if old == new:
        return EditRule.SMALL, "equal sides"
    if rules is RuleSet.CODE:
        # With a cut-off: 50,000 characters take 0.1 s without, 30 µs with.
        distance = Levenshtein.distance(old, new, score_cutoff=LEAST_DISTANCE - 1)
        if distance < LEAST_DISTANCE:
            return EditRule.SMALL, f"distance {distance}"
    return None
