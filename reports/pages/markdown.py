"""Pure: the statistics of runs as Markdown, for ``--format markdown`` and ``compare``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.instances.validity import states_in_words
from core.money import column
from core.plaintext import counted, one_line, table
from reports.statistics.breakdown import AttemptRow
from reports.statistics.collect import RunStats
from reports.statistics.comparing import RunComparison
from reports.statistics.denominators import short_split
from reports.statistics.methods import Interval, Share

Cells = Sequence[object]
NONE = "–"
NOT_EVALUATED = "not evaluated"


def percent(share: float | None) -> str:
    """Return a share in percent with one decimal; a dash for None."""
    return NONE if share is None else f"{100 * share:.1f} %"


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


def run_tables(stats: RunStats) -> Iterator[str]:
    """Yield the two tables of the run of May 2024, and the scores by denominator."""
    yield from attempt_table(stats)
    yield ""
    yield from model_table(stats)
    yield ""
    yield from denominators(stats)


def attempt_cells(row: AttemptRow) -> tuple[object, ...]:
    return (
        row.attempt,
        row.model,
        row.predictions.count,
        percent(row.predictions.share),
        NONE if row.score.share is None else row.resolved.count,
        percent(row.resolved.share),
        percent(row.score.share),
    )


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
    rows: list[Cells] = [attempt_cells(row) for row in stats.by_attempt]
    total, score = stats.counts, stats.scores.selected
    everything = percent(1.0 if total.resolved else None)
    resolved = NONE if score.share is None else total.resolved
    sums = ("Total", "", total.predicted, percent(1.0), resolved, everything)
    rows.append((*sums, percent(score.share)))
    return table(headings, rows, numbers=range(2, len(headings)), markdown=True)


def model_table(stats: RunStats) -> Iterator[str]:
    rows: list[Cells] = [
        (g.name, g.predictions, _count(g.resolved), percent(g.resolved.share))
        for g in stats.by_model
    ]
    counts = stats.counts
    known = stats.scores.selected.share is not None
    total = Share.made(counts.resolved, counts.predicted, known=known)
    rows.append(("Total", counts.predicted, _count(total), percent(total.share)))
    headings = ("Agent", "Predictions", "Resolved", "Share resolved")
    return table(headings, rows, numbers=range(1, 4), markdown=True)


def _count(share: Share) -> object:
    return NONE if share.of and share.share is None else share.count


def denominators(stats: RunStats) -> Iterator[str]:
    scores = stats.scores
    unknown = (
        "" if scores.selection_known else " (no run.json: all that have a prediction)"
    )
    yield f"- Score, resolved of the selected instances{unknown}: {_scored(scores.selected)}"
    yield f"- Resolved of the evaluated instances: {_scored(scores.evaluated)}"
    if scores.split:
        split = one_line(short_split(scores.split_name))
        yield f"- Resolved of the whole split, {split}: {_scored(scores.split)}"
    if scores.valid and stats.validity:
        by, states = one_line(stats.validity.file), stats.validity.not_valid
        yield f"- Resolved of the valid instances, by {by}: {_scored(scores.valid)}"
        if states:
            names = ", ".join(map(one_line, states))
            yield f"- Not valid by {by}: {states_in_words(states)} ({names})"
    if stats.counts.no_generation:
        yield f"- Without a patch: {stats.counts.no_generation} of the predictions"
    if stats.counts.not_evaluated:
        patches = counted(stats.counts.not_evaluated, "patch", "patches")
        bounds = (
            "" if scores.selected.share is None else "; all shares are lower bounds"
        )
        yield f"- Not evaluated: {patches}{bounds}"
    if not stats.official and stats.evaluators:
        by = ", ".join(map(one_line, stats.evaluators))
        yield f"- UNOFFICIAL: not every verdict is swebench's own, in its images (verdicts: {by})"


def _scored(share: Share) -> str:
    words = of(share)
    return (
        f"{words} (95 % Wilson interval {within(share.interval)})"
        if share.interval
        else words
    )


def p_value(found: RunComparison) -> str:
    if found.p_value is None:
        return "not evaluated: no instance has a verdict in both runs"
    return f"p = {found.p_value:.4g}"


def paired_table(
    found: RunComparison,
) -> tuple[tuple[str, ...], tuple[Cells, ...]]:
    a, b, pairs = found.a, found.b, found.table
    rows = (
        (f"resolved by {a}", str(pairs.both), str(pairs.only_a)),
        (f"not by {a}", str(pairs.only_b), str(pairs.neither)),
    )
    return ("", f"resolved by {b}", f"not by {b}"), rows


def comparison_table(found: RunComparison) -> Iterator[str]:
    """Yield the paired table of two runs, the test, and the differing instances."""
    a, b = found.a, found.b
    yield from table(*paired_table(found), numbers=(1, 2), markdown=True)
    yield ""
    yield f"- {one_line(a)} resolved {_scored(found.resolved_a)}"
    yield f"- {one_line(b)} resolved {_scored(found.resolved_b)}"
    if found.interval and found.difference is not None:
        yield (
            f"- Difference: {100 * found.difference:+.1f} percentage points (95 % bootstrap "
            f"interval {points(found.interval)}, {found.resamples:,} resamples, seed {found.seed})"
        )
    yield f"- McNemar's exact test: {p_value(found)}"
    costs = column([found.cost_a, found.cost_b])
    if found.table.instances:
        each = f"{one_line(a)} {costs[0]}, {one_line(b)} {costs[1]}"
        yield f"- Cost of the instances compared: {each}"
    if found.left_out:
        left = counted(found.left_out, "instance")
        yield f"- Left out: {left} that only one of them has a verdict on"
    for name, ids in ((a, found.only_a), (b, found.only_b)):
        yield f"- Only {one_line(name)}: {', '.join(map(one_line, ids)) or NONE}"
