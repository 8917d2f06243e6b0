"""Pictures in words, for those who cannot see them."""

from __future__ import annotations

from collections.abc import Sequence

from reports.plots.data import AttemptBar, Confusion, RepositoryBar, Score, Step


def words_of_attempts(bars: Sequence[AttemptBar]) -> str:
    """Return the score by attempt in words."""
    return "; ".join(
        f"attempt {bar.attempt}: {bar.resolved} resolved, {bar.unresolved} not, "
        f"{bar.not_evaluated} not evaluated, score so far {bar.score:.1%}"
        for bar in bars
    )


def words_of_steps(steps: Sequence[Step]) -> str:
    """Return cost against score in words."""
    return "; ".join(
        f"{step.attempts} attempts: ${step.dollars:,.2f}, {step.score:.1%}" for step in steps
    )


def words_of_repositories(bars: Sequence[RepositoryBar]) -> str:
    """Return models by repository in words."""
    return "; ".join(
        f"{bar.repository}, {bar.model}: {bar.resolved} of {bar.predicted}" for bar in bars
    )


def words_of_confusion(confusion: Confusion) -> str:
    """Return plausible against resolved in words."""
    return (
        f"plausible: {confusion.plausible_resolved} resolved, "
        f"{confusion.plausible_unresolved} not; not plausible: "
        f"{confusion.other_resolved} resolved, {confusion.other_unresolved} not"
    )


def words_of_scores(scores: Sequence[Score]) -> str:
    """Return the scores of runs in words."""
    return "; ".join(
        f"{score.run}: {score.share:.1%} ({score.low:.1%} to {score.high:.1%})" for score in scores
    )
