"""Pure: runs replayed under policies, and what follows: shares, costs, tests, the Pareto front.

What the recording cannot tell is a range: an instance without an answer counts as not resolved at
its low end and as resolved at its high end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import combinations
from math import ceil, comb, inf
from random import Random
from statistics import fmean
from typing import Any

import numpy as np

from swe_retry.attempts import class_weights
from swe_retry.core.jsontypes import JsonObject
from swe_retry.llm.chat import Reply
from swe_retry.record.evidence import CandidateClass
from swe_retry.record.records import Attempt
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
from swe_retry.study.lab.policies import (
    Chosen,
    Policy,
    Seen,
    Select,
    least_bad,
    most_agreed,
    policies_of,
)
from swe_retry.study.lab.recorded import (
    LabData,
    LabInstance,
    ModelTurn,
    finished_attempts,
)

_MIN_DRAWS = 20
_FOLDS = 10
_PARTITIONS = 20
_BINS = 10
ORACLE = "oracle"
RECORDED = "recorded"
COLUMNS = ("low", "high", "attempts", "calls", "dollars", "seconds", "unmade")
"""What a walk through an instance gives, as numbers.

Whether it is resolved at least and at most, how much that took (NaN if unknown), and whether an
attempt was asked for that was never made.
"""
Walks = JsonObject
"""By column, an array with the number of each instance."""
LabRow = JsonObject
"""A policy or a ``k`` as the table, the JSON and the picture show it."""


class _ReorderedError(Exception):
    """A policy asks for attempts, which were told of earlier ones, in another order."""


def lab_report(data: LabData, names: Sequence[str]) -> LabRow:
    """Return what policies give, as JSON.

    Shares lie between 0 and 1; dollars, hours, calls and attempts are totals of all instances.
    """
    recorded = _by_column(map(_recorded_figures, data.instances))
    rows = [_policy_row(RECORDED, recorded)]
    replays = [recorded]
    left_out = []
    for policy in policies_of(data, names):
        try:
            walks = _replay(policy, data)
        except _ReorderedError:
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
    oracle = _by_column(map(_oracle_figures, data.instances))
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
    """Return the share of the policy that resolves most, chosen without the instance it counts for.

    The best of many policies is the best partly by chance: it is chosen on nine tenths of the
    instances, and its share counted on the last, for each tenth of random partitions. M. Stone,
    "Cross-validatory choice and assessment of statistical predictions", Journal of the Royal
    Statistical Society B 36 (1974), 111-147.
    """
    lows = np.array(values_of(replays, "low"))
    highs = np.array(values_of(replays, "high"))
    instances = lows.shape[1]
    if instances < 2:
        return None
    dice = np.random.default_rng(SEED)
    low = 0.0
    high = 0.0
    for _ in range(_PARTITIONS):
        order = dice.permutation(instances)
        folds = np.array_split(order, min(_FOLDS, instances))
        for fold in folds:
            others = np.delete(lows, fold, axis=1).mean(axis=1)
            equals = np.flatnonzero(np.isclose(others, others.max()))
            best = dice.choice(equals)
            low += lows[best, fold].sum()
            high += highs[best, fold].sum()
    count = instances * _PARTITIONS
    return {"low": low / count, "high": high / count}


def _by_column(figures: Iterable[Sequence[float]]) -> Walks:
    columns = np.array(list(figures), dtype=float).T
    return dict(zip(COLUMNS, columns, strict=True))


def _recorded_figures(instance: LabInstance) -> list[float]:
    attempts = finished_attempts(instance.recorded)
    return _figures(
        attempts,
        instance.recorded.resolved,
        instance.recorded.script_calls,
        unmade=not attempts,
    )


def _oracle_figures(instance: LabInstance) -> list[float]:
    outcomes = instance.outcomes.values()
    outcome: bool | None = False
    if None in outcomes:
        outcome = None
    if True in outcomes:
        outcome = True
    attempts = [tried.attempt for tried in instance.tried.values()]
    return _figures(attempts, outcome, unmade=len(attempts) < len(outcomes))


def _figures(
    attempts: Sequence[Attempt],
    outcome: bool | None,
    writers: Sequence[Reply] = (),
    *,
    unmade: bool,
) -> list[float]:
    """Return the figures of an instance in the order of ``COLUMNS``."""
    spent = []
    for attempt in attempts:
        spent.append((1, attempt.sums.calls, attempt.cost, attempt.seconds))
    spent_on_scripts = [(0, 1, call.cost, call.seconds) for call in writers]
    totals = _sums(spent) + _sums(spent_on_scripts)
    return [outcome is True, outcome is not False, *totals, unmade]


def _sums(rows: Sequence[Sequence[object]]) -> Any:  # noqa: ANN401 - an array
    """Return the sums of the columns; NaN where a value is unknown."""
    return np.array(rows, dtype=float).reshape(-1, 4).sum(axis=0)


def _replay(policy: Policy, data: LabData) -> Walks:
    """Return what a policy gives on each instance; of random orders the mean."""
    means = []
    for instance in data.instances:
        orders: Iterable[tuple[ModelTurn, ...]] = [data.turns]
        if policy.any_order:
            orders = _draw_turns(len(data.turns), instance, data)
        figures = []
        for turns in orders:
            seen = Seen(
                turns=turns,
                left=turns,
                made=(),
                tried=(),
                require_tests=data.require_tests,
                fit=instance.recorded.fit,
            )
            figures.append(_walk(policy, instance, seen, data))
        means.append(np.mean(figures, axis=0))
    walks = _by_column(means)
    if policy.total_usd is not None:
        _limit_dollars(walks, float(policy.total_usd), data.samples)
    return walks


def _walk(
    policy: Policy,
    instance: LabInstance,
    seen: Seen,
    data: LabData,
) -> list[float]:
    """Follow a policy until it chooses an attempt, or asks for one that was never made."""
    outcomes: list[bool | None] = [False]
    numbers: dict[int, int] = {}
    step = policy.decide(seen)
    while isinstance(step, ModelTurn):
        if data.is_told and step != data.turns[len(seen.made)]:
            raise _ReorderedError
        if step not in instance.tried:
            break
        number = len(outcomes)
        outcomes.append(instance.outcomes[step])
        tried = instance.tried[step]
        numbers[tried.attempt.attempt] = number
        tried = replace(tried, attempt=tried.attempt.at(number))
        left = list(seen.left)
        left.remove(step)
        seen = replace(
            seen,
            left=tuple(left),
            made=(*seen.made, step),
            tried=(*seen.tried, tried),
            evidence=instance.evidence.among(numbers),
        )
        step = policy.decide(seen)
    attempts = [tried.attempt for tried in seen.tried]
    writers: Sequence[Reply] = ()
    # A single candidate needs no scripts.
    if policy.scripts and len(attempts) > 1:
        writers = instance.recorded.script_calls
    is_unmade = isinstance(step, ModelTurn)
    if is_unmade and policy.settle:
        step = policy.settle(seen)
    outcome = None
    if isinstance(step, Chosen):
        outcome = outcomes[step.attempt]
    return _figures(attempts, outcome, writers, unmade=is_unmade)


def _draw_turns(
    k: int,
    instance: LabInstance,
    data: LabData,
) -> Iterator[tuple[ModelTurn, ...]]:
    """Yield random selections of ``k`` turns; those of all instances make the samples."""
    dice = Random(f"{SEED} {instance.recorded.instance_id}")
    for _ in range(_count_draws(data)):
        yield tuple(dice.sample(data.turns, k))


def _count_draws(data: LabData) -> int:
    return max(_MIN_DRAWS, ceil(data.samples / len(data.instances)))


def _limit_dollars(walks: Walks, usd: float, samples: int) -> None:
    """Apply a limit of all dollars: each instance counts by the chance that it is started."""
    dollars = np.nan_to_num(walks["dollars"])
    unknown = np.isnan(walks["dollars"]).any() or walks["unmade"].any()
    dice = np.random.default_rng(SEED)
    started = np.zeros(len(dollars))
    for _ in range(samples):
        order = dice.permutation(len(dollars))
        spent_before = np.cumsum(dollars[order]) - dollars[order]
        started[order] += spent_before < usd
    for name in COLUMNS:
        walks[name] = walks[name] * (started / samples)
    if unknown:
        walks["low"][:] = 0  # the money may end before any instance


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
    if comb(len(data.turns), k) > _count_draws(data):
        sets = _draw_turns(k, instance, data)
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
