"""The rules that an edit must pass to be trained on. Pure, but for the parser that is passed in.

``code`` are the rules of EditPackFT's public code, ``paper`` those that the CanItEdit paper states
(F. Cassano et al., 2023, arXiv:2312.12450v1). The code's are stricter: more words, and small edits
besides none.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from rapidfuzz.distance import Levenshtein

Parser = Callable[[str], str]
"""Returns why a text is no Python, in one line; empty if it is."""

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


def broken_rule(old: str, new: str, rules: RuleSet, parser: Parser) -> tuple[EditRule, str] | None:
    """Return the first rule that an edit breaks, with what broke it; None if it passes all.

    Args:
        old: the cleaned side before the edit.
        new: the cleaned side after it.
        rules: whose.
        parser: asked only about an edit that passes all other rules.
    """
    blank = " and ".join(name for name, text in (("old", old), ("new", new)) if not text.strip())
    if blank:
        return EditRule.BLANK, blank
    words = _CODE_WORDS if rules is RuleSet.CODE else _PAPER_WORDS
    if word := next((word for word in words if word in new), ""):
        return EditRule.WORDS, word
    if small := _small(old, new, rules):
        return EditRule.SMALL, small
    if problem := parser(new):
        return EditRule.SYNTAX, problem
    return None


def _small(old: str, new: str, rules: RuleSet) -> str:
    if old == new:
        return "equal sides"
    if rules is RuleSet.PAPER:
        return ""
    # With a cut-off: the distance of files of 50,000 characters takes 0.1 s without, 30 µs with.
    distance = Levenshtein.distance(old, new, score_cutoff=LEAST_DISTANCE - 1)
    return f"distance {distance}" if distance < LEAST_DISTANCE else ""
