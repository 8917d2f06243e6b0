"""Pure: pass@k of a run that made the same number of attempts on every instance."""

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

IsGood = Callable[[InstanceData, AttemptData], bool | None]


@dataclass(frozen=True)
class PassAtK:
    """The probability that at least one of ``k`` attempts is good, averaged over instances.

    Attributes:
        plausible: for plausible attempts; None if a harness does not say which are.
        resolved: for resolved attempts; None unless every attempt has a verdict.
    """

    k: int
    plausible: float | None
    resolved: float | None


def pass_at_ks(instances: Sequence[InstanceData]) -> tuple[PassAtK, ...]:
    """Return pass@k for each k up to the number of attempts.

    The result is empty if instances have different numbers of attempts, or one each, because a run
    that stops at the first plausible candidate does not sample attempts. It is also empty if the
    harness or a recording, not the model, left an attempt unfinished.
    """
    if any(attempt.status in _UNFINISHED for i in instances for attempt in i.attempts):
        return ()
    numbers = {len(instance.attempts) for instance in instances}
    if len(numbers) != 1 or (most := numbers.pop()) < 2:
        return ()
    plausible = _counts(instances, lambda _, a: a.plausible if a.outcomes_known else None)
    resolved = _counts(instances, InstanceData.resolved_by)
    return tuple(
        PassAtK(k, *(mean_pass_at_k(good, k) if good else None for good in (plausible, resolved)))
        for k in range(1, most + 1)
    )


def _counts(instances: Sequence[InstanceData], is_good: IsGood) -> list[tuple[int, int]] | None:
    """Return the numbers of attempts and of good ones by instance; None if one is unknown."""
    counts = []
    for instance in instances:
        good = [is_good(instance, attempt) for attempt in instance.attempts]
        if None in good:
            return None
        counts.append((len(good), good.count(True)))
    return counts
