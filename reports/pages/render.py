"""Render views as HTML: every text is redacted, then escaped.

The content security policy of a page (https://www.w3.org/TR/CSP3/) allows only the style and the
script of this package, by their hashes. Pages of instances allow no script, and the frame that
shows them allows none either.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from bench.attempts import describe_script, matrix
from core.money import in_words
from core.plaintext import counted
from core.redaction import Redactor

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
}


@dataclass(frozen=True)
class Renderer:
    """Renders pages; ``longest`` limits the size of a text in bytes."""

    redact: Redactor
    longest: int | None = None

    def page(self, name: str, **values: Any) -> str:  # noqa: ANN401 - the variables of the template
        style_files, script_files, sources = _PAGES[name]
        style, script = _unescaped(style_files), _unescaped(script_files)
        allowed = f"script-src {_source(script)}; " if script_files else ""
        policy = (
            f"default-src 'none'; {allowed}style-src {_source(style)}; {sources}"
            "base-uri 'none'; form-action 'none'"
        )
        template = self._environment.get_template(f"{name}.html")
        return template.render(values, style=style, script=script, policy=policy)

    @cached_property
    def _environment(self) -> Environment:
        environment = Environment(
            loader=FileSystemLoader(_TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=lambda value: (
                self.redact(value)
                if isinstance(value, str) and not isinstance(value, Markup)
                else value
            ),
            trim_blocks=True,
            lstrip_blocks=True,
        )
        filters: dict[str, Callable[..., Any]] = {
            # Redacted before it is cut, because half a secret would not be recognized.
            "cut": lambda text: cut(self.redact(text), self.longest),
            "diff": lambda text: highlighted(self.redact(text)),
            "counted": counted,
            "dollars": in_words,
            "issue": self._issue,
            "matrix": matrix,
            "described": describe_script,
            "address": lambda svg: (
                f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
            ),
            "words": lambda text: str(text).replace("_", " "),
        }
        environment.filters.update(filters)
        return environment

    def _issue(self, text: str) -> Markup | None:
        """Return an issue as HTML; redacted twice, because rendering may join parts of a secret."""
        html = rendered_issue(self.redact(text))
        return None if html is None else Markup(self.redact(str(html)))


def _unescaped(names: Sequence[str]) -> Markup:
    texts = [(_TEMPLATES / name).read_text(encoding="utf-8") for name in names]
    return Markup("".join(texts))


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


_HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_HEADERS = (
    "diff --git",
    "index ",
    "--- ",
    "+++ ",
    "new file",
    "deleted file",
    "rename ",
    "old ",
)
_ADDED, _REMOVED, _HEADING = "gi", "gd", "gu"


def highlighted(patch: str) -> Markup:
    """Return ``patch`` as escaped HTML, with classes for added, removed and heading lines."""
    parts = []
    for line, style in _styled(patch):
        text = line.rstrip("\r\n") if style else line
        shown = (
            Markup('<span class="{}">{}</span>').format(style, text)
            if style
            else escape(text)
        )
        parts.append(shown + line[len(text) :])
    return Markup("").join(parts)


@dataclass
class _Hunk:
    """The lines of each side still to come: a header between hunks may look like a change."""

    old: int = 0
    new: int = 0

    def take(self, line: str) -> str:
        added, removed = line.startswith("+"), line.startswith("-")
        if not line.startswith("\\"):
            self.old -= not added
            self.new -= not removed
        return _ADDED if added else _REMOVED if removed else ""

    @property
    def open(self) -> bool:
        return self.old > 0 or self.new > 0


def _styled(patch: str) -> Iterator[tuple[str, str]]:
    hunk, counted = _Hunk(), False
    for line in patch.splitlines(keepends=True):
        start = _HUNK.match(line)
        if start and not hunk.open:
            hunk, counted = (
                _Hunk(*(1 if n is None else int(n) for n in start.groups())),
                True,
            )
            yield line, _HEADING
        elif hunk.open:
            yield line, hunk.take(line)
        elif line.startswith(_HEADERS):
            counted = True
            yield line, _HEADING if line.startswith("diff --git") else ""
        else:
            # The end of a patch that was cut starts in the middle of a hunk.
            yield line, "" if counted else _Hunk().take(line)


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
        ("heading_open", _heading),
        ("heading_close", _heading),
        ("link_open", lambda *_: ""),
        ("link_close", _address),
    ):
        markdown.add_render_rule(name, rule)
    return markdown


def _heading(self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:  # noqa: ANN401
    level = min(int(tokens[index].tag[1]) + _SHIFT, _LOWEST_HEADING)
    return f"<{'/' if tokens[index].nesting < 0 else ''}h{level}>"


def _address(self: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:  # noqa: ANN401
    """Return the address of the link that ends here; empty if it is the text of the link."""
    start = next(n for n in range(index - 1, -1, -1) if tokens[n].type == "link_open")
    address = str(tokens[start].attrGet("href") or "")
    text = "".join(token.content for token in tokens[start + 1 : index])
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
    for number, one in enumerate(ordered):
        share = left // (len(ordered) - number)
        if one > share:
            return max(share, 0)
        left -= one
    return None


def cut(text: str, most: int | None) -> Cut:
    """Cut ``text`` to about ``most`` bytes: two thirds from its start, one third from its end."""
    taken = size(text)
    if most is None or taken <= most:
        return Cut(text)
    kept = len(text) * most // taken
    tail = kept // 3
    head = kept - tail
    return Cut(text[:head], text[len(text) - tail :], len(text) - kept)
