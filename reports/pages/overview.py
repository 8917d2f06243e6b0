"""Pure: the content of the first page of a run, except its pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NamedTuple

from bench.instances.validity import states_in_words
from core.money import UNKNOWN, column, in_words
from core.plaintext import counted
from reports.data.jsonvalues import mapping
from reports.data.rundata import InstanceData, RunData
from reports.pages.instance import page_name
from reports.pages.markdown import NONE, NOT_EVALUATED, percent, within
from reports.pages.tables import Table, tables
from reports.statistics.collect import RunStats
from reports.statistics.denominators import short_split


class VerdictMark(NamedTuple):
    """A verdict as pages show it, with its key for filters and its CSS class."""

    key: str
    words: str
    style: str


RESOLVED = VerdictMark("resolved", "✓ resolved", "good")
NOT_RESOLVED = VerdictMark("not_resolved", "✗ not resolved", "bad")
NO_PATCH = VerdictMark("no_patch", "✗ no patch", "bad")
WITHOUT_VERDICT = VerdictMark("not_evaluated", "– not evaluated", "wait")
NO_PREDICTION = VerdictMark("no_prediction", "– no prediction", "wait")


@dataclass(frozen=True)
class Card:
    """One number at the top of the page."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class InstanceRow:
    """One instance in the table; ``marked`` if its patch edits test configuration."""

    instance_id: str
    repo: str
    page: str
    status: str
    attempts: int
    chosen: int | None
    model: str
    cost: Decimal | None
    verdict: VerdictMark
    cost_words: str = ""
    marked: bool = False


@dataclass(frozen=True)
class RunView:
    """The first page of a run; ``notes`` are the warnings before the numbers."""

    name: str
    models: tuple[str, ...]
    notes: tuple[str, ...]
    cards: tuple[Card, ...]
    rows: tuple[InstanceRow, ...]
    tables: tuple[Table, ...]


def overview(run: RunData, stats: RunStats, folder: str) -> RunView:
    """Return the content of the first page; the pages of instances are in ``folder``."""
    return RunView(
        name=run.name,
        models=run.models,
        notes=tuple(_notes(run, stats)),
        cards=tuple(_cards(stats)),
        rows=_rows(run, folder),
        tables=tables(stats),
    )


def _rows(run: RunData, folder: str) -> tuple[InstanceRow, ...]:
    rows = {
        instance.instance_id: InstanceRow(
            instance_id=instance.instance_id,
            repo=instance.repo,
            page=f"{folder}/{page_name(instance.instance_id)}",
            status=instance.status,
            attempts=len(instance.attempts),
            chosen=instance.winner,
            model=instance.model or "",
            cost=instance.cost,
            verdict=verdict_mark(instance),
            marked=instance.edits_test_configuration,
        )
        for instance in run.instances
    }
    started = {entry.instance_id: entry for entry in run.unfinished}
    for name in {*run.selected, *started} - rows.keys():
        entry = started.get(name)
        status, attempts = (entry.status, entry.attempts) if entry else ("not started", 0)
        rows[name] = InstanceRow(name, "", "", status, attempts, None, "", None, NO_PREDICTION)
    ordered = [rows[name] for name in sorted(rows)]
    words = column([row.cost for row in ordered])
    return tuple(replace(row, cost_words=cost) for row, cost in zip(ordered, words, strict=True))


def verdict_mark(instance: InstanceData) -> VerdictMark:
    if not instance.may_resolve:
        return NO_PATCH
    if instance.resolved is None:
        return WITHOUT_VERDICT
    return RESOLVED if instance.resolved else NOT_RESOLVED


def _notes(run: RunData, stats: RunStats) -> Iterator[str]:
    counts = stats.counts
    if count := len(mapping(mapping(run.described.get("only_valid")).get("left_out"))):
        left = counted(count, "instance")
        yield f"Left out of the run by --only-valid: {left}. The score is one of the others."
    if counts.not_evaluated:
        yield f"Not evaluated: {counts.not_evaluated} of {counts.generated} patches."
    if missing := counts.selected - counts.predicted:
        yield f"Without a prediction: {missing} of {counts.selected} selected instances."
    if not stats.scores.selection_known:
        yield "No run.json lists the selected instances: the predicted ones are counted instead."
    if stats.validity and (states := stats.validity.not_valid):
        yield f"Not valid by {stats.validity.file}: {states_in_words(states)}, listed below."
    if not stats.official and stats.evaluators:
        yield "Unofficial: not every verdict was given by swebench in its images."
    if count := sum(instance.edits_test_configuration for instance in run.instances):
        made = counted(count, "prediction")
        yield f"Edits of test configuration: in {made}, marked below; tests ran without them."


def _cards(stats: RunStats) -> Iterator[Card]:
    counts, score, effort = stats.counts, stats.scores.selected, stats.effort
    if score.share is None:
        yield Card("Resolved", NONE, NOT_EVALUATED)
    else:
        reach = f"{score.count} of {score.of} selected; 95 %: {within(score.interval)}"
        yield Card("Resolved", percent(score.share), reach)
        evaluated = stats.scores.evaluated
        share = f"{percent(evaluated.share)} of them resolved"
        yield Card("Evaluated", str(evaluated.of), share)
    whole = stats.scores.split
    if whole and whole.share is not None:
        split = f"{whole.of}, {short_split(stats.scores.split_name)}"
        yield Card("Of the split", percent(whole.share), split)
    valid = stats.scores.valid
    if valid and stats.validity:
        reach = f"{valid.count} of {valid.of} valid; 95 %: {within(valid.interval)}"
        note = NOT_EVALUATED if valid.share is None else reach
        yield Card("Of the valid", percent(valid.share), note)
    plausible = UNKNOWN if counts.plausible is None else str(counts.plausible)
    yield Card("Plausible", plausible, f"of {counts.predicted} predictions")
    each = f"{effort.attempts.per_instance:.1f} per instance" if counts.predicted else ""
    yield Card("Attempts", f"{effort.attempts.known:,.0f}", each)
    note = "" if effort.dollars.complete else "at least: some prices are unknown"
    yield Card("Cost", in_words(effort.dollars.known), note)
