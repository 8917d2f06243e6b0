"""``stats``: describe rows as Table 2 of the first paper does, without its verbs.

F. Cassano et al., "Can It Edit?" (2023), arXiv:2312.12450.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from math import fsum, sqrt
from pathlib import Path
from statistics import median
from typing import Annotated

from pydantic import BaseModel
from rapidfuzz.distance import Levenshtein
from tqdm import tqdm

from swe_retry.kit import (
    Section,
    check_folder,
    quantity,
    settings_command,
    table,
    write_json_atomic,
    write_text_atomic,
)
from swe_retry_exercises.editpack.files import (
    OUT_FOLDER,
    RowsArgument,
    RowSettings,
    input_record,
    report_of,
    used_versions,
)
from swe_retry_exercises.editpack.rows import (
    NEW,
    OLD,
    UNREADABLE,
    file_digest,
    message_of,
)
from swe_retry_exercises.tokens import WORDS, token_counter
from swe_retry_exercises.values import JsonObject

# rapidfuzz needs time in proportion to the product of the lengths that differ.
_MAX_PRODUCT = 200_000**2
LABELS = {
    "lines_before": "lines before",
    "lines_after": "lines after",
    "lines": "lines of both",
    "levenshtein": "Levenshtein distance",
    "message_tokens": "message tokens",
}
"""The measures of rows, and how the table names them."""
PUBLISHED = {
    "EditPackFT": {
        "rows": "22,602",
        "lines": "29.2 (13.7)",
        "levenshtein": "197.1 (260.6)",
        "message_tokens": "10.1 (4.6)",
    },
    "Commits2023FT": {
        "rows": "24,129",
        "lines": "119.3 (75.9)",
        "levenshtein": "406.6 (631.2)",
        "message_tokens": "23.1 (35.2)",
    },
}
"""The columns of Table 2 of the first paper: means, with deviations in brackets."""
STATS = "table.json"
"""The statistics (docs/editpack-stats.schema.json); written last."""


class Distribution(BaseModel):
    """Values of rows: mean, sample deviation, median, 99th percentile; zeros without values.

    The percentile is the smallest value that at least 99 % of the values do not exceed.
    """

    mean: float
    deviation: float
    median: float
    percentile_99: int


class EditStats(BaseModel):
    """The statistics of a set of rows (docs/editpack-stats.schema.json).

    Attributes:
        input, input_sha256: name and hash of the rows.
        unreadable: what is not a row, left out of all else.
        lines: of both sides together.
        levenshtein: distance of both sides in characters.
        rows_without_distance: rows whose sides are too long to be compared.
        message_tokens: of the message, counted by ``tokenizer``.
        tokenizer: ``words`` for what white space separates, or the name of a tokenizer.
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


class Counting(Section):
    """How messages are counted."""

    tokenizer: Path | None = None
    """Count tokens by the tokenizer in this folder or tokenizer.json; by default
    words."""


class StatsSettings(RowSettings):
    """All that ``stats`` is told."""

    stats: Counting = Counting()


@settings_command(StatsSettings, "rows")
def main(
    settings: StatsSettings,
    rows: RowsArgument = None,
    out: Annotated[Path, OUT_FOLDER] = Path("stats"),
) -> None:
    """Describe rows: a table beside the published ones, and JSON."""
    start = time.monotonic()
    check_folder("--out", out)
    record = input_record(rows, settings.rows)
    count_tokens, tokenizer = token_counter(settings.stats.tokenizer, "stats.tokenizer")
    values: dict[str, Counter[int]] = {name: Counter() for name in LABELS}
    unreadable = 0
    for row, why in tqdm(settings.rows.rows(rows), "stats", unit=" rows", disable=None):
        if why:
            unreadable += 1
            continue
        before = len(row[OLD].splitlines())
        after = len(row[NEW].splitlines())
        values["lines_before"][before] += 1
        values["lines_after"][after] += 1
        values["lines"][before + after] += 1
        values["message_tokens"][count_tokens(message_of(row))] += 1
        distance = distance_of(row[OLD], row[NEW])
        if distance is not None:
            values["levenshtein"][distance] += 1
    number = values["lines"].total()
    distributions = {name: distribution(counts) for name, counts in values.items()}
    stats = EditStats(
        input=record["name"],
        input_sha256=record["sha256"],
        rows=number,
        unreadable=unreadable,
        rows_without_distance=number - values["levenshtein"].total(),
        tokenizer=tokenizer,
        **distributions,
    )
    for name, markdown in (("table.txt", False), ("table.md", True)):
        lines = stats_lines(stats, markdown=markdown)
        write_text_atomic(out / name, "\n".join(lines) + "\n")
    write_json_atomic(out / STATS, stats.model_dump(mode="json"))
    report = {
        "command": "stats",
        "inputs": [record],
        "output": {"name": f"{out.name}/{STATS}", "sha256": file_digest(out / STATS)},
        "rows": number + unreadable,
        "kept": number,
        "dropped": {UNREADABLE: unreadable} if unreadable else {},
        "options": {"skip_bad": settings.rows.skip_bad, "tokenizer": tokenizer},
        "versions": used_versions(("rapidfuzz", "tokenizers")),
        "seconds": round(time.monotonic() - start, 3),
    }
    write_json_atomic(report_of(out), report)
    print("\n".join(stats_lines(stats)))
    print(f"\nstatistics of {quantity(number, 'row')} in {out}, the report beside it")


def distribution(counts: Counter[int]) -> Distribution:
    """Return the distribution of values with the number of rows that have each."""
    values = sorted(counts.elements())
    if not values:
        return Distribution(mean=0, deviation=0, median=0, percentile_99=0)
    mean = sum(values) / len(values)
    squares = fsum(n * (value - mean) ** 2 for value, n in sorted(counts.items()))
    return Distribution(
        mean=mean,
        deviation=sqrt(squares / max(len(values) - 1, 1)),
        median=median(values),
        percentile_99=values[-(-99 * len(values) // 100) - 1],
    )


def distance_of(old: str, new: str) -> int | None:
    """Return the Levenshtein distance, None of texts that would take minutes to compare."""
    if len(old) * len(new) > _MAX_PRODUCT:
        return None
    return Levenshtein.distance(old, new)


def stats_lines(stats: EditStats, *, markdown: bool = False) -> Iterator[str]:
    """Yield the lines of the table, with notes on what was counted."""
    headings = ["", "", stats.input, *(f"{name}, published" for name in PUBLISHED)]
    columns = PUBLISHED.values()
    rows = [["rows", "", f"{stats.rows:,}", *(column["rows"] for column in columns)]]
    blank = [""] * len(columns)
    for measure, label in LABELS.items():
        if stats.tokenizer == WORDS:
            label = label.replace("tokens", "words")
        spread: Distribution = getattr(stats, measure)
        average = f"{spread.mean:,.1f} ({spread.deviation:,.1f})"
        published = [column.get(measure, "") for column in columns]
        rows += [
            [label, "mean (deviation)", average, *published],
            ["", "median", f"{spread.median:,.1f}".removesuffix(".0"), *blank],
            ["", "99th percentile", f"{spread.percentile_99:,}", *blank],
        ]
    numbers = range(2, len(headings))
    yield from table(headings, rows, numbers=numbers, markdown=markdown)
    yield ""
    yield "Deviations are those of samples. The published columns are the paper's Table 2."
    if stats.tokenizer == WORDS:
        yield "Messages are counted in words between white space; the paper counts tokens."
    else:
        yield f"Messages are counted in tokens of {stats.tokenizer}."
    if stats.unreadable:
        yield f"{stats.unreadable:,} more cannot be read as rows."
    if stats.rows_without_distance:
        yield f"{stats.rows_without_distance:,} have sides too long for a distance."


def stats_schema() -> JsonObject:
    """Return the JSON schema of ``table.json`` (docs/editpack-stats.schema.json)."""
    return EditStats.model_json_schema(mode="serialization")


if __name__ == "__main__":
    print(json.dumps(stats_schema(), indent=1))
