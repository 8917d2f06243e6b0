"""Pure: what policies give on recorded runs: shares, costs, tests, the Pareto front."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import combinations
from math import comb, inf
from statistics import fmean

import numpy as np

from swe_retry.attempts.evidence.choice import class_weights
from swe_retry.core.jsontypes import JsonObject
from swe_retry.record.evidence import CandidateClass
from swe_retry.report.statistics.methods import (
    SEED,
    ShareRange,
    holm,
    paired_interval,
    paired_p_value,
    pass_at_k,
    wilson,
)
from swe_retry.results.jsonvalues import values_of
from swe_retry.results.rundata import InstanceData
from swe_retry.study.lab.policies import Select, least_bad, most_agreed, policies_of
from swe_retry.study.lab.recorded import LabData, LabInstance, ModelTurn
from swe_retry.study.lab.replay import (
    ReorderedError,
    Walks,
    count_draws,
    draw_turns,
    oracle_walks,
    recorded_walks,
    replay_policy,
)

_FOLDS = 10
_PARTITIONS = 20
_BINS = 10
ORACLE = "oracle"
RECORDED = "recorded"


LabRow = JsonObject
"""A policy or a ``k`` as the table, the JSON and the picture show it."""


def lab_report(data: LabData, names: Sequence[str]) -> LabRow:
    """Return what policies give, as JSON.

    Shares lie between 0 and 1; dollars, hours, calls and attempts are totals of all instances.
    """
    recorded = recorded_walks(data)
    rows = [_policy_row(RECORDED, recorded)]
    replays = [recorded]
    left_out = []
    for policy in policies_of(data, names):
        try:
            walks = replay_policy(policy, data)
        except ReorderedError:
            left_out.append(policy.name)
            continue
        replays.append(walks)
        row = _policy_row(policy.name, walks)
        row |= _difference(recorded, walks)
        rows.append(row)
    p_values = {}
    for row in rows:
        row["front"] = _front(row, rows)
        if row["p_value"] is not None:
            p_values[row["name"]] = row["p_value"]
    corrected_values = holm(list(p_values.values()))
    corrected = dict(zip(p_values, corrected_values, strict=True))
    for row in rows:
        row["p_corrected"] = corrected.get(row["name"])
    oracle = oracle_walks(data)
    rows.insert(1, _policy_row(ORACLE, oracle))
    turns = []
    best = []
    for k, turn in enumerate(data.turns, 1):
        turns.append({"model": turn.model, "try": turn.try_})
        if not data.is_told:
            best.append(_best_row(k, data))
    return {
        "runs": data.name,
        "instances": len(data.instances),
        "attempts": len(data.attempts),
        "turns": turns,
        "samples": data.samples,
        "seed": SEED,
        "left_out": left_out,
        "policies": rows,
        "cross_validated": _cross_validate(replays),
        "best": best,
        "weights": reliability(data),
    }


def _cross_validate(replays: Sequence[Walks]) -> LabRow | None:
    """Return what the policy gives that resolves most, chosen without the instance it counts for.

    The best of many policies is the best partly by chance: it is chosen on nine tenths of the
    instances, of equally good ones the cheapest, and its share and dollars are counted on the last,
    for each tenth of random partitions. M. Stone, "Cross-validatory choice and assessment of
    statistical predictions", Journal of the Royal Statistical Society B 36 (1974), 111-147.
    """
    lows = np.array(values_of(replays, "low"))
    highs = np.array(values_of(replays, "high"))
    dollars = np.array(values_of(replays, "dollars"))
    instances = lows.shape[1]
    if instances < 2:
        return None
    dice = np.random.default_rng(SEED)
    low = 0.0
    high = 0.0
    spent = 0.0
    for _ in range(_PARTITIONS):
        order = dice.permutation(instances)
        folds = np.array_split(order, min(_FOLDS, instances))
        for fold in folds:
            others = np.delete(lows, fold, axis=1).mean(axis=1)
            costs = np.delete(dollars, fold, axis=1).mean(axis=1)
            costs[np.isnan(costs)] = np.finfo(float).max
            costs[~np.isclose(others, others.max())] = inf
            equals = np.flatnonzero(costs == costs.min())
            best = dice.choice(equals)
            low += lows[best, fold].sum()
            high += highs[best, fold].sum()
            spent += dollars[best, fold].sum()
    count = instances * _PARTITIONS
    cost = None if np.isnan(spent) else spent / _PARTITIONS
    return {"low": low / count, "high": high / count, "dollars": cost}


def cheapest_policy(report: LabRow) -> LabRow:
    """Return the row of the policy that resolves most, of equally good ones the cheapest."""
    rows = [row for row in report["policies"] if row["name"] != ORACLE]

    def order(row: LabRow) -> DollarsAndShare:
        dollars, share = _at_worst(row)
        return -share, dollars

    return min(rows, key=order)


def _policy_row(name: str, walks: Walks) -> LabRow:
    return {
        "name": name,
        "resolved": _share(zip(walks["low"], walks["high"], strict=True)),
        "unknown": int((walks["low"] != walks["high"]).sum()),
        "attempts": _total("attempts", walks),
        "calls": _total("calls", walks),
        "dollars": _total("dollars", walks),
        "hours": _total("seconds", walks, unit=3600.0),
        "difference": None,
        "p_value": None,
        "p_corrected": None,
        "front": "no",
    }


def _share(ranges: Iterable[tuple[float, float]]) -> LabRow:
    """Return the mean of shares, each of which is known to lie in a range."""
    lows, highs = zip(*ranges, strict=True)
    return asdict(ShareRange.of(lows, highs))


def _total(column: str, walks: Walks, unit: float = 1.0) -> LabRow:
    """Return the total of a column, which may be only a lower bound."""
    values = walks[column]
    unknown = walks["unmade"].any() or np.isnan(values).any()
    total = float(np.nansum(values))
    return {
        "value": total / unit,
        "complete": not unknown,
    }


def _difference(recorded: Walks, walks: Walks) -> LabRow:
    """Return the difference from the run's own, and a p-value where all of both is known.

    Which outcomes are unknown depends on the run's own choices, so a test of the known ones would
    mislead; then there are only bounds.
    """
    low = walks["low"] - recorded["high"]
    high = walks["high"] - recorded["low"]
    bounds: LabRow = {
        "low": float(low.mean()),
        "high": float(high.mean()),
        "interval": None,
    }
    if (low != high).any():
        return {"difference": bounds, "p_value": None}
    before = recorded["low"].tolist()
    after = walks["low"].tolist()
    pairs = list(zip(before, after, strict=True))
    p_value = paired_p_value(pairs)
    interval = paired_interval(pairs, p_value)
    if interval:
        bounds["interval"] = asdict(interval)
    return {"difference": bounds, "p_value": p_value}


def _front(row: LabRow, rows: Sequence[LabRow]) -> str:
    """Return whether a policy is on the Pareto front; ``possibly`` if ranges leave it open.

    It is if no other is cheaper and as good, or better at the same price.
    """
    front = "yes"
    for other in rows:
        if _beats(_at_worst(other), _at_best(row)):
            return "no"
        # A policy may also beat itself, if not all is known of it.
        if _beats(_at_best(other), _at_worst(row)):
            front = "possibly"
    return front


DollarsAndShare = tuple[float, float]
"""Dollars and a share."""


def _at_best(row: LabRow) -> DollarsAndShare:
    return row["dollars"]["value"], row["resolved"]["high"]


def _at_worst(row: LabRow) -> DollarsAndShare:
    dollars = row["dollars"]["value"]
    if not row["dollars"]["complete"]:
        dollars = inf
    return dollars, row["resolved"]["low"]


def _beats(score: DollarsAndShare, other: DollarsAndShare) -> bool:
    if score == other:
        return False
    return score[0] <= other[0] and score[1] >= other[1]


def _best_row(k: int, data: LabData) -> LabRow:
    """Return what one of ``k`` attempts in random order gives, by the rule that chooses it."""
    ranges = defaultdict(list)
    for instance in data.instances:
        ranges["least_bad"].append(_chance(k, instance, data, least_bad))
        ranges["most_agreed"].append(_chance(k, instance, data, most_agreed))
        outcomes = list(instance.outcomes.values())
        count = len(outcomes)
        low = pass_at_k(count, outcomes.count(True), k)
        high = pass_at_k(count, count - outcomes.count(False), k)
        ranges[ORACLE].append((low, high))
    row: LabRow = {"k": k}
    for name, chances in ranges.items():
        row[name] = _share(chances)
    return row


def _chance(
    k: int,
    instance: LabInstance,
    data: LabData,
    select: Select,
) -> tuple[float, float]:
    """Return the mean over sets of ``k`` turns; attempts that are equally good count in part."""
    sets: Iterable[tuple[ModelTurn, ...]] = combinations(data.turns, k)
    if comb(len(data.turns), k) > count_draws(data):
        sets = draw_turns(k, instance, data)
    lows = []
    highs = []
    for turns in sets:
        # An attempt that was never made may be chosen or not.
        outcomes: list[bool | None] = [None]
        if instance.tried.keys() >= set(turns):
            tried = [instance.tried[turn] for turn in turns]
            outcomes = []
            for candidate in select(tried, data.require_tests):
                turn = data.turns[candidate.attempt.attempt - 1]
                outcomes.append(instance.outcomes[turn])
        if not outcomes:
            outcomes = [False]
        count = len(outcomes)
        lows.append(outcomes.count(True) / count)
        highs.append((count - outcomes.count(False)) / count)
    return fmean(lows), fmean(highs)


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
