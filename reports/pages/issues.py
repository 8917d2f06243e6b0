"""Render the Markdown of issues, which is untrusted, as harmless HTML."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

# Longer texts are not rendered: a table of 30 kB takes seconds and becomes 20 times longer.
_LONGEST = 50_000
_MOST_GROWTH = 4
_LOWEST_HEADING = 6
_SHIFT = 2


def rendered_issue(text: str) -> Markup | None:
    """Return ``text`` as HTML; None if it is too long to render.

    HTML in it is shown as text, images are not loaded, and links become text followed by the
    address. Headings start at level 3, below those of the page.
    """
    if len(text) > _LONGEST:
        return None
    html = _markdown().render(text)
    return Markup(html) if len(html) <= _MOST_GROWTH * len(text) + 1000 else None


@cache
def _markdown() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False})
    markdown.enable(["table", "strikethrough"]).disable("image")
    for name, rule in (
        ("heading_open", _heading), ("heading_close", _heading),
        ("link_open", _nothing), ("link_close", _address),
    ):  # fmt: skip
        markdown.add_render_rule(name, rule)
    return markdown


def _heading(self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:  # noqa: ANN401
    level = min(int(tokens[index].tag[1]) + _SHIFT, _LOWEST_HEADING)
    return f"<{'/' if tokens[index].nesting < 0 else ''}h{level}>"


def _nothing(self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:  # noqa: ANN401
    return ""


def _address(self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:  # noqa: ANN401
    """Return the address of the link that ends here; empty if it is the text of the link."""
    start = next(n for n in range(index - 1, -1, -1) if tokens[n].type == "link_open")
    address = str(tokens[start].attrGet("href") or "")
    text = "".join(token.content for token in tokens[start + 1 : index])
    if address.removeprefix("mailto:") == text:
        return ""
    return f' <span class="address">({escape(address)})</span>'
