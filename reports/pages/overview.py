"""Pure: the content of the first page of a run, with its tables and without its pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NamedTuple

from bench.instances.validity import states_in_words
from core.money import UNKNOWN, column, dollars, in_words
from core.plaintext import counted
from reports.data.rundata import InstanceData, RunData
from reports.pages.instance import page_name
from reports.pages.markdown import (
    NONE,
    NOT_EVALUATED,
    Cells,
    attempt_cells,
    of,
    percent,
    within,
)
from reports.statistics.breakdown import Group
from reports.statistics.collect import Amount, Money, RunStats
from reports.statistics.denominators import short_split
from reports.statistics.methods import Share


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
class Table:
    """A table whose rows are as long as its head."""

    title: str
    head: tuple[str, ...]
    rows: tuple[Cells, ...]
    texts: int = 1  # the number of columns with texts, before those with numbers


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
            chosen=instance.winner.attempt if instance.winner else None,
            model=instance.model,
            cost=instance.cost,
            verdict=verdict_mark(instance),
            marked=instance.edits_test_configuration,
        )
        for instance in run.instances
    }
    started = {entry.instance_id: entry for entry in run.unfinished}
    for name in {*run.selected, *started} - rows.keys():
        entry = started.get(name)
        status, attempts = (
            (entry.status, entry.attempts) if entry else ("not started", 0)
        )
        rows[name] = InstanceRow(
            name, "", "", status, attempts, None, "", None, NO_PREDICTION
        )
    ordered = [rows[name] for name in sorted(rows)]
    words = column([row.cost for row in ordered])
    return tuple(
        replace(row, cost_words=cost) for row, cost in zip(ordered, words, strict=True)
    )


def verdict_mark(instance: InstanceData) -> VerdictMark:
    if not instance.may_resolve:
        return NO_PATCH
    if instance.resolved is None:
        return WITHOUT_VERDICT
    return RESOLVED if instance.resolved else NOT_RESOLVED


def _notes(run: RunData, stats: RunStats) -> Iterator[str]:
    counts = stats.counts
    left_out = run.described.only_valid.get("left_out")
    if isinstance(left_out, dict) and (count := len(left_out)):
        left = counted(count, "instance")
        yield (
            f"Left out of the run by instances.only_valid: {left}. "
            "The score is one of the others."
        )
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
    each = (
        f"{effort.attempts.per_instance:.1f} per instance" if counts.predicted else ""
    )
    yield Card("Attempts", f"{effort.attempts.known:,.0f}", each)
    note = "" if effort.dollars.complete else "at least: some prices are unknown"
    yield Card("Cost", in_words(effort.dollars.known), note)


def tables(stats: RunStats) -> tuple[Table, ...]:
    """Return the tables of the first page that have rows."""
    not_valid = stats.validity.not_valid if stats.validity else {}
    made = (
        _by_attempt(stats),
        _groups("By model", "model", stats.by_model),
        _groups("By run of origin", "run", stats.by_origin),
        _groups("By repository", "repository", stats.by_repository),
        _groups("By year", "year", stats.by_year),
        _effort(stats),
        _bought(stats),
        Table(
            "pass@k over all attempts",
            ("k", "plausible", "resolved"),
            tuple(
                (r.k, percent(r.plausible), percent(r.resolved))
                for r in stats.pass_at_k
            ),
        ),
        Table(
            "All files of the gold patch were",
            ("", "instances"),
            tuple(
                (_words(n), of(share))
                for n, share in vars(stats.gold_files).items()
                if share.of
            ),
        ),
        Table(
            "How instances ended",
            ("status", "how", "instances"),
            tuple(
                (
                    row.status.replace("_", " "),
                    each.reason.replace("_", " "),
                    each.count,
                )
                for row in stats.failures.instances
                for each in row.reasons
            ),
            texts=2,
        ),
        Table(
            "Instances that were not found to be valid",
            ("instance", "state"),
            tuple(
                (name, state.value.replace("_", " "))
                for name, state in not_valid.items()
            ),
            texts=2,
        ),
    )
    return tuple(table for table in made if table.rows)


# Names of statistics whose words on the page are others.
_WORDS = {
    "in_map": "in the repository map",
    "added_by_winner": "added by the chosen attempt",
    "added_by_any": "added by any attempt",
    "edited_by_winner": "edited by the chosen attempt",
    "edited_by_any": "edited by any attempt",
    "cached_tokens": "of them cached",
    "edit_errors": "attempts with an edit error",
}


def _words(name: str) -> str:
    return _WORDS.get(name, name.replace("_", " "))


def _by_attempt(stats: RunStats) -> Table:
    rows = tuple(
        (*attempt_cells(row), within(row.score.interval)) for row in stats.by_attempt
    )
    head = (
        "attempt",
        "model",
        "predictions",
        "of all predictions",
        "resolved",
        "of all resolved",
        "score",
        "95 % interval",
    )
    return Table("By attempt and model", head, rows, texts=2)


def _groups(title: str, what: str, groups: Sequence[Group]) -> Table:
    rows = tuple(
        (
            group.name,
            group.predictions,
            group.evaluated,
            NONE if group.plausible is None else group.plausible,
            NONE if group.resolved.share is None else group.resolved.count,
            percent(group.resolved.share),
            within(group.resolved.interval),
        )
        for group in groups
    )
    head = (
        what,
        "predictions",
        "evaluated",
        "plausible",
        "resolved",
        "score",
        "95 % interval",
    )
    return Table(title, head, rows)


def _effort(stats: RunStats) -> Table:
    effort = vars(stats.effort).items()
    rows = [
        (_words(name), *_amount(a)) for name, a in effort if not isinstance(a, Share)
    ]
    for name, share in effort:
        if isinstance(share, Share):
            rows.append((_words(name), of(share) if share.of else NONE, NONE, NONE))
    return Table("Effort", ("", "in all", "per instance", "per resolved"), tuple(rows))


def _amount(amount: Amount | Money) -> tuple[str, ...]:
    if isinstance(amount, Money):
        each = [amount.per_instance, amount.per_resolved or None]
        known, *cells = column(
            [amount.known, *(None if e is None else dollars(e) for e in each)]
        )
        per = [NONE if e is None else cell for e, cell in zip(each, cells, strict=True)]
    else:
        known = f"{amount.known:,.0f}"
        each = [amount.per_instance, amount.per_resolved]
        per = [NONE if value is None else f"{value:,.1f}" for value in each]
    least = f"at least {known}" if amount.known else UNKNOWN
    return known if amount.complete else least, *per


def _bought(stats: RunStats) -> Table:
    every = stats.bought
    further = [step.dollars_per_further for step in every]
    rows = tuple(
        (
            row.attempts,
            f"at least {of(row.resolved)}" if row.lower_bound else of(row.resolved),
            cost,
            f"{row.further_resolved:+d}",
            its_cost,
            NONE if row.dollars_per_further is None else per_further,
        )
        for row, cost, its_cost, per_further in zip(
            every,
            column([row.dollars for row in every]),
            column([row.further_dollars for row in every]),
            column([None if each is None else dollars(each) for each in further]),
            strict=True,
        )
    )
    head = (
        "at most so many attempts",
        "resolved",
        "cost",
        "more resolved",
        "more cost",
        "per further resolved",
    )
    return Table("What each further attempt buys", head, rows)
