"""``format``, ``sample`` and ``mix``: rows that are trained on, made of rows as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from core.options import built, command, option_group
from exercises.editpack.files import RowFiles, RowInput, Step
from exercises.editpack.rows import DroppedRow, Row, RowSource, with_content


@option_group
class FormatAsked:
    """What ``format`` is asked for."""

    given: RowInput
    files: RowFiles


@command(FormatAsked)
def format_rows(context: typer.Context, values: dict[str, Any]) -> None:
    """Add instruction and content to rows; drop none."""
    asked = built(FormatAsked, values)
    source = asked.given.source()
    step = Step("format", (source,), asked.files, {"skip_bad": asked.given.skip_bad})
    step.write(_formatted(source, skip_bad=asked.given.skip_bad))


def _formatted(source: RowSource, *, skip_bad: bool) -> Iterator[Row | DroppedRow]:
    for row in source.rows(skip_bad=skip_bad):
        yield row if isinstance(row, DroppedRow) else with_content(row)
