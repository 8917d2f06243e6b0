"""Render texts for readers that are no pages, such as the README of an entry: plain templates."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, StrictUndefined

from core.money import dollars, in_words, range_words
from core.plaintext import one_line, quantity, some, table
from reports.data.provenance import provenance
from reports.pages.markdown import within
from reports.statistics.denominators import short_split
from reports.statistics.methods import percent, wilson

_FILTERS = {
    "counted": quantity,
    "dollars": dollars,
    "in_words": in_words,
    "one_line": one_line,
    "percent": percent,
    "provenance": provenance,
    "range": range_words,
    "some": some,
    "split": short_split,
    "wilson": wilson,
    "within": within,
}


def render_text(template: Path, **values: object) -> str:
    """Return the text of a template file; nothing in the values is read as a template."""
    environment = Environment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(_FILTERS)
    environment.globals["table"] = table
    source = template.read_text(encoding="utf-8")
    return environment.from_string(source).render(values)
