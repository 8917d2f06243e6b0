"""Pure: a run by attempt and model, by model, by origin, by repository and by year."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from reports.data.rundata import InstanceData, RunData, evaluated, repository_of
from reports.statistics.methods import Share

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


def resolved_among(instances: Iterable[InstanceData]) -> int:
    return sum(instance.resolved is True for instance in instances)


def plausible_among(instances: Sequence[InstanceData]) -> int | None:
    said = [instance.plausible for instance in instances]
    return None if None in said else said.count(True)


def by_attempt(run: RunData) -> tuple[AttemptRow, ...]:
    """Return a row for each attempt number and model, also for those without predictions.

    This is the first table of the run of May 2024 (aider.chat/2024/05/22/swe-bench-lite.html):
    predictions, their share, resolved, their share, and the score by attempt number and agent.
    """
    members: dict[tuple[int, str], list[InstanceData]] = {}
    for i in run.instances:
        members.setdefault((i.attempt, i.model or UNKNOWN), []).append(i)
        for a in i.attempts:
            members.setdefault((a.attempt, a.label or UNKNOWN), [])
    good, rows = resolved_among(run.instances), []
    for attempt, model in sorted(members):
        own = members[attempt, model]
        resolved = resolved_among(own)
        rows.append(
            AttemptRow(
                attempt=attempt,
                model=model,
                predictions=Share.made(len(own), len(run.instances)),
                resolved=Share.made(resolved, good),
                score=Share.made(resolved, len(run.selected), known=run.evaluated),
                success=Share.made(resolved, len(own), known=evaluated(own)),
            )
        )
    return tuple(rows)


def by_model(run: RunData) -> tuple[Group, ...]:
    """Return a group for each model, in turn order.

    This is the second table of the run of May 2024 (aider.chat/2024/05/22/swe-bench-lite.html):
    predictions, resolved and share resolved by agent.
    """
    groups = {
        group.name: group for group in _grouped(run, lambda i: i.model or UNKNOWN)
    }
    order = dict.fromkeys([*run.models, *groups])
    empty = Share.made(0, 0)
    return tuple(groups.get(name, Group(name, 0, 0, 0, empty)) for name in order)


def by_origin(run: RunData) -> tuple[Group, ...]:
    """Return a group for each source run of a combined run; none for other runs."""
    if not any(instance.origin for instance in run.instances):
        return ()
    return _grouped(run, lambda instance: instance.origin or UNKNOWN)


def by_repository(run: RunData) -> tuple[Group, ...]:
    """Return a group for each repository, over all selected instances."""
    missing = Counter(repository_of(name) for name in _not_predicted(run))
    return _grouped(run, lambda instance: instance.repo, missing)


def by_year(run: RunData) -> tuple[Group, ...]:
    """Return a group for each year, over all selected instances.

    The year of instances without a prediction is unknown.
    """
    missing = Counter({UNKNOWN: len(_not_predicted(run))})
    return _grouped(run, lambda instance: str(instance.year or UNKNOWN), missing)


def _not_predicted(run: RunData) -> set[str]:
    return {*run.selected} - {instance.instance_id for instance in run.instances}


def _grouped(
    run: RunData,
    name: Callable[[InstanceData], str],
    missing: Counter[str] | None = None,
) -> tuple[Group, ...]:
    members: dict[str, list[InstanceData]] = {}
    for instance in run.instances:
        members.setdefault(name(instance), []).append(instance)
    missing = +(missing or Counter())
    groups = []
    for key in sorted({*members, *missing}):
        own = members.get(key, [])
        known, whole = evaluated(own) or not own, len(own) + missing[key]
        share = Share.made(resolved_among(own), whole, known=known)
        judged = sum(i.resolved is not None for i in own)
        groups.append(Group(key, len(own), judged, plausible_among(own), share))
    return tuple(groups)
