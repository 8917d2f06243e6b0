"""Render views as HTML: every text is redacted, then escaped.

The content security policy of a page (https://www.w3.org/TR/CSP3/) allows only the style and the
script of this package, by their hashes. Pages of instances allow no script, and the frame that
shows them allows none either.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from core.money import in_words
from core.plaintext import counted
from core.redaction import Redactor
from reports.pages.budget import Cut, cut
from reports.pages.diffs import highlighted
from reports.pages.issues import rendered_issue

_TEMPLATES = Path(__file__).resolve().parent / "templates"


@dataclass(frozen=True)
class Renderer:
    """Renders pages.

    Attributes:
        redact: removes secrets from every text.
        longest: limit for the size of a text in bytes; None for no limit.
    """

    redact: Redactor
    longest: int | None = None

    def report(self, **values: Any) -> str:  # noqa: ANN401 - the variables of the template
        """Return ``report.html``."""
        styles, scripts = ("base.css", "report.css"), ("table.js", "panel.js")
        sources = "img-src data:; frame-src 'self' file:; "
        return self._render("report.html", values, styles, scripts, sources)

    def comparison(self, **values: Any) -> str:  # noqa: ANN401 - the variables of the template
        """Return the page of a comparison."""
        styles = ("base.css", "report.css")
        return self._render("comparison.html", values, styles, ("table.js",), "img-src data:; ")

    def exercises(self, **values: Any) -> str:  # noqa: ANN401 - the variables of the template
        """Return the page of exercises by column."""
        styles = ("base.css", "report.css")
        return self._render("exercises.html", values, styles, ("table.js",), "img-src data:; ")

    def instance(self, **values: Any) -> str:  # noqa: ANN401 - the variables of the template
        """Return the page of an instance."""
        return self._render("instance.html", values, ("base.css", "instance.css"))

    def _render(
        self,
        name: str,
        values: Mapping[str, Any],
        styles: Sequence[str],
        scripts: Sequence[str] = (),
        sources: str = "",
    ) -> str:
        style, script = _unescaped(styles), _unescaped(scripts)
        allowed = f"script-src {_source(script)}; " if scripts else ""
        policy = (
            f"default-src 'none'; {allowed}style-src {_source(style)}; {sources}"
            "base-uri 'none'; form-action 'none'"
        )
        template = self._environment.get_template(name)
        return template.render(values, style=style, script=script, policy=policy)

    @cached_property
    def _environment(self) -> Environment:
        environment = Environment(
            loader=FileSystemLoader(_TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=self._clean,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        filters: dict[str, Callable[..., Any]] = {
            "cut": self._cut,
            "diff": lambda text: highlighted(self.redact(text)),
            "counted": counted,
            "dollars": in_words,
            "issue": self._issue,
            "words": lambda text: str(text).replace("_", " "),
        }
        environment.filters.update(filters)
        return environment

    def _clean(self, value: Any) -> Any:  # noqa: ANN401 - the value of any expression
        return (
            value if isinstance(value, Markup) or not isinstance(value, str) else self.redact(value)
        )

    def _issue(self, text: str) -> Markup | None:
        """Return an issue as HTML; redacted twice, because rendering may join parts of a secret."""
        html = rendered_issue(self.redact(text))
        return None if html is None else Markup(self.redact(str(html)))

    def _cut(self, text: str) -> Cut:
        # Redacted before it is cut, because half a secret would not be recognized.
        return cut(self.redact(text), self.longest)


def _unescaped(names: Sequence[str]) -> Markup:
    """Return the content of templates, to be put between tags unescaped."""
    texts = [(_TEMPLATES / name).read_text(encoding="utf-8") for name in names]
    return Markup("".join(texts))


def _source(text: str) -> str:
    """Return the source expression of the policy that allows only ``text``."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
