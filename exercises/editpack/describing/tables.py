"""The statistics of rows as a table, with the published columns beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from core.plaintext import table
from exercises.editpack.stats import Distribution, EditStats, PublishedSpread
from exercises.tokens import WORDS


def stats_lines(stats: EditStats, *, markdown: bool = False) -> Iterator[str]:
    """Yield the lines of the table and of that of verbs, with notes on what was counted."""
    published = [f"{one.name}, published" for one in stats.published]
    headings = ("", "", stats.input, *published)
    yield from table(headings, _rows(stats), numbers=range(2, len(headings)), markdown=markdown)
    yield ""
    yield from _notes(stats)
    if stats.verbs:
        yield ""
        yield from table(
            ("verb", "rows", "root nouns"), _verbs(stats), numbers={1}, markdown=markdown
        )


def _rows(stats: EditStats) -> Iterator[tuple[str, ...]]:
    others = stats.published
    yield "rows", "", f"{stats.rows:,}", *(f"{one.rows:,}" for one in others)
    verbs = (f"{one.initial_verbs:,}" for one in others)
    yield "initial verbs", "distinct", f"{stats.initial_verbs:,}", *verbs
    tokens = "message words" if stats.tokenizer == WORDS else "message tokens"
    blank = tuple("" for _ in others)
    yield from _measure("lines before", stats.lines_before, blank)
    yield from _measure("lines after", stats.lines_after, blank)
    yield from _measure("lines of both", stats.lines, [_spread(one.lines) for one in others])
    distances = [_spread(one.levenshtein) for one in others]
    yield from _measure("Levenshtein distance", stats.levenshtein, distances)
    yield from _measure(
        tokens, stats.message_tokens, [_spread(one.message_tokens) for one in others]
    )


def _measure(name: str, found: Distribution, published: Sequence[str]) -> Iterator[tuple[str, ...]]:
    blank = tuple("" for _ in published)
    yield name, "mean (deviation)", _spread(found), *published
    yield "", "median", f"{found.median:,.1f}".removesuffix(".0"), *blank
    yield "", "99th percentile", f"{found.percentile_99:,}", *blank


def _spread(found: Distribution | PublishedSpread) -> str:
    return f"{found.mean:,.1f} ({found.deviation:,.1f})"


def _notes(stats: EditStats) -> Iterator[str]:
    yield "Deviations are those of samples. The published columns are the paper's Table 2."
    if stats.tokenizer == WORDS:
        yield "Messages are counted in words between white space; the paper counts tokens."
    else:
        yield f"Messages are counted in tokens of {stats.tokenizer}."
    if stats.unreadable:
        yield f"{stats.unreadable:,} more cannot be read as rows."
    if stats.rows_without_distance:
        yield f"{stats.rows_without_distance:,} have sides too long for a distance."
    if stats.rows_without_verb:
        yield f"{stats.rows_without_verb:,} do not begin with a verb of the list."
    yield "Root nouns are found by a rule."


def _verbs(stats: EditStats) -> Iterator[tuple[str, str, str]]:
    for verb in stats.verbs:
        nouns = ", ".join(f"{noun.word} {noun.rows:,}" for noun in verb.nouns)
        yield verb.verb, f"{verb.rows:,}", nouns
