"""Describe rows of edits as Table 2 of the first paper does, without its verbs. Pure.

F. Cassano et al., "Can It Edit?" (2023), arXiv:2312.12450. What is counted is kept as how often
each value came, so that memory grows with distinct values and not with rows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from math import fsum, sqrt
from typing import Any

from pydantic import TypeAdapter

from exercises.canitedit.problems import MOST_CHARACTERS
from exercises.editpack.rows import NEW, OLD, EditRow, message_of

# rapidfuzz needs time in proportion to the product of the lengths that differ.
_MOST_PRODUCT = MOST_CHARACTERS**2


@dataclass(frozen=True)
class Distribution:
    """Values of rows: mean, sample deviation, median, 99th percentile; zeros without values.

    The percentile is the smallest value that at least 99 % of the values do not exceed.
    """

    mean: float
    deviation: float
    median: float
    percentile_99: int

    @classmethod
    def of(cls, counts: Mapping[int, int]) -> Distribution:
        """Return that of values with the number of rows that have them."""
        rows = sum(counts.values())
        if not rows:
            return cls(0.0, 0.0, 0.0, 0)
        mean = sum(value * n for value, n in counts.items()) / rows
        squares = fsum(n * (value - mean) ** 2 for value, n in sorted(counts.items()))
        deviation = sqrt(squares / (rows - 1)) if rows > 1 else 0.0
        middle = (at(counts, (rows - 1) // 2) + at(counts, rows // 2)) / 2
        return cls(mean, deviation, middle, at(counts, -(-99 * rows // 100) - 1))


def at(counts: Mapping[int, int], place: int) -> int:
    """Return the value at a place, from 0, of all values in ascending order."""
    values = sorted(counts)
    ends = accumulate(counts[value] for value in values)
    return next(value for value, end in zip(values, ends, strict=True) if place < end)


@dataclass(frozen=True)
class PublishedSpread:
    """A mean and a deviation as the paper prints them."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class PublishedColumn:
    """A column of Table 2 of the first paper."""

    name: str
    rows: int
    lines: PublishedSpread
    levenshtein: PublishedSpread
    message_tokens: PublishedSpread


@dataclass(frozen=True)
class EditStats:
    """The statistics of a set of rows (docs/editpack-stats.schema.json).

    Attributes:
        input, input_sha256: name and hash of the rows.
        unreadable: what is not a row, left out of all else.
        lines: of both sides together.
        levenshtein: distance of both sides in characters.
        rows_without_distance: rows whose sides are too long to be compared.
        message_tokens: of the message, counted by ``tokenizer``.
        tokenizer: ``words`` for what white space separates, or the name of a tokenizer.
        published: the columns of the paper, for comparison; nothing of them was counted here.
    """

    input: str
    input_sha256: str
    rows: int
    unreadable: int
    lines_before: Distribution
    lines_after: Distribution
    lines: Distribution
    levenshtein: Distribution
    rows_without_distance: int
    message_tokens: Distribution
    tokenizer: str
    published: tuple[PublishedColumn, ...]


def _published(name: str, rows: int, *values: float) -> PublishedColumn:
    spreads = [PublishedSpread(*values[n : n + 2]) for n in (0, 2, 4)]
    return PublishedColumn(name, rows, *spreads)


PUBLISHED = (
    _published("EditPackFT", 22_602, 29.2, 13.7, 197.1, 260.6, 10.1, 4.6),
    _published("Commits2023FT", 24_129, 119.3, 75.9, 406.6, 631.2, 23.1, 35.2),
)


@dataclass
class EditTally:
    """What is counted of rows."""

    tokens_of: Callable[[str], int]
    rows: int = 0
    before: Counter[int] = field(default_factory=Counter)
    after: Counter[int] = field(default_factory=Counter)
    together: Counter[int] = field(default_factory=Counter)
    distances: Counter[int] = field(default_factory=Counter)
    tokens: Counter[int] = field(default_factory=Counter)

    def add(self, row: EditRow) -> None:
        old, new, message = row[OLD], row[NEW], message_of(row)
        before, after = len(old.splitlines()), len(new.splitlines())
        self.rows += 1
        self.before[before] += 1
        self.after[after] += 1
        self.together[before + after] += 1
        if (distance := distance_of(old, new)) is not None:
            self.distances[distance] += 1
        self.tokens[self.tokens_of(message)] += 1

    def stats(
        self, name: str, sha256: str, unreadable: int, tokenizer: str
    ) -> EditStats:
        return EditStats(
            input=name,
            input_sha256=sha256,
            rows=self.rows,
            unreadable=unreadable,
            lines_before=Distribution.of(self.before),
            lines_after=Distribution.of(self.after),
            lines=Distribution.of(self.together),
            levenshtein=Distribution.of(self.distances),
            rows_without_distance=self.rows - self.distances.total(),
            message_tokens=Distribution.of(self.tokens),
            tokenizer=tokenizer,
            published=PUBLISHED,
        )


def distance_of(old: str, new: str) -> int | None:
    """Return the Levenshtein distance, None of texts that would take minutes to compare."""
    from rapidfuzz.distance import Levenshtein

    return (
        Levenshtein.distance(old, new) if len(old) * len(new) <= _MOST_PRODUCT else None
    )


def stats_schema() -> dict[str, Any]:
    """Return the JSON schema of ``table.json`` (docs/editpack-stats.schema.json)."""
    return TypeAdapter(EditStats).json_schema(mode="serialization")


if __name__ == "__main__":
    print(json.dumps(stats_schema(), indent=1))
