"""Pure: how well plausibility predicts the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reports.data.rundata import InstanceData


@dataclass(frozen=True)
class Confusion:
    """Plausible against resolved, over the evaluated instances.

    Attributes:
        precision: share of plausible instances that are resolved; None without plausible ones.
        recall: share of resolved instances that are plausible; None without resolved ones.
    """

    plausible_resolved: int
    plausible_unresolved: int
    implausible_resolved: int
    implausible_unresolved: int
    precision: float | None
    recall: float | None


def confusion(instances: Iterable[InstanceData]) -> Confusion:
    """Return the confusion table of plausibility (the prediction) and the verdict (the truth).

    C. J. van Rijsbergen, "Information Retrieval" (1979), chapter 7, for precision and recall.
    """
    pairs = [(i.plausible, i.resolved) for i in instances if i.resolved is not None]
    hit, miss = pairs.count((True, True)), pairs.count((True, False))
    lost, rest = pairs.count((False, True)), pairs.count((False, False))
    return Confusion(
        plausible_resolved=hit,
        plausible_unresolved=miss,
        implausible_resolved=lost,
        implausible_unresolved=rest,
        precision=hit / (hit + miss) if hit + miss else None,
        recall=hit / (hit + lost) if hit + lost else None,
    )
