"""Pure: alternative texts of pictures."""

from __future__ import annotations

from collections.abc import Sequence

from core.money import column
from core.plaintext import counted
from reports.plots.data import AttemptBar, CostStep, RepositoryBar, Score, ScoreDifference
from reports.statistics.confusion import Confusion
from reports.statistics.methods.intervals import Interval


def words_of_attempts(bars: Sequence[AttemptBar]) -> str:
    """Return the score by attempt as text."""
    return "; ".join(
        f"attempt {bar.attempt}: {bar.resolved} resolved, {bar.unresolved} not, "
        f"{bar.not_evaluated} not evaluated, score so far {bar.score:.1%}"
        for bar in bars
    )


def words_of_steps(steps: Sequence[CostStep]) -> str:
    """Return cost against score as text."""
    return "; ".join(
        f"{counted(step.attempts, 'attempt')}: {cost}, {step.score:.1%}"
        for step, cost in zip(steps, column([step.dollars for step in steps]), strict=True)
    )


def words_of_repositories(bars: Sequence[RepositoryBar]) -> str:
    """Return models by repository as text."""
    return "; ".join(
        f"{bar.repository}, {bar.model}: {bar.resolved} of {bar.evaluated}" for bar in bars
    )


def words_of_confusion(confusion: Confusion) -> str:
    """Return plausible against resolved as text."""
    return (
        f"plausible: {confusion.plausible_resolved} resolved, "
        f"{confusion.plausible_unresolved} not; not plausible: "
        f"{confusion.implausible_resolved} resolved, {confusion.implausible_unresolved} not"
    )


def words_of_scores(scores: Sequence[Score], differences: Sequence[ScoreDifference]) -> str:
    """Return the scores of runs and their differences as text."""
    parts = [
        f"{score.run}: {_around(score.share.share or 0.0, score.share.interval)}"
        for score in scores
    ]
    parts += [f"{d.b} less {d.a}: {_around(d.difference, d.interval)}" for d in differences]
    return "; ".join(parts)


def _around(value: float, interval: Interval | None) -> str:
    reach = f" ({interval.low:.1%} to {interval.high:.1%})" if interval else ""
    return f"{value:.1%}{reach}"
