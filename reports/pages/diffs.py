"""Patches as highlighted diffs."""

from __future__ import annotations

from functools import cache

from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import DiffLexer

_LONGEST_HIGHLIGHTED = 300_000


def highlighted(patch: str) -> Markup:
    """Return ``patch`` as markup, with classes for added, removed and heading lines.

    Longer ones than 300,000 characters stay plain. Everything in the patch is escaped.
    """
    if len(patch) > _LONGEST_HIGHLIGHTED:
        return escape(patch)
    return Markup(highlight(patch, _lexer(), _formatter()))


@cache
def _lexer() -> DiffLexer:
    return DiffLexer(stripnl=False)


@cache
def _formatter() -> HtmlFormatter[str]:
    return HtmlFormatter(nowrap=True)
