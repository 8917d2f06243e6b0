"""``format`` and ``sample``: rows that are trained on, made of rows as they are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Annotated

import typer
from tqdm import tqdm

from swe_retry.kit import Section, UserError, quantity, settings_command
from swe_retry_exercises.editpack.files import (
    DroppedFile,
    OutFile,
    RowsArgument,
    RowSettings,
    write_rows,
)
from swe_retry_exercises.editpack.rows import (
    JudgedRow,
    RowReading,
    reason,
    with_content,
)

_PAPER_SIZE = 25_000


class SampleChoice(Section):
    """Which rows are taken."""

    seed: int = 0
    """Choose by this seed; another one takes other rows."""


class SampleSettings(RowSettings):
    """All that ``sample`` is told."""

    sample: SampleChoice = SampleChoice()


@settings_command(RowSettings, "rows")
def format_rows(
    settings: RowSettings,
    rows: RowsArgument = None,
    out: OutFile = None,
    dropped: DroppedFile = None,
) -> None:
    """Add instruction and content to rows; drop none."""
    reading = settings.rows
    write_rows(
        "format",
        map(_formatted_row, reading.rows(rows)),
        out,
        dropped,
        reading=reading,
        names=[rows],
        options={},
    )


def _formatted_row(judged: JudgedRow) -> JudgedRow:
    if judged[1]:
        return judged
    return with_content(judged[0]), None


@settings_command(SampleSettings, "rows")
def sample_rows(
    settings: SampleSettings,
    rows: RowsArgument = None,
    size: Annotated[
        int, typer.Option("--size", metavar="N", min=1, help="Take this many rows.")
    ] = _PAPER_SIZE,
    out: OutFile = None,
    dropped: DroppedFile = None,
) -> None:
    """Take rows at random, each equally likely, in the order of the input."""
    reading = settings.rows
    seed = settings.sample.seed
    write_rows(
        "sample",
        _sample(reading, rows, size, seed),
        out,
        dropped,
        reading=reading,
        names=[rows],
        options={"n": size, "seed": seed},
    )


def _sample(
    reading: RowReading, name: str | None, size: int, seed: int
) -> Iterator[JudgedRow]:
    # The first reading counts: memory holds no row but only the numbers of those taken.
    total = 0
    for _, why in tqdm(reading.rows(name), "counting", unit=" rows", disable=None):
        total += why is None
    if size > total:
        raise UserError(
            f"--size {size}: {name} has {quantity(total, 'row')}; ask for fewer"
        )
    chosen = frozenset(random.Random(seed).sample(range(total), size))
    number = 0
    for row, why in reading.rows(name):
        if why:
            yield row, why
            continue
        if number in chosen:
            yield row, None
        else:
            yield row, reason("unsampled")
        number += 1
