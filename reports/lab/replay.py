"""Pure: runs replayed under policies, and what follows: shares, costs, tests, the Pareto front.

What the recording cannot tell is a range: an instance without an answer counts as not resolved at
its low end and as resolved at its high end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import combinations
from math import comb
from random import Random
from statistics import fmean
from typing import Any

import numpy as np

from llm.chat import Reply
from reports.lab.policies import Chosen, Policy, Seen, Select, least_bad, most_agreed
from reports.lab.recorded import LabData, LabInstance, ModelTurn, Tried
from reports.statistics.methods import (
    SEED,
    MeanComparison,
    ShareRange,
    compare_means,
    holm,
    paired_p_value,
    pass_at_k,
)

_FEWEST_ORDERS = 20
ORACLE = "oracle"
RECORDED = "recorded"
_LOW, _HIGH, _ATTEMPTS, _CALLS, _DOLLARS, _SECONDS, _LACKS = range(7)
Walks = Any
"""An array with a row for each instance: whether it is resolved at least and at most, attempts,
calls, dollars and seconds (NaN if unknown), and whether an attempt was asked for and never made.
"""


@dataclass(frozen=True)
class ExpectedTotal:
    """A total over all instances; ``complete`` is False if it is only a lower bound."""

    value: float
    complete: bool

    @property
    def most(self) -> float:
        return self.value if self.complete else float("inf")


class Front(str, Enum):
    """Whether a policy is on the Pareto front: no other is cheaper and as good, or better."""

    YES = "yes"
    POSSIBLY = "possibly"
    NO = "no"


@dataclass(frozen=True)
class PolicyResult:
    """What a policy gives; dollars, hours, calls and attempts are totals of all instances.

    Attributes:
        unknown: instances whose outcome the recording cannot tell.
        difference: from the run's own, over the instances whose outcome under both is known.
        p_corrected: by Holm, for the number of policies; None if nothing can be compared.
    """

    name: str
    resolved: ShareRange
    unknown: int
    attempts: ExpectedTotal
    calls: ExpectedTotal
    dollars: ExpectedTotal
    hours: ExpectedTotal
    difference: MeanComparison | None = None
    p_value: float | None = None
    p_corrected: float | None = None
    front: Front = Front.NO


@dataclass(frozen=True)
class BestOfK:
    """One of ``k`` attempts in random order: chosen by a rule, or by the oracle (pass@k)."""

    k: int
    least_bad: ShareRange
    most_agreed: ShareRange
    oracle: ShareRange


@dataclass(frozen=True)
class LabReport:
    samples: int
    seed: int
    policies: tuple[PolicyResult, ...]
    best: tuple[BestOfK, ...]


def run_lab(data: LabData, policies: Sequence[Policy], samples: int) -> LabReport:
    """Replay ``data`` under policies, with ``samples`` random orders and bootstrap resamples."""
    own = np.array([_own(instance) for instance in data.instances])
    bound = np.array([_oracle(instance, data) for instance in data.instances])
    found = [_result(RECORDED, own, samples)]
    for policy in policies:
        walks = replays(data, policy, samples)
        result = _result(policy.name, walks, samples)
        found.append(_compared(result, own, walks, samples))
    fair = iter(holm([each.p_value for each in found if each.p_value is not None]))
    found = [
        each if each.p_value is None else replace(each, p_corrected=next(fair))
        for each in found
    ]
    results = [replace(each, front=_front(each, found)) for each in found]
    results.insert(1, _result(ORACLE, bound, samples))
    best = tuple(_best_of(data, k, samples) for k in range(1, len(data.turns) + 1))
    return LabReport(samples, SEED, tuple(results), best)


def replays(data: LabData, policy: Policy, samples: int) -> Walks:
    """Return the policy's walk through each instance; of random orders the mean."""
    found = []
    for instance in data.instances:
        orders, dice = [data.turns], _dice(instance)
        if policy.any_order:
            count = _orders(data, samples)
            orders = [
                tuple(dice.sample(data.turns, len(data.turns))) for _ in range(count)
            ]
        starts = (Seen(turns, (), (), data.require_tests) for turns in orders)
        walks = [_walk(policy, instance, start) for start in starts]
        found.append(np.mean(walks, axis=0))
    return _limited(np.array(found), policy, samples)


def _dice(instance: LabInstance) -> Random:
    return Random(f"{SEED} {instance.instance_id}")


def _orders(data: LabData, samples: int) -> int:
    """Return the number of orders of each instance, so that all of them make ``samples``."""
    return max(_FEWEST_ORDERS, -(-samples // len(data.instances)))


def _walk(policy: Policy, instance: LabInstance, seen: Seen) -> list[float]:
    made: list[Tried] = []
    resolved: list[bool | None] = []
    while True:
        # One candidate needs no scripts.
        paid = instance.writers if policy.scripts and len(made) > 1 else ()
        step = policy.decide(seen)
        if isinstance(step, Chosen):
            chosen = resolved[step.attempt - 1] if step.attempt else False
            return _walked(made, chosen, paid)
        tried = instance.made.get(step)
        if tried is None:
            return _walked(made, None, paid, lacks=True)
        made.append(replace(tried, attempt=tried.attempt.at(len(made) + 1)))
        resolved.append(instance.resolved[step])
        seen = replace(seen, made=(*seen.made, step), tried=tuple(made))


def _walked(
    made: Sequence[Tried],
    resolved: bool | None,
    writers: Sequence[Reply] = (),
    *,
    lacks: bool = False,
) -> list[float]:
    def summed(values: Iterable[Any]) -> float:
        return sum(
            (float("nan") if value is None else float(value) for value in values), 0.0
        )

    attempts = [tried.attempt for tried in made]
    calls = summed(one.sums.calls for one in attempts) + len(writers)
    seconds = summed(one.seconds for one in attempts)
    seconds += summed(call.seconds for call in writers)
    dollars = summed(one.cost for one in attempts)
    dollars += summed(call.cost for call in writers)
    low, high = resolved is True, resolved is not False
    return [low, high, len(made), calls, dollars, seconds, lacks]


def _limited(walks: Walks, policy: Policy, samples: int) -> Walks:
    """Apply a limit of all dollars: each instance counts by the chance that it is started."""
    if policy.total_usd is None:
        return walks
    costs, dice = np.nan_to_num(walks[:, _DOLLARS]), np.random.default_rng(SEED)
    started = np.zeros(len(walks))
    for _ in range(samples):
        order = dice.permutation(len(walks))
        before = np.cumsum(costs[order]) - costs[order]
        started[order] += before < float(policy.total_usd)
    found = walks * (started / samples)[:, None]
    if np.isnan(walks[:, _DOLLARS]).any() or walks[:, _LACKS].any():
        found[:, _LOW] = 0  # the money may end before any instance
    return found


def _own(instance: LabInstance) -> list[float]:
    made = [instance.made[turn] for turn in instance.own]
    return _walked(made, instance.own_resolved, instance.writers, lacks=not made)


def _oracle(instance: LabInstance, data: LabData) -> list[float]:
    good, unknown = _labels(instance, data)
    known = True if good else None if unknown else False
    lacks = len(instance.made) < len(data.turns)
    return _walked([*instance.made.values()], known, lacks=lacks)


def _labels(instance: LabInstance, data: LabData) -> tuple[int, int]:
    """Return the number of turns that resolve an instance, and of those without an answer."""
    found = list(instance.resolved.values())
    never = len(data.turns) - len(found)
    return found.count(True), found.count(None) + never


def _result(name: str, walks: Walks, samples: int) -> PolicyResult:
    def summed(column: int, unit: float = 1.0) -> ExpectedTotal:
        unknown = walks[:, _LACKS].any() or np.isnan(walks[:, column]).any()
        return ExpectedTotal(float(np.nansum(walks[:, column])) / unit, not unknown)

    return PolicyResult(
        name=name,
        resolved=ShareRange.of(
            walks[:, _LOW].tolist(), walks[:, _HIGH].tolist(), samples
        ),
        unknown=int((walks[:, _LOW] != walks[:, _HIGH]).sum()),
        attempts=summed(_ATTEMPTS),
        calls=summed(_CALLS),
        dollars=summed(_DOLLARS),
        hours=summed(_SECONDS, 3600.0),
    )


def _compared(
    result: PolicyResult, own: Walks, walks: Walks, samples: int
) -> PolicyResult:
    known = (own[:, _LOW] == own[:, _HIGH]) & (walks[:, _LOW] == walks[:, _HIGH])
    if not known.any():
        return result
    before, after = own[known, _LOW].tolist(), walks[known, _LOW].tolist()
    a, b = (
        {f"{n:09d}": share for n, share in enumerate(each)} for each in (before, after)
    )
    p_value = paired_p_value([*zip(before, after, strict=True)])
    return replace(
        result, difference=compare_means(a, b, resamples=samples), p_value=p_value
    )


def _front(one: PolicyResult, others: Sequence[PolicyResult]) -> Front:
    """Compare by the ranges of shares and dollars: ``POSSIBLY`` if they leave it open."""

    def beaten(usd: float, share: float, own_usd: float, own_share: float) -> bool:
        return (
            usd <= own_usd
            and share >= own_share
            and (usd, share) != (own_usd, own_share)
        )

    cost, mine = one.dollars, one.resolved
    rest = [(other.dollars, other.resolved) for other in others if other is not one]
    if any(beaten(usd.most, share.low, cost.value, mine.high) for usd, share in rest):
        return Front.NO
    sure = cost.complete and not one.unknown
    if sure and not any(
        beaten(usd.value, share.high, cost.most, mine.low) for usd, share in rest
    ):
        return Front.YES
    return Front.POSSIBLY


def _best_of(data: LabData, k: int, samples: int) -> BestOfK:
    def best(select: Select) -> ShareRange:
        ends = [
            _best_at(instance, data, k, samples, select) for instance in data.instances
        ]
        return ShareRange.of(
            [low for low, _ in ends], [high for _, high in ends], samples
        )

    labels, n = (
        [_labels(instance, data) for instance in data.instances],
        len(data.turns),
    )
    proven = [pass_at_k(n, good, k) for good, _ in labels]
    possible = [pass_at_k(n, good + unknown, k) for good, unknown in labels]
    oracle = ShareRange.of(proven, possible, samples)
    return BestOfK(k, best(least_bad), best(most_agreed), oracle)


def _best_at(
    instance: LabInstance, data: LabData, k: int, samples: int, select: Select
) -> tuple[float, float]:
    """Return the mean over sets of ``k`` turns; attempts that are equally good count in part."""
    lows, highs = [], []
    for turns in _sets(instance, data, k, samples):
        # An attempt that was never made may be chosen or not.
        labels: list[bool | None] = [None]
        if all(turn in instance.made for turn in turns):
            made = [instance.made[turn] for turn in turns]
            best = {id(one) for one in select(made, data.require_tests)}
            labels = []
            for turn in turns:
                if id(instance.made[turn]) in best:
                    labels.append(instance.resolved[turn])
            labels = labels or [False]
        lows.append(labels.count(True) / len(labels))
        highs.append((len(labels) - labels.count(False)) / len(labels))
    return fmean(lows), fmean(highs)


def _sets(
    instance: LabInstance, data: LabData, k: int, samples: int
) -> Iterator[tuple[ModelTurn, ...]]:
    most, dice = _orders(data, samples), _dice(instance)
    if comb(len(data.turns), k) <= most:
        return combinations(data.turns, k)
    return (tuple(dice.sample(data.turns, k)) for _ in range(most))
