"""Render templates as HTML: every text is redacted, then escaped.

The content security policy of a page (https://www.w3.org/TR/CSP3/) allows only the style and the
script of this package, by their hashes. Pages of instances allow no script, and the frame that
shows them allows none either.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from swe_retry.attempts.evidence.choice import describe_script, matrix
from swe_retry.core.money import column, in_words
from swe_retry.core.plaintext import escape_invisible
from swe_retry.core.redaction import Redactor
from swe_retry.report.pages.tables import (
    agreement_rows,
    comparison_facts,
    instance_rows,
    paired_table,
    tables,
    verdict_mark,
)
from swe_retry.report.statistics.wording import FILTERS, to_words

_TEMPLATES = Path(__file__).resolve().parent / "templates"
_TABLES = (("base.css", "report.css"), ("table.js",), "img-src data:; ")
# The styles, the scripts and the sources of images and frames that a page may use.
_PAGES: Mapping[str, tuple[Sequence[str], Sequence[str], str]] = {
    "report": (
        ("base.css", "report.css"),
        ("table.js", "panel.js"),
        "img-src data:; frame-src 'self' file:; ",
    ),
    "comparison": _TABLES,
    "exercises": _TABLES,
    "instance": (("base.css", "instance.css"), (), ""),
    "own": (("base.css", "instance.css"), (), ""),
}


def _data_address(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def _unbroken(value: object) -> str:
    """Return a text in which no line ends before a percent sign."""
    text = escape(value) if isinstance(value, Markup) else str(value)
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


_FILTERS = {
    **FILTERS,
    "unbroken": _unbroken,
    "dollars": in_words,
    "column": column,
    "words": to_words,
    "mark": verdict_mark,
    "instance_rows": instance_rows,
    "tables": tables,
    "agreement_rows": agreement_rows,
    "paired_table": paired_table,
    "comparison_facts": comparison_facts,
    "matrix": matrix,
    "described": describe_script,
    "address": _data_address,
    "fragment": lambda name: quote(name, safe=""),
}


@dataclass(frozen=True)
class Renderer:
    """Renders pages; ``longest`` limits the size of a text in bytes."""

    redact: Redactor
    longest: int | None = None

    def page(self, name: str, **values: Any) -> str:  # noqa: ANN401 - the variables of the template
        style_files, script_files, sources = _PAGES[name]
        style = _read(style_files)
        script = _read(script_files)
        policy = f"style-src {_source(style)}; {sources}"
        if script:
            policy = f"script-src {_source(script)}; {policy}"
        policy = f"default-src 'none'; {policy}base-uri 'none'; form-action 'none'"
        template = self._environment.get_template(f"{name}.html")
        return template.render(
            values,
            style=style,
            script=script,
            policy=policy,
        )

    @cached_property
    def _environment(self) -> Environment:
        environment = Environment(
            loader=FileSystemLoader(_TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=self._finalize,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters.update(
            _FILTERS,
            cut=self._cut,
            diff=self._diff,
            issue=self._issue,
        )
        return environment

    def _finalize(self, value: object) -> object:
        if isinstance(value, str) and not isinstance(value, Markup):
            return self._plain(value)
        return value

    def _plain(self, text: str) -> str:
        return escape_invisible(self.redact(text))

    def _cut(self, text: str) -> Cut:
        # Redacted before it is cut, because half a secret would not be recognized.
        return cut(self._plain(text), self.longest)

    def _diff(self, patch: str) -> Markup:
        return highlight_diff(self._plain(patch))

    def _issue(self, text: str) -> Markup | None:
        """Return an issue as HTML; redacted twice, because rendering may join parts of a secret."""
        html = rendered_issue(self._plain(text))
        if html is None:
            return None
        return Markup(self.redact(html))


def _read(names: Sequence[str]) -> Markup:
    texts = [(_TEMPLATES / name).read_text("utf-8") for name in names]
    return Markup("".join(texts))


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


_CHANGES = {"+": "gi", "-": "gd"}
_HEADING = "gu"


def highlight_diff(patch: str) -> Markup:
    """Return ``patch`` as escaped HTML, with classes for added, removed and heading lines."""
    html = []
    for line, style in _line_styles(patch):
        text = line.rstrip("\r\n")
        end = line[len(text) :]
        if style:
            html.append(Markup('<span class="{}">{}</span>').format(style, text) + end)
        else:
            html.append(escape(line))
    return Markup("").join(html)


def _line_styles(patch: str) -> Iterator[tuple[str, str]]:
    """Yield each line with its class; the names of files in a header are no changes."""
    in_header = False
    for line in patch.splitlines(keepends=True):
        if line.startswith("diff --git "):
            in_header = True
            yield line, _HEADING
        elif line.startswith("@@ "):
            in_header = False
            yield line, _HEADING
        elif in_header:
            yield line, ""
        else:
            yield line, _CHANGES.get(line[0], "")


# Longer texts are not rendered: a table of 30 kB takes seconds and becomes 20 times longer.
_LONGEST = 50_000
_MAX_GROWTH = 4
_LOWEST_HEADING = 6
_SHIFT = 2


def rendered_issue(text: str) -> str | None:
    """Return ``text`` as HTML; None if it is too long to render.

    HTML in it is shown as text, images are not loaded, and links become text followed by the
    address. Headings start at level 3, below those of the page.
    """
    if len(text) > _LONGEST:
        return None
    html = str(_markdown().render(text))
    if len(html) > _MAX_GROWTH * len(text) + 1000:
        return None
    return html


@cache
def _markdown() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False})
    markdown.enable(["table", "strikethrough"]).disable("image")
    markdown.add_render_rule("heading_open", _heading)
    markdown.add_render_rule("heading_close", _heading)
    markdown.add_render_rule("link_open", lambda *_: "")
    markdown.add_render_rule("link_close", _address)
    return markdown


def _heading(self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:  # noqa: ANN401
    token = tokens[index]
    level = min(int(token.tag[1]) + _SHIFT, _LOWEST_HEADING)
    slash = "/" if token.nesting < 0 else ""
    return f"<{slash}h{level}>"


def _address(self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:  # noqa: ANN401
    """Return the address of the link that ends here; empty if it is the text of the link."""
    start = index
    while tokens[start].type != "link_open":
        start -= 1
    address = str(tokens[start].attrGet("href") or "")
    text = "".join(token.content for token in tokens[start:index])
    if address.removeprefix("mailto:") == text:
        return ""
    return f' <span class="address">({escape(address)})</span>'


@dataclass(frozen=True)
class Cut:
    """A text of whose middle ``left_out`` characters are left out."""

    head: str
    tail: str = ""
    left_out: int = 0


def size(text: str) -> int:
    """Return the number of bytes of ``text`` in a page."""
    return len(str(escape(text)).encode("utf-8", "backslashreplace"))


def fitting_size(sizes: Iterable[int], budget: int) -> int | None:
    """Return the size to which longer texts must be cut; None if all texts fit.

    It is the largest size for which the sum of ``min(size, result)`` is within ``budget``, so only
    the longest texts are cut.
    """
    ordered = sorted(sizes)
    left = budget
    for number, smallest in enumerate(ordered):
        share = left // (len(ordered) - number)
        if smallest > share:
            return max(share, 0)
        left -= smallest
    return None


def cut(text: str, limit: int | None) -> Cut:
    """Cut ``text`` to about ``limit`` bytes: two thirds from its start, one third from its end."""
    length = size(text)
    if limit is None or length <= limit:
        return Cut(text)
    remaining = len(text) * limit // length
    tail = remaining // 3
    end = len(text) - tail
    return Cut(text[: remaining - tail], text[end:], len(text) - remaining)
