"""Pure: the statistics of runs as Markdown, for ``--format markdown`` and ``compare``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from core.money import column
from reports.statistics.breakdown import AttemptRow
from reports.statistics.collect import RunStats
from reports.statistics.comparing import RunComparison
from reports.statistics.methods import Share, percent
from reports.texts import NONE, render_lines

Cells = Sequence[object]
_TEMPLATES = Path(__file__).with_name("templates")


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


def _model_cells(
    name: str,
    predictions: int,
    resolved: Share,
) -> Cells:
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
