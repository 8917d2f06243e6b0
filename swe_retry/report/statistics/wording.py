"""Render texts for readers that are no pages, such as the README of an entry: plain templates."""

from __future__ import annotations

from pathlib import Path

from swe_retry.core.money import dollars, in_words, range_words, sum_words
from swe_retry.core.plaintext import one_line, quantity, some, table
from swe_retry.core.texts import make_environment
from swe_retry.instances.validity import states_in_words
from swe_retry.report.statistics.denominators import short_split
from swe_retry.report.statistics.methods import Interval, Share, percent, wilson
from swe_retry.results.provenance import provenance

NONE = "–"


def within(interval: Interval | None) -> str:
    """Return an interval in percent; a dash for None."""
    if interval is None:
        return NONE
    return f"{percent(interval.low)} to {percent(interval.high)}"


def points(interval: Interval) -> str:
    """Return the interval of a difference of shares in percentage points."""
    return f"{100 * interval.low:+.1f} to {100 * interval.high:+.1f}"


def of(share: Share) -> str:
    """Return a share as ``79 of 300, 26.3 %``; ``not evaluated`` if it is unknown."""
    if share.share is None:
        return "not evaluated"
    return f"{share.count} of {share.of}, {percent(share.share)}"


def to_words(name: object) -> str:
    """Return a name of a file, such as a status, in words."""
    return str(name).replace("_", " ")


def with_interval(share: Share) -> str:
    if share.interval is None:
        return of(share)
    return f"{of(share)} (95 % Wilson interval {within(share.interval)})"


FILTERS = {
    "counted": quantity,
    "in_words": in_words,
    "one_line": one_line,
    "percent": percent,
    "points": points,
    "provenance": provenance,
    "range": range_words,
    "some": some,
    "split": short_split,
    "sum_words": sum_words,
    "states": states_in_words,
    "wilson": wilson,
    "with_interval": with_interval,
    "within": within,
}
"""What templates of texts and of pages may call."""


def render_text(template: Path, **values: object) -> str:
    """Return the text of a template file; nothing in the values is read as a template."""
    environment = make_environment()
    environment.filters.update(FILTERS, dollars=dollars)
    source = template.read_text("utf-8")
    return environment.from_string(source).render(values, table=table)


def render_lines(template: Path, **values: object) -> list[str]:
    """Return the lines of the text of a template file."""
    return render_text(template, **values).split("\n")[:-1]
