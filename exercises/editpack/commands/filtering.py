"""``filter``: keep the rows that pass the rules, with their sides cleaned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import typer

from core.options import built, command, option, option_group
from exercises.editpack.cleanup import Cleanup, cleaned
from exercises.editpack.commands.parsing import ParserPool, parser_pool
from exercises.editpack.files import RowFiles, RowInput, Step, row_workers_option
from exercises.editpack.rows import NEW, OLD, DroppedRow, Row, with_content
from exercises.editpack.rules import Parser, RuleSet, broken_rule

_DIFFER = "cleanups_differ"
"""The key of a report: rows of which the two cleanups give other texts."""


@option_group
class FilterAsked:
    """What ``filter`` is asked for."""

    given: RowInput
    files: RowFiles
    rules: RuleSet = option(
        RuleSet.CODE, "Those of the published code, or those that the paper states.", "--rules"
    )
    cleanup: Cleanup = option(
        Cleanup.REFERENCE,
        "Clean both sides as published, or by Python's tokens, or not (rows that were cleaned).",
        "--cleanup",
    )
    python: str = option(
        "", "The Python, 3.6 or newer, that parses the new side; default: this one.", "--python"
    )
    workers: int = row_workers_option()


@command(FilterAsked)
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Drop rows that are blank, have certain words, are small or do not parse."""
    asked = built(FilterAsked, values)
    source = asked.given.source()
    with parser_pool(asked.python, asked.workers) as pool:
        options = {
            "rules": asked.rules.value,
            "cleanup": asked.cleanup.value,
            "python": pool.version,
            "skip_bad": asked.given.skip_bad,
        }
        counts = Counter[str]()
        step = Step(
            "filter", (source,), asked.files, options, ("rapidfuzz",),
            lambda: {_DIFFER: counts[_DIFFER]},
        )  # fmt: skip
        step.write(_filtered(source.rows(skip_bad=asked.given.skip_bad), asked, pool, counts))


def _filtered(
    rows: Iterator[Row | DroppedRow], asked: FilterAsked, pool: ParserPool, counts: Counter[str]
) -> Iterator[Row | DroppedRow]:
    def judge(row: Row | DroppedRow, parser: Parser) -> tuple[Row | DroppedRow, bool]:
        if isinstance(row, DroppedRow):
            return row, False
        return judged(row, asked.rules, asked.cleanup, parser), cleanups_differ(row)

    for result, differ in pool.map(judge, rows):
        counts[_DIFFER] += differ
        yield result


def judged(row: Row, rules: RuleSet, cleanup: Cleanup, parser: Parser) -> Row | DroppedRow:
    """Return the row with cleaned sides, instruction and content, or as it was if it is dropped."""
    old, new = cleaned(row[OLD], cleanup), cleaned(row[NEW], cleanup)
    broken = broken_rule(old, new, rules, parser)
    if broken:
        rule, detail = broken
        return DroppedRow(row, rule.value, detail)
    return with_content({**row, OLD: old, NEW: new})


def cleanups_differ(row: Row) -> bool:
    """Tell whether the published cleanup and the exact one give other texts of a side."""
    return any(
        cleaned(row[side], Cleanup.REFERENCE) != cleaned(row[side], Cleanup.EXACT)
        for side in (OLD, NEW)
    )
