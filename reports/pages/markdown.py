"""Pure: the statistics of runs as Markdown, for ``--format markdown`` and ``compare``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bench.instances.validity import states_in_words
from core.money import column
from core.plaintext import one_line, quantity, table
from reports.statistics.breakdown import AttemptRow
from reports.statistics.collect import RunStats
from reports.statistics.comparing import RunComparison
from reports.statistics.denominators import short_split
from reports.statistics.methods import Interval, Share, percent

Cells = Sequence[object]
NONE = "–"
NOT_EVALUATED = "not evaluated"


def within(interval: Interval | None) -> str:
    """Return an interval in percent; a dash for None."""
    if interval is None:
        return NONE
    return f"{percent(interval.low)} to {percent(interval.high)}"


def points(interval: Interval) -> str:
    """Return the interval of a difference of shares in percentage points."""
    return f"{100 * interval.low:+.1f} to {100 * interval.high:+.1f}"


def of(share: Share) -> str:
    """Return a share as ``79 of 300, 26.3 %``; ``not evaluated`` if it is unknown."""
    if share.share is None:
        return NOT_EVALUATED
    return f"{share.count} of {share.of}, {percent(share.share)}"


def to_words(name: object) -> str:
    """Return a name of a file, such as a status, in words."""
    return str(name).replace("_", " ")


def run_tables(stats: RunStats) -> Iterator[str]:
    """Yield the two tables of the run of May 2024, and the scores by denominator."""
    yield from attempt_table(stats)
    yield ""
    yield from model_table(stats)
    yield ""
    yield from denominators(stats)


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


def attempt_table(stats: RunStats) -> Iterator[str]:
    headings = (
        "Attempt",
        "Agent",
        "Predictions",
        "Share",
        "Resolved",
        "Share",
        "Score",
    )
    rows: list[Cells] = [list(attempt_cells(row).values()) for row in stats.by_attempt]
    counts = stats.counts
    score = stats.scores.selected
    total = (
        "Total",
        "",
        counts.predicted,
        percent(1.0),
        NONE if score.share is None else counts.resolved,
        percent(1.0 if counts.resolved else None),
        percent(score.share),
    )
    return table(
        headings,
        [*rows, total],
        numbers=range(2, 7),
        markdown=True,
    )


def model_table(stats: RunStats) -> Iterator[str]:
    headings = ("Agent", "Predictions", "Resolved", "Share resolved")
    rows = []
    for group in stats.by_model:
        rows.append(_model_cells(group.name, group.predictions, group.resolved))
    counts = stats.counts
    total = Share.compute(
        counts.resolved,
        counts.predicted,
        evaluated=stats.scores.selected.share is not None,
    )
    rows.append(_model_cells("Total", counts.predicted, total))
    return table(
        headings,
        rows,
        numbers=range(1, 4),
        markdown=True,
    )


def _model_cells(
    name: str,
    predictions: int,
    resolved: Share,
) -> Cells:
    count: object = resolved.count
    if resolved.of and resolved.share is None:
        count = NONE
    return (name, predictions, count, percent(resolved.share))


def denominators(stats: RunStats) -> Iterator[str]:
    scores = stats.scores
    counts = stats.counts
    validity = stats.validity
    selected = "Score, resolved of the selected instances"
    if not scores.selection_known:
        selected += " (no run.json: all that have a prediction)"
    yield f"- {selected}: {_with_interval(scores.selected)}"
    yield f"- Resolved of the evaluated instances: {_with_interval(scores.evaluated)}"
    if scores.split:
        split = one_line(short_split(scores.split_name))
        yield f"- Resolved of the whole split, {split}: {_with_interval(scores.split)}"
    if scores.valid and validity:
        file = one_line(validity.file)
        yield f"- Resolved of the valid instances, by {file}: {_with_interval(scores.valid)}"
        if validity.not_valid:
            states = states_in_words(validity.not_valid)
            yield f"- Not valid by {file}: {states} ({_names(validity.not_valid)})"
    if counts.no_generation:
        yield f"- Without a patch: {counts.no_generation} of the predictions"
    if counts.not_evaluated:
        patches = quantity(counts.not_evaluated, "patch", "patches")
        if scores.selected.share is not None:
            patches += "; all shares are lower bounds"
        yield f"- Not evaluated: {patches}"
    if not stats.official and stats.evaluators:
        yield (
            "- UNOFFICIAL: not every verdict is swebench's own, in its images "
            f"(verdicts: {_names(stats.evaluators)})"
        )


def _with_interval(share: Share) -> str:
    if share.interval is None:
        return of(share)
    return f"{of(share)} (95 % Wilson interval {within(share.interval)})"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(one_line, names))


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


def comparison_table(comparison: RunComparison) -> Iterator[str]:
    """Yield the paired table of two runs, the test, and the differing instances."""
    a = one_line(comparison.a)
    b = one_line(comparison.b)
    head, rows = paired_table(comparison)
    yield from table(
        head,
        rows,
        numbers=(1, 2),
        markdown=True,
    )
    yield ""
    yield f"- {a} resolved {_with_interval(comparison.resolved_a)}"
    yield f"- {b} resolved {_with_interval(comparison.resolved_b)}"
    if comparison.interval and comparison.difference is not None:
        yield (
            f"- Difference: {100 * comparison.difference:+.1f} percentage points "
            f"(95 % interval {points(comparison.interval)})"
        )
    yield f"- McNemar's exact test: {p_value(comparison)}"
    if comparison.table.instances:
        cost_a, cost_b = column([comparison.cost_a, comparison.cost_b])
        yield f"- Cost of the instances compared: {a} {cost_a}, {b} {cost_b}"
    if comparison.left_out:
        left_out = quantity(comparison.left_out, "instance")
        yield f"- Left out: {left_out} that only one of them has a verdict on"
    yield f"- Only {a}: {_names(comparison.only_a) or NONE}"
    yield f"- Only {b}: {_names(comparison.only_b) or NONE}"
