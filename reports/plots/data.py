"""Pure: the numbers in the pictures, so that drawing does not depend on runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from core.redaction import Redactor
from reports.data.rundata import InstanceData, RunData
from reports.statistics.breakdown import UNKNOWN
from reports.statistics.collect import Confusion, RunStats
from reports.statistics.comparing import RunComparison
from reports.statistics.methods import Interval, Share


@dataclass(frozen=True)
class AttemptBar:
    """The predictions of one attempt number, and the score up to it."""

    attempt: int
    resolved: int
    unresolved: int
    not_evaluated: int
    score: float


@dataclass(frozen=True)
class CostStep:
    """The cost and score of a run limited to ``attempts`` attempts per instance."""

    attempts: int
    dollars: Decimal
    score: float


@dataclass(frozen=True)
class RepositoryBar:
    """One model's evaluated predictions in one repository."""

    repository: str
    model: str
    resolved: int
    evaluated: int


@dataclass(frozen=True)
class Score:
    """A run's score; official if swebench itself gave every verdict."""

    run: str
    share: Share
    official: bool


@dataclass(frozen=True)
class ScoreDifference:
    """The share of ``b`` minus that of ``a``, with its interval."""

    a: str
    b: str
    difference: float
    interval: Interval


@dataclass(frozen=True)
class FigureData:
    """The data of all pictures of a report; an empty part gives no picture."""

    attempts: tuple[AttemptBar, ...] = ()
    steps: tuple[CostStep, ...] = ()
    repositories: tuple[RepositoryBar, ...] = ()
    confusion: Confusion | None = None
    scores: tuple[Score, ...] = ()
    differences: tuple[ScoreDifference, ...] = ()


def figure_data(run: RunData, stats: RunStats) -> FigureData:
    """Return the data for the pictures of one run."""
    if not run.evaluated:
        return FigureData()
    evaluated = [i for i in run.instances if i.resolved is not None]
    return FigureData(
        attempts=tuple(_attempts(run, stats)),
        steps=tuple(_steps(stats)),
        repositories=tuple(_repositories(evaluated, run.models)),
        confusion=stats.plausible if evaluated and stats.counts.plausible is not None else None,
    )


def comparison_data(runs: Sequence[RunStats], comparisons: Sequence[RunComparison]) -> FigureData:
    """Return the data for the picture of a comparison."""
    return FigureData(
        scores=tuple(
            Score(run.run, run.scores.selected, run.official)
            for run in runs
            if run.scores.selected.share is not None
        ),
        differences=tuple(
            ScoreDifference(c.a, c.b, c.difference, c.interval)
            for c in comparisons
            if c.interval and c.difference is not None
        ),
    )


def redacted(data: FigureData, redact: Redactor) -> FigureData:
    """Return ``data`` with secrets removed from all names."""
    return replace(
        data,
        repositories=tuple(
            replace(bar, repository=redact(bar.repository), model=redact(bar.model))
            for bar in data.repositories
        ),
        scores=tuple(replace(score, run=redact(score.run)) for score in data.scores),
        differences=tuple(replace(d, a=redact(d.a), b=redact(d.b)) for d in data.differences),
    )


def _attempts(run: RunData, stats: RunStats) -> Iterator[AttemptBar]:
    so_far = 0
    most = max((row.attempt for row in stats.by_attempt), default=0)
    for number in range(1, most + 1):
        found = [i.resolved for i in run.instances if i.attempt == number]
        resolved, unknown = found.count(True), found.count(None)
        so_far += resolved
        rest = len(found) - resolved - unknown
        yield AttemptBar(number, resolved, rest, unknown, so_far / len(run.selected))


def _steps(stats: RunStats) -> Iterator[CostStep]:
    for row in stats.bought:
        if row.dollars is None:
            return
        yield CostStep(row.attempts, row.dollars, row.resolved.share or 0.0)


def _repositories(
    evaluated: Sequence[InstanceData], models: Sequence[str]
) -> Iterator[RepositoryBar]:
    places = {model: place for place, model in enumerate(models)}
    pairs = {(i.repo, i.model or UNKNOWN) for i in evaluated}
    for repo, model in sorted(pairs, key=lambda pair: (places.get(pair[1], len(places)), pair)):
        own = [i for i in evaluated if (i.repo, i.model or UNKNOWN) == (repo, model)]
        yield RepositoryBar(repo, model, sum(bool(i.resolved) for i in own), len(own))
