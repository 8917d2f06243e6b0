"""Pure: the lists of the leaderboard's ``results.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reports.data.predictions import Prediction
from reports.evaluation.evaluators.base import Verdict, VerdictStatus


def leaderboard_lists(
    predictions: Sequence[Prediction], verdicts: Mapping[str, Verdict]
) -> dict[str, list[str]]:
    """Return ids without a patch, without an evaluation, and resolved, each sorted."""

    def ids(status: VerdictStatus) -> list[str]:
        return sorted(
            p.instance_id for p in predictions if verdicts[p.instance_id].status is status
        )

    return {
        "no_generation": sorted(
            p.instance_id for p in predictions if p.patch_known and not p.patch.strip()
        ),
        "no_logs": ids(VerdictStatus.NOT_EVALUATED),
        "resolved": ids(VerdictStatus.RESOLVED),
    }
