"""What precedes the code of a file is taken off, and then the rules of a trained edit apply. Pure.

``reference`` is the cleanup that EditPackFT was published with, ``exact`` does what that was meant
to do. Both take off the comments at the top of a file, with the blank lines before and between
them, and then a docstring of several lines. Both keep a docstring of one line, comments behind the
docstring and blank lines behind what they took off; so a second cleanup may take off more.

``code`` are the rules of EditPackFT's public code, ``paper`` those that the CanItEdit paper states
(F. Cassano et al., 2023, arXiv:2312.12450v1). The code's are stricter: more words, and small edits
besides none.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Callable, Iterator
from enum import Enum

from rapidfuzz.distance import Levenshtein

_TRIPLE = '"""'
_BOM = "\ufeff"
# Lines as Python divides them: at \r\n, \r and \n, but not at a form feed.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_BLANK_OR_COMMENT = re.compile(r"[ \t\f]*(?:(#)|[\r\n]|\Z)")
_TEXT_PREFIX = re.compile(r"[rRuU]?['\"]")


class Cleanup(str, Enum):
    """How the sides of a row are cleaned before they are judged."""

    REFERENCE = "reference"
    EXACT = "exact"
    NONE = "none"


def cleaned(text: str, cleanup: Cleanup) -> str:
    """Return the text of a file without what ``cleanup`` takes off its top."""
    return _CLEANUPS[cleanup](text)


def _reference(text: str) -> str:
    """Clean as the public code of EditPackFT does, with its faults.

    It counts triple double quotes in lines and reads no tokens. A first statement such as
    ``T = \"\"\"`` with its text on the next lines is lost, and so is code behind the docstring on
    its last line. Quotes in a comment begin a docstring. A docstring in ``'''``, or behind a byte
    order mark or an indented comment, stays. A carriage return alone ends no line.
    """
    kept, position, quoted = 0, 0, False
    while position <= len(text):
        end = text.find("\n", position)
        line = text[position : end if end >= 0 else len(text)]
        following = end + 1 if end >= 0 else len(text) + 1
        if line.count(_TRIPLE) == 1:
            if quoted:
                return text[following:]
            quoted = True
        elif not quoted and line.startswith("#"):
            kept = following
        elif not quoted and line.strip():
            break
        position = following
    return text[kept:]


def _exact(text: str) -> str:
    """Clean by the tokens of Python; nothing that is code is lost.

    A byte order mark goes, as it declares the coding. Where a text cannot be tokenized, the
    comments above that place go, and what follows stays as it is.
    """
    text = text.removeprefix(_BOM)
    text = text[_end_of_comments(text) :]
    return text[_end_of_docstring(text) :]


def _end_of_comments(text: str) -> int:
    """Return where the last comment line ends that has only comments and blank lines above."""
    kept = 0
    for line in _LINE.finditer(text):
        # Not by tokens: the tokenizers of Python versions disagree on null bytes in a comment.
        found = _BLANK_OR_COMMENT.match(line[0])
        if not found:
            break
        kept = line.end() if found[1] else kept
    return kept


def _end_of_docstring(text: str) -> int:
    """Return where the last line of a docstring of several lines ends; 0 without one.

    The statement must be nothing but texts, of any quotes, and one comment.
    """
    ends: list[int] = []

    def read() -> str:
        line = next(lines, None)
        ends.append(line.end() if line else len(text))
        return line[0].rstrip("\r\n") + "\n" * line[0].endswith(("\r", "\n")) if line else ""

    lines = _LINE.finditer(text)
    try:
        return _docstring_end(tokenize.generate_tokens(read), ends)
    except (tokenize.TokenError, SyntaxError, ValueError):
        return 0


def _docstring_end(tokens: Iterator[tokenize.TokenInfo], ends: list[int]) -> int:
    first = last = 0
    for token in tokens:
        if token.type == tokenize.STRING and _TEXT_PREFIX.match(token.string):
            first = first or token.start[0]
            last = token.end[0]
        elif token.type == tokenize.NEWLINE:
            return ends[last - 1] if first < last else 0
        elif token.type != tokenize.COMMENT and (first or token.type != tokenize.NL):
            return 0
    return 0


_CLEANUPS: dict[Cleanup, Callable[[str], str]] = {
    Cleanup.REFERENCE: _reference,
    Cleanup.EXACT: _exact,
    Cleanup.NONE: lambda text: text,
}


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
