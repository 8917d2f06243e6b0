"""Pure: counts and the leaderboard's lists, from predictions and verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reports.evaluators.base import Verdict, VerdictStatus
from reports.predictions import Prediction


@dataclass(frozen=True)
class Results:
    """The counts of a run.

    Attributes:
        selected: instances that the run was asked for: the denominator of the score.
        official: every verdict was given by swebench itself.
        cost: dollars, None when a price is unknown.
    """

    selected: int
    generated: int
    no_generation: int
    resolved: int
    unresolved: int
    not_evaluated: int
    plausible: int
    official: bool
    cost: float | None

    @property
    def percentage(self) -> float:
        """Resolved instances per hundred selected ones."""
        return 100 * self.resolved / self.selected if self.selected else 0.0

    def lines(self) -> list[str]:
        """Return the counts in words."""
        note = "" if self.official else " (UNOFFICIAL: not evaluated by swebench in its images)"
        cost = "unknown" if self.cost is None else f"${self.cost:.2f}"
        return [
            f"selected       {self.selected:5d}",
            f"generated      {self.generated:5d}",
            f"no generation  {self.no_generation:5d}",
            f"plausible      {self.plausible:5d}",
            f"resolved       {self.resolved:5d}  {self.percentage:.1f} % of the selected{note}",
            f"unresolved     {self.unresolved:5d}",
            f"not evaluated  {self.not_evaluated:5d}",
            f"cost           {cost}",
        ]


def count(
    predictions: Sequence[Prediction], verdicts: Mapping[str, Verdict], selected: Iterable[str]
) -> Results:
    """Count a run; instances selected but not predicted count in the denominator alone."""
    statuses = [verdicts[p.instance_id].status for p in predictions]
    judged = (VerdictStatus.RESOLVED, VerdictStatus.UNRESOLVED)
    given = [v for v in verdicts.values() if v.status in judged]
    costs = [p.cost for p in predictions]
    known = [cost for cost in costs if cost is not None]
    return Results(
        selected=len({*selected, *(p.instance_id for p in predictions)}),
        generated=sum(bool(p.patch.strip()) for p in predictions),
        no_generation=sum(not p.patch.strip() for p in predictions),
        resolved=statuses.count(VerdictStatus.RESOLVED),
        unresolved=statuses.count(VerdictStatus.UNRESOLVED),
        not_evaluated=statuses.count(VerdictStatus.NOT_EVALUATED),
        plausible=sum(p.plausible for p in predictions),
        official=bool(given) and all(v.official for v in given),
        cost=math.fsum(known) if len(known) == len(costs) else None,
    )


def leaderboard_lists(
    predictions: Sequence[Prediction], verdicts: Mapping[str, Verdict]
) -> dict[str, list[str]]:
    """Return the three lists of the leaderboard's ``results.json``, sorted."""

    def ids(status: VerdictStatus) -> list[str]:
        return sorted(
            p.instance_id for p in predictions if verdicts[p.instance_id].status is status
        )

    return {
        "no_generation": sorted(p.instance_id for p in predictions if not p.patch.strip()),
        "no_logs": ids(VerdictStatus.NOT_EVALUATED),
        "resolved": ids(VerdictStatus.RESOLVED),
    }
