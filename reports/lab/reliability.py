"""Pure: how often classes of equal candidates are right, beside the weights that they had."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean

from bench.attempts import class_weights
from core.jsontypes import JsonObject
from reports.data.rundata import InstanceData
from reports.lab.recorded import LabData
from reports.statistics.methods import wilson
from runs.evidence import CandidateClass

_BINS = 10


def reliability(data: LabData) -> JsonObject | None:
    """Return the bins of the weights, and Brier's score; None without weights or verdicts.

    Weights are those with which the run chose. A class has the verdicts of its attempts. G. W.
    Brier, "Verification of forecasts expressed in terms of probability", Monthly Weather Review 78
    (1950), 1-3: the mean of the squared difference; 0.25 is that of a weight of 1/2 for all.
    """
    pairs = []
    for instance in data.instances:
        recorded = instance.recorded
        weights = class_weights(recorded)
        if weights is None or recorded.evidence is None:
            continue
        classes = recorded.evidence.classes
        for equal, weight in zip(classes, weights.classes, strict=True):
            is_right = _is_right(equal, recorded)
            if is_right is not None:
                pairs.append((min(weight, 1.0), is_right))
    if not pairs:
        return None
    members = defaultdict(list)
    for weight, is_right in pairs:
        members[min(int(weight * _BINS), _BINS - 1)].append((weight, is_right))
    bins = []
    for number in sorted(members):
        count = len(members[number])
        right = sum(is_right for _, is_right in members[number])
        interval = wilson(right, count, correction=0.5)
        row = {
            "weight": fmean(weight for weight, _ in members[number]),
            "classes": count,
            "right": right / count,
            "interval": {"low": interval.low, "high": interval.high},
        }
        bins.append(row)
    return {
        "classes": len(pairs),
        "brier": fmean((weight - is_right) ** 2 for weight, is_right in pairs),
        "bins": bins,
    }


def _is_right(equal: CandidateClass, recorded: InstanceData) -> bool | None:
    for attempt in recorded.attempts:
        if attempt.attempt in equal.attempts:
            resolved = recorded.resolved_by(attempt)
            if resolved is not None:
                return resolved
    return None
