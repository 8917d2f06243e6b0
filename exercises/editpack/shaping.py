"""``format`` and ``sample``: rows that are trained on, made of rows as they are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import typer
from tqdm import tqdm

from core.errors import UserError
from core.options import built, command, option, option_group
from core.plaintext import counted
from exercises.editpack.files import RowFiles, RowInput, Step
from exercises.editpack.rows import DroppedRow, EditRow, with_content

UNSAMPLED = "unsampled"
"""The rule under which rows are dropped that ``sample`` does not take."""
_OF_THE_PAPER = 25_000


@command(RowInput, RowFiles)
def format_rows(context: typer.Context, values: dict[str, Any]) -> None:
    """Add instruction and content to rows; drop none."""
    source = built(RowInput, values).source()
    step = Step(
        "format", (source,), built(RowFiles, values), {"skip_bad": source.skip_bad}
    )
    step.write(
        row if isinstance(row, DroppedRow) else with_content(row)
        for row in source.rows()
    )


@option_group
class SampleAsked:
    number: int = option(_OF_THE_PAPER, "Rows to take.", "--n", least=1)
    seed: int = option(0, "Another seed takes other rows.", "--seed")


@command(RowInput, RowFiles, SampleAsked)
def sample_rows(context: typer.Context, values: dict[str, Any]) -> None:
    """Take rows at random, each equally likely, in the order of the input."""
    asked = built(SampleAsked, values)
    source = built(RowInput, values).source()
    options = {"n": asked.number, "seed": asked.seed, "skip_bad": source.skip_bad}
    step = Step("sample", (source,), built(RowFiles, values), options)

    def sampled() -> Iterator[EditRow | DroppedRow]:
        # The first reading counts: memory holds no row but only the places of those taken.
        first = tqdm(source.rows(), "counting", unit=" rows", disable=None)
        there = sum(not isinstance(row, DroppedRow) for row in first)
        if asked.number > there:
            raise UserError(
                f"--n {asked.number}: {source.name} has {counted(there, 'row')}; ask for fewer"
            )
        taken = frozenset(random.Random(asked.seed).sample(range(there), asked.number))
        place = 0
        for row in source.rows():
            if isinstance(row, DroppedRow):
                yield row
                continue
            yield row if place in taken else DroppedRow(row, UNSAMPLED)
            place += 1

    step.write(sampled())
