"""Pure: the statistics of a run as tables of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.money import UNKNOWN, column, dollars
from reports.pages.markdown import NONE, of, percent, within
from reports.statistics.breakdown import Group
from reports.statistics.collect import Amount, Money, RunStats


@dataclass(frozen=True)
class Table:
    """A table whose rows are as long as its head.

    Attributes:
        texts: the number of columns with texts, before those with numbers.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int = 1


def tables(stats: RunStats) -> tuple[Table, ...]:
    """Return the tables of the first page that have rows."""
    gold, not_valid = stats.gold_files, stats.validity.not_valid if stats.validity else {}
    shares = (
        ("in the repository map", gold.in_map),
        ("added by the chosen attempt", gold.added_by_winner),
        ("added by any attempt", gold.added_by_any),
        ("edited by the chosen attempt", gold.edited_by_winner),
        ("edited by any attempt", gold.edited_by_any),
    )
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
            tuple((str(r.k), percent(r.plausible), percent(r.resolved)) for r in stats.pass_at_k),
        ),
        Table(
            "All files of the gold patch were",
            ("", "instances"),
            tuple((name, of(share)) for name, share in shares if share.of),
        ),
        Table(
            "How instances ended",
            ("status", "how", "instances"),
            tuple(
                (row.status.replace("_", " "), each.reason.replace("_", " "), str(each.count))
                for row in stats.failures.instances
                for each in row.reasons
            ),
            texts=2,
        ),
        Table(
            "Instances that were not found to be valid",
            ("instance", "state"),
            tuple((name, state.value.replace("_", " ")) for name, state in not_valid.items()),
            texts=2,
        ),
    )
    return tuple(table for table in made if table.rows)


def _by_attempt(stats: RunStats) -> Table:
    rows = tuple(
        (
            str(row.attempt),
            row.model,
            str(row.predictions.count),
            percent(row.predictions.share),
            NONE if row.score.share is None else str(row.resolved.count),
            percent(row.resolved.share),
            percent(row.score.share),
            within(row.score.interval),
        )
        for row in stats.by_attempt
    )
    head = (
        "attempt", "model", "predictions", "of all predictions", "resolved", "of all resolved",
        "score", "95 % interval",
    )  # fmt: skip
    return Table("By attempt and model", head, rows, texts=2)


def _groups(title: str, what: str, groups: Sequence[Group]) -> Table:
    rows = tuple(
        (
            group.name,
            str(group.predictions),
            str(group.evaluated),
            NONE if group.plausible is None else str(group.plausible),
            NONE if group.resolved.share is None else str(group.resolved.count),
            percent(group.resolved.share),
            within(group.resolved.interval),
        )
        for group in groups
    )
    head = (what, "predictions", "evaluated", "plausible", "resolved", "score", "95 % interval")
    return Table(title, head, rows)


def _effort(stats: RunStats) -> Table:
    effort = stats.effort
    amounts: tuple[tuple[str, Amount | Money], ...] = (
        ("attempts", effort.attempts),
        ("reflections", effort.reflections),
        ("calls", effort.calls),
        ("prompt tokens", effort.prompt_tokens),
        ("of them cached", effort.cached_tokens),
        ("completion tokens", effort.completion_tokens),
        ("dollars", effort.dollars),
        ("seconds", effort.seconds),
    )
    rows = tuple((name, *_amount(amount)) for name, amount in amounts)
    errors = of(effort.edit_errors) if effort.edit_errors.of else NONE
    rows += (("attempts with an edit error", errors, NONE, NONE),)
    return Table("Effort", ("", "in all", "per instance", "per resolved"), rows)


def _amount(amount: Amount | Money) -> tuple[str, ...]:
    if isinstance(amount, Money):
        each = [amount.per_instance, amount.per_resolved or None]
        known, *cells = column([amount.known, *(None if e is None else dollars(e) for e in each)])
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
            str(row.attempts),
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
        "at most so many attempts", "resolved", "cost", "more resolved", "more cost",
        "per further resolved",
    )  # fmt: skip
    return Table("What each further attempt buys", head, rows)
