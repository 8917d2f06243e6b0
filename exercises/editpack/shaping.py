"""``format`` and ``sample``: rows that are trained on, made of rows as they are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Annotated

import typer
from pydantic import Field
from tqdm import tqdm

from core.errors import UserError
from core.plaintext import counted
from core.settings import CommandLine, Section, command
from exercises.editpack.files import (
    DroppedFile,
    OutFile,
    RowsArgument,
    RowSettings,
    Step,
)
from exercises.editpack.rows import DroppedRow, EditRow, RowSource, with_content

UNSAMPLED = "unsampled"
"""The rule under which rows are dropped that ``sample`` does not take."""
_OF_THE_PAPER = 25_000


class SampleChoice(Section):
    """Which rows are taken."""

    seed: int = Field(
        default=0, description="Choose by this seed; another one takes other rows."
    )


class SampleSettings(RowSettings):
    """All that ``sample`` is told."""

    sample: SampleChoice = SampleChoice()


@command(RowSettings, ())
def format_rows(
    line: CommandLine[RowSettings],
    rows: RowsArgument = None,
    out: OutFile = None,
    dropped: DroppedFile = None,
) -> None:
    """Add instruction and content to rows; drop none."""
    settings = line.load()
    if line.prints(settings, rows):
        return
    source = settings.rows.source(rows)
    options = {"skip_bad": source.skip_bad}
    step = Step("format", (source,), out, dropped, options)
    step.write(
        row if isinstance(row, DroppedRow) else with_content(row)
        for row in source.rows()
    )


@command(SampleSettings, ())
def sample_rows(
    line: CommandLine[SampleSettings],
    rows: RowsArgument = None,
    size: Annotated[
        int, typer.Option("--size", metavar="N", min=1, help="Take this many rows.")
    ] = _OF_THE_PAPER,
    out: OutFile = None,
    dropped: DroppedFile = None,
) -> None:
    """Take rows at random, each equally likely, in the order of the input."""
    settings = line.load()
    if line.prints(settings, rows):
        return
    source = settings.rows.source(rows)
    seed = settings.sample.seed
    options = {"n": size, "seed": seed, "skip_bad": source.skip_bad}
    step = Step("sample", (source,), out, dropped, options)
    step.write(_sample(source, size, seed))


def _sample(source: RowSource, size: int, seed: int) -> Iterator[EditRow | DroppedRow]:
    # The first reading counts: memory holds no row but only the numbers of those taken.
    rows = tqdm(source.rows(), "counting", unit=" rows", disable=None)
    total = sum(not isinstance(row, DroppedRow) for row in rows)
    if size > total:
        raise UserError(
            f"--size {size}: {source.name} has {counted(total, 'row')}; ask for fewer"
        )
    chosen = frozenset(random.Random(seed).sample(range(total), size))
    number = 0
    for row in source.rows():
        if isinstance(row, DroppedRow):
            yield row
            continue
        if number in chosen:
            yield row
        else:
            yield DroppedRow(row, UNSAMPLED)
        number += 1
