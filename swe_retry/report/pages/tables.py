"""Pure: the rows and tables of runs and comparisons, for pages and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from swe_retry.core.jsontypes import JsonObject
from swe_retry.core.money import UNKNOWN, column, dollars_or_none
from swe_retry.record.result import InstanceStatus
from swe_retry.report.pages.instance import INSTANCES, page_name
from swe_retry.report.statistics.attempts import PassAtK
from swe_retry.report.statistics.breakdown import AttemptRow, Group
from swe_retry.report.statistics.collect import RunStats
from swe_retry.report.statistics.comparing import RunComparison
from swe_retry.report.statistics.effort import Amount, Money
from swe_retry.report.statistics.fields import headed_values
from swe_retry.report.statistics.methods import Share, percent
from swe_retry.report.statistics.wording import (
    NONE,
    of,
    points,
    render_lines,
    to_words,
    within,
)
from swe_retry.results.rundata import InstanceData, RunData

_TEMPLATES = Path(__file__).with_name("templates")
Cells = Sequence[object]
CellsByHeading = JsonObject
"""A row of a table: its cells by the heads of their columns."""


# Statuses by which others than the model ended an instance.
_NOT_ITS_END = (InstanceStatus.ERROR, InstanceStatus.BUDGET)


class VerdictMark(NamedTuple):
    """A verdict as pages show it, with its key for filters and its CSS class."""

    key: str
    text: str
    style: str


def verdict_mark(instance: InstanceData | None) -> VerdictMark:
    if instance is None:
        return VerdictMark("no_prediction", "– no prediction", "wait")
    if instance.resolved is None and instance.status in _NOT_ITS_END:
        return VerdictMark("unknown", f"– unknown: {to_words(instance.status)}", "wait")
    if not instance.may_resolve:
        return VerdictMark("no_patch", "✗ no patch", "bad")
    if instance.resolved is None:
        return VerdictMark("not_evaluated", "– not evaluated", "wait")
    if instance.resolved:
        return VerdictMark("resolved", "✓ resolved", "good")
    return VerdictMark("not_resolved", "✗ not resolved", "bad")


def instance_rows(run: RunData) -> list[CellsByHeading]:
    """Return a row for each selected or started instance."""
    blank = {
        "repo": "",
        "page": "",
        "status": "not started",
        "attempts": 0,
        "chosen": None,
        "model": "",
        "cost": None,
        "verdict": verdict_mark(None),
        "marked": False,
    }
    rows = dict.fromkeys(run.selected, blank)
    for entry in run.unfinished:
        started = {"status": entry.status, "attempts": entry.attempts}
        rows[entry.instance_id] = blank | started
    for instance in run.instances:
        rows[instance.instance_id] = {
            "repo": instance.repo,
            "page": f"{INSTANCES}/{page_name(instance.instance_id)}",
            "status": instance.status,
            "attempts": len(instance.attempts),
            "chosen": instance.winner and instance.winner.attempt,
            "model": instance.model,
            "cost": instance.cost,
            "verdict": verdict_mark(instance),
            "marked": instance.edits_test_configuration,
        }
    return [rows[name] | {"instance_id": name} for name in sorted(rows)]


@dataclass(frozen=True)
class Table:
    """A table whose rows are as long as its head."""

    title: str
    head: tuple[str, ...]
    rows: tuple[Cells, ...]
    texts: int = 1  # the number of columns with texts, before those with numbers


def tables(stats: RunStats) -> Iterator[Table]:
    """Yield the tables of the first page that have rows."""
    for title, texts, rows in (
        ("By attempt and model", 2, map(_attempt, stats.by_attempt)),
        ("By model", 1, _groups("model", stats.by_model)),
        ("By run of origin", 1, _groups("run", stats.by_origin)),
        ("By repository", 1, _groups("repository", stats.by_repository)),
        ("By year", 1, _groups("year", stats.by_year)),
        ("Effort", 1, _effort(stats)),
        ("What each further attempt buys", 1, _limited_runs(stats)),
        ("pass@k over all attempts", 1, map(_pass_at_k, stats.pass_at_k)),
        ("All files of the gold patch were", 1, _gold_files(stats)),
        ("How instances ended", 2, _failures(stats)),
        ("Instances that were not found to be valid", 2, _not_valid(stats)),
    ):
        cells = list(rows)
        if cells:
            lines = tuple(tuple(row.values()) for row in cells)
            yield Table(title, tuple(cells[0]), lines, texts)


def _attempt(row: AttemptRow) -> CellsByHeading:
    cells = attempt_cells(row)
    cells["95 % interval"] = within(row.score.interval)
    return cells


def _pass_at_k(row: PassAtK) -> CellsByHeading:
    return {
        "k": row.k,
        "plausible": percent(row.plausible),
        "resolved": percent(row.resolved),
    }


def _groups(what: str, groups: Iterable[Group]) -> Iterator[CellsByHeading]:
    for group in groups:
        cells = {}
        for name, value in headed_values(group):
            cells[name] = NONE if value is None else value
            if isinstance(value, Share):
                cells[name] = NONE if value.share is None else value.count
                cells["score"] = percent(value.share)
                cells["95 % interval"] = within(value.interval)
        yield {what: cells.pop("name"), **cells}


def _effort(stats: RunStats) -> Iterator[CellsByHeading]:
    values = list(headed_values(stats.effort))
    # Amounts first.
    values.sort(key=lambda pair: isinstance(pair[1], Share))
    for name, value in values:
        total, per_instance, per_resolved = _amount(value)
        yield {
            "": name,
            "in all": total,
            "per instance": per_instance,
            "per resolved": per_resolved,
        }


def _amount(amount: Amount | Money | Share) -> list[str]:
    """Return an amount in all, per instance and per resolved instance."""
    if isinstance(amount, Share):
        share = of(amount) if amount.of else NONE
        return [share, NONE, NONE]
    parts = [amount.per_instance, amount.per_resolved]
    if isinstance(amount, Money):
        parts[1] = amount.per_resolved or None
        cells = column([amount.known, *map(dollars_or_none, parts)])
    else:
        cells = [f"{amount.known:,.0f}"]
        cells += [f"{part or 0:,.1f}" for part in parts]
    if not amount.complete:
        cells[0] = f"at least {cells[0]}" if amount.known else UNKNOWN
    for position, part in enumerate(parts, 1):
        if part is None:
            cells[position] = NONE
    return cells


def _limited_runs(stats: RunStats) -> Iterator[CellsByHeading]:
    runs = stats.bought
    costs = column([run.dollars for run in runs])
    further_costs = column([run.further_dollars for run in runs])
    ratios = column([dollars_or_none(run.dollars_per_further) for run in runs])
    for run, cost, further_cost, ratio in zip(
        runs, costs, further_costs, ratios, strict=True
    ):
        bound = "at least " if run.lower_bound else ""
        yield {
            "at most so many attempts": run.attempts,
            "resolved": f"{bound}{of(run.resolved)}",
            "cost": cost,
            "more resolved": f"{run.further_resolved:+d}",
            "more cost": further_cost,
            "per further resolved": NONE if run.dollars_per_further is None else ratio,
        }


def _gold_files(stats: RunStats) -> Iterator[CellsByHeading]:
    for name, share in headed_values(stats.gold_files):
        if share.of:
            yield {"": name, "instances": of(share)}


def _failures(stats: RunStats) -> Iterator[CellsByHeading]:
    for row in stats.failures.instances:
        for reason in row.reasons:
            yield {
                "status": to_words(row.status),
                "how": to_words(reason.reason),
                "instances": reason.count,
            }


def _not_valid(stats: RunStats) -> Iterator[CellsByHeading]:
    if stats.validity:
        for name, state in stats.validity.not_valid.items():
            yield {"instance": name, "state": to_words(state.value)}


_DIFFER = "differ"
_INCOMPLETE = "a verdict is missing"
_SAME = "same"
_ORDER = (_DIFFER, _INCOMPLETE, _SAME)


@dataclass(frozen=True)
class Compared:
    """One of the compared runs, under the name that the comparisons use, and its own page."""

    run: RunData
    stats: RunStats
    page: str = ""


def agreement_rows(
    runs: Sequence[Compared], comparisons: Iterable[RunComparison]
) -> list[JsonObject]:
    """Return a row for each instance of any run; those whose verdicts differ come first."""
    names: set[str] = set()
    differing: set[str] = set()
    for comparison in comparisons:
        differing.update(comparison.only_a, comparison.only_b)
    predicted = []
    for compared in runs:
        names.update(compared.run.selected)
        predicted.append({i.instance_id: i for i in compared.run.instances})
    rows = []
    for name in sorted(names):
        instances = [by_id.get(name) for by_id in predicted]
        present = list(filter(None, instances))
        verdicts = {instance.resolved for instance in present}
        agreement = _INCOMPLETE
        if name in differing:
            agreement = _DIFFER
        elif len(present) == len(runs) and verdicts in ({True}, {False}):
            agreement = _SAME
        row = {
            "instance_id": name,
            "repo": present[0].repo if present else "",
            "agreement": agreement,
            "instances": instances,
        }
        rows.append(row)
    return sorted(rows, key=lambda row: _ORDER.index(row["agreement"]))


def comparison_facts(comparison: RunComparison) -> Iterator[tuple[str, str]]:
    a = comparison.a
    b = comparison.b
    yield f"resolved by {a}", of(comparison.resolved_a)
    yield f"resolved by {b}", of(comparison.resolved_b)
    if comparison.interval and comparison.difference is not None:
        yield "difference", f"{100 * comparison.difference:+.1f} percentage points"
        interval = f"{points(comparison.interval)} points (Newcombe, paired)"
        yield "95 % interval", interval
    yield "McNemar's exact test", p_value(comparison)
    if comparison.table.instances:
        cost_a, cost_b = column([comparison.cost_a, comparison.cost_b])
        yield f"cost of {a}, instances compared", cost_a
        yield f"cost of {b}, instances compared", cost_b
    yield "left out: a verdict in only one run", str(comparison.left_out)


def run_tables(stats: RunStats) -> list[str]:
    """Return the two tables of the run of May 2024, and the scores by denominator."""
    return render_lines(
        _TEMPLATES / "run.md",
        stats=stats,
        attempts=[list(attempt_cells(row).values()) for row in stats.by_attempt],
        models=list(_model_rows(stats)),
    )


def attempt_cells(row: AttemptRow) -> dict[str, object]:
    """Return the cells of a row by the heads that pages give their columns."""
    return {
        "attempt": row.attempt,
        "model": row.model,
        "predictions": row.predictions.count,
        "of all predictions": percent(row.predictions.share),
        "resolved": NONE if row.score.share is None else row.resolved.count,
        "of all resolved": percent(row.resolved.share),
        "score": percent(row.score.share),
    }


def _model_rows(stats: RunStats) -> Iterator[Cells]:
    for group in stats.by_model:
        yield _model_cells(group.name, group.predictions, group.resolved)
    counts = stats.counts
    total = Share.compute(
        counts.resolved,
        counts.predicted,
        evaluated=stats.scores.selected.share is not None,
    )
    yield _model_cells("Total", counts.predicted, total)


def _model_cells(name: str, predictions: int, resolved: Share) -> Cells:
    count: object = resolved.count
    if resolved.of and resolved.share is None:
        count = NONE
    return (name, predictions, count, percent(resolved.share))


def paired_table(
    comparison: RunComparison,
) -> tuple[tuple[str, ...], tuple[Cells, ...]]:
    """Return the head and the rows of the table of what both or one of two runs resolved."""
    a = comparison.a
    b = comparison.b
    pairs = comparison.table
    rows = (
        (f"resolved by {a}", pairs.both, pairs.only_a),
        (f"not by {a}", pairs.only_b, pairs.neither),
    )
    return ("", f"resolved by {b}", f"not by {b}"), rows


def p_value(comparison: RunComparison) -> str:
    if comparison.p_value is None:
        return "not evaluated: no instance has a verdict in both runs"
    return f"p = {comparison.p_value:.4g}"


def comparison_table(comparison: RunComparison) -> list[str]:
    """Return the paired table of two runs, the test, and the differing instances."""
    head, rows = paired_table(comparison)
    return render_lines(
        _TEMPLATES / "comparison.md",
        comparison=comparison,
        head=head,
        rows=rows,
        costs=column([comparison.cost_a, comparison.cost_b]),
        p_value=p_value(comparison),
    )
