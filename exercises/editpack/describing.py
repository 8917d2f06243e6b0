"""``stats``: describe rows by a table and JSON."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter
from tqdm import tqdm

from core.atomic import check_folder, write_json_atomic, write_text_atomic
from core.plaintext import counted, table
from core.settings import CommandLine, Section, command
from exercises.editpack.files import (
    OUT_FOLDER,
    RowsArgument,
    RowSettings,
    input_record,
    report_of,
    used_versions,
)
from exercises.editpack.rows import UNREADABLE, DroppedRow, file_digest
from exercises.editpack.stats import Distribution, EditStats, EditTally, PublishedSpread
from exercises.settings import WORDS, token_counter


def stats_lines(stats: EditStats, *, markdown: bool = False) -> Iterator[str]:
    """Yield the lines of the table, with notes on what was counted."""
    published = [f"{one.name}, published" for one in stats.published]
    headings = ("", "", stats.input, *published)
    yield from table(
        headings, _rows(stats), numbers=range(2, len(headings)), markdown=markdown
    )
    yield ""
    yield from _notes(stats)


def _rows(stats: EditStats) -> Iterator[tuple[str, ...]]:
    others = stats.published
    yield "rows", "", f"{stats.rows:,}", *(f"{one.rows:,}" for one in others)
    blank = tuple("" for _ in others)
    measures = (
        ("lines before", stats.lines_before, blank),
        ("lines after", stats.lines_after, blank),
        ("lines of both", stats.lines, [_spread(one.lines) for one in others]),
        (
            "Levenshtein distance",
            stats.levenshtein,
            [_spread(one.levenshtein) for one in others],
        ),
        (
            "message words" if stats.tokenizer == WORDS else "message tokens",
            stats.message_tokens,
            [_spread(one.message_tokens) for one in others],
        ),
    )
    for name, found, published in measures:
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


STATS = "table.json"
"""The statistics (docs/editpack-stats.schema.json); written last."""


class Counting(Section):
    """How messages are counted."""

    tokenizer: Path | None = Field(
        default=None,
        description="Count tokens by the tokenizer in this folder or tokenizer.json; by default "
        "words.",
    )


class StatsSettings(RowSettings):
    """All that ``stats`` is told."""

    stats: Counting = Counting()


@command(StatsSettings, ())
def main(
    line: CommandLine[StatsSettings],
    rows: RowsArgument = None,
    out: Annotated[Path, OUT_FOLDER] = Path("stats"),
) -> None:
    """Describe rows: a table beside the published ones, and JSON."""
    settings = line.load()
    if line.prints(settings, rows):
        return
    source = settings.rows.source(rows)
    start = time.monotonic()
    check_folder("--out", out)
    tokens_of, tokenizer = token_counter(settings.stats.tokenizer, "stats.tokenizer")
    tally = EditTally(tokens_of)
    unreadable = 0
    for row in tqdm(source.rows(), "stats", unit=" rows", disable=None):
        if isinstance(row, DroppedRow):
            unreadable += 1
        else:
            tally.add(row)
    record = input_record(source)
    stats = tally.stats(record["name"], record["sha256"], unreadable, tokenizer)
    for name, markdown in (("table.txt", False), ("table.md", True)):
        lines = stats_lines(stats, markdown=markdown)
        write_text_atomic(out / name, "\n".join(lines) + "\n")
    plain = TypeAdapter(EditStats).dump_python(stats, mode="json")
    write_json_atomic(out / STATS, plain)
    report = {
        "command": "stats",
        "inputs": [record],
        "output": {
            "name": f"{out.name}/{STATS}",
            "sha256": file_digest(out / STATS),
        },
        "rows": tally.rows + unreadable,
        "kept": tally.rows,
        "dropped": {UNREADABLE: unreadable} if unreadable else {},
        "options": {"skip_bad": source.skip_bad, "tokenizer": tokenizer},
        "versions": used_versions(("rapidfuzz", "tokenizers")),
        "seconds": round(time.monotonic() - start, 3),
    }
    write_json_atomic(report_of(out), report)
    print("\n".join(stats_lines(stats)))
    print(
        f"\nstatistics of {counted(tally.rows, 'row')} in {out}, the report beside it"
    )
