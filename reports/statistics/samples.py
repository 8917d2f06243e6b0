"""Pure: pass@k of a run that made all attempts on every instance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.attempts.candidates import AttemptStatus
from reports.data.rundata import AttemptData, InstanceData
from reports.statistics.methods.passk import mean_pass_at_k

_UNFINISHED = {
    AttemptStatus.NOT_RECORDED, AttemptStatus.REPLAY_EXHAUSTED, AttemptStatus.INFRA_ERROR,
    AttemptStatus.INTERRUPTED,
}  # fmt: skip

Judge = Callable[[InstanceData, AttemptData], bool | None]


@dataclass(frozen=True)
class PassAtK:
    """The chance that one of ``k`` attempts is good, the mean over instances.

    Attributes:
        plausible: where good is plausible.
        resolved: where good is resolved; None unless there is a verdict on every attempt.
    """

    k: int
    plausible: float
    resolved: float | None


def pass_at_ks(instances: Sequence[InstanceData]) -> tuple[PassAtK, ...]:
    """Return pass@k for each k up to the number of attempts.

    Nothing where the instances' numbers of attempts differ, or are 1: a run that stops at the first
    plausible candidate made no sample of attempts. Nor where the harness or a recording, and not
    the model, left an attempt unfinished.
    """
    if any(attempt.status in _UNFINISHED for i in instances for attempt in i.attempts):
        return ()
    numbers = {len(instance.attempts) for instance in instances}
    if len(numbers) != 1 or (most := numbers.pop()) < 2:
        return ()
    plausible = _counts(instances, lambda _, attempt: attempt.plausible) or []
    resolved = _counts(instances, InstanceData.resolved_by)
    return tuple(
        PassAtK(k, mean_pass_at_k(plausible, k), mean_pass_at_k(resolved, k) if resolved else None)
        for k in range(1, most + 1)
    )


def _counts(instances: Sequence[InstanceData], judge: Judge) -> list[tuple[int, int]] | None:
    """Return the number of attempts and of good ones by instance, None where one is unknown."""
    counts = []
    for instance in instances:
        good = [judge(instance, attempt) for attempt in instance.attempts]
        if None in good:
            return None
        counts.append((len(good), good.count(True)))
    return counts
