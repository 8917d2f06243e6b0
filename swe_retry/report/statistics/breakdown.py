"""Pure: the instances of a run by attempt and model, by model, origin, repository and year."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from swe_retry.report.statistics.methods import Share
from swe_retry.results.rundata import InstanceData, RunData

UNKNOWN = "unknown"


@dataclass(frozen=True)
class AttemptRow:
    """The predictions of one attempt number and model, over all instances.

    Attributes:
        attempt: from 1.
        model: that made the attempt.
        predictions: of all predictions, including those without a patch.
        resolved: of all resolved predictions.
        score: resolved predictions of the row, of the selected instances.
        success: resolved predictions of the row, of its predictions.
    """

    attempt: int
    model: str
    predictions: Share
    resolved: Share
    score: Share
    success: Share


@dataclass(frozen=True)
class Group:
    """The instances with the same model, origin, repository or year.

    Attributes:
        name: the common value.
        predictions: number in the group.
        evaluated: predictions in the group.
        plausible: predictions in the group; None if a harness does not say.
        resolved: of the group's selected instances; for models and origins, of its predictions.
    """

    name: str
    predictions: int
    evaluated: int
    plausible: int | None
    resolved: Share


def model_of(instance: InstanceData) -> str:
    return instance.model or UNKNOWN


def by(
    key: Callable[[InstanceData], Any],
    run: RunData,
    further: Iterable[Any] = (),
) -> dict[Any, RunData]:
    """Return the parts of a run by key, sorted by it; those of ``further`` keys may be empty."""
    members: dict[Any, list[InstanceData]] = {name: [] for name in further}
    for instance in run.instances:
        members.setdefault(key(instance), []).append(instance)
    return {name: run.part(members[name]) for name in sorted(members)}


def by_attempt(run: RunData) -> tuple[AttemptRow, ...]:
    """Return a row for each attempt number and model, also for those without predictions.

    This is the first table of the run of May 2024 (aider.chat/2024/05/22/swe-bench-lite.html):
    predictions, their share, resolved, their share, and the score by attempt number and agent.
    """
    attempts = [(a.attempt, a.label or UNKNOWN) for a in run.attempts]
    parts = by(lambda i: (i.attempt, model_of(i)), run, attempts)
    rows = []
    for (attempt, model), part in parts.items():
        resolved = part.resolved_count
        predictions = len(part.instances)
        row = AttemptRow(
            attempt=attempt,
            model=model,
            predictions=Share.compute(predictions, len(run.instances)),
            resolved=Share.compute(resolved, run.resolved_count),
            score=Share.compute(
                resolved, len(run.selected), evaluated=run.is_evaluated
            ),
            success=Share.compute(resolved, predictions, evaluated=part.is_evaluated),
        )
        rows.append(row)
    return tuple(rows)


def by_model(run: RunData) -> tuple[Group, ...]:
    """Return a group for each model, in turn order.

    This is the second table of the run of May 2024 (aider.chat/2024/05/22/swe-bench-lite.html):
    predictions, resolved and share resolved by agent.
    """
    return groups(run, model_of, first=run.models)


def by_origin(run: RunData) -> tuple[Group, ...]:
    """Return a group for each source run of a combined run; none for other runs."""
    if not any(instance.origin for instance in run.instances):
        return ()
    return groups(run, lambda instance: instance.origin or UNKNOWN)


def groups(
    run: RunData,
    key: Callable[[InstanceData], str],
    *,
    missing: Callable[[str], str] | None = None,
    first: Iterable[str] = (),
) -> tuple[Group, ...]:
    """Return the groups by key.

    Args:
        missing: the key of a selected instance without a prediction, by its id; if not given, it
            does not count.
        first: keys in the order in which they come before others.
    """
    numbers: Counter[str] = Counter()
    if missing:
        numbers.update(map(missing, run.not_predicted))
    parts = by(key, run, [*numbers, *first])
    rows = []
    for name in dict.fromkeys([*first, *parts]):
        part = parts[name]
        predictions = len(part.instances)
        row = Group(
            name=name,
            predictions=predictions,
            evaluated=predictions - part.outcomes[None],
            plausible=part.plausible_count,
            resolved=Share.compute(
                part.resolved_count,
                predictions + numbers[name],
                evaluated=part.is_evaluated or not predictions,
            ),
        )
        rows.append(row)
    return tuple(rows)
