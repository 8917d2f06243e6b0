"""Pure: runs replayed under policies, and what follows: shares, costs, tests, the Pareto front.

What the recording cannot tell is a range: an instance without an answer counts as not resolved at
its low end and as resolved at its high end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import combinations
from math import comb
from random import Random
from statistics import fmean

from core.errors import UserError
from reports.lab.policies import Chosen, Policy, Seen, Select, least_bad, most_agreed
from reports.lab.recorded import LabData, LabInstance, MadeAttempt, Turn
from reports.statistics.methods import (
    SEED,
    Interval,
    PairedTable,
    bootstrap_mean,
    holm,
    mcnemar_exact,
    pass_at_k,
    sign_flip_test,
)

_FEWEST_ORDERS = 20
ORACLE = "oracle"
RECORDED = "recorded"


@dataclass(frozen=True)
class Expected:
    """A total over all instances; ``complete`` is False if it is only a lower bound."""

    value: float
    complete: bool


@dataclass(frozen=True)
class ShareRange:
    """A share of the instances: what is proven, what is possible, and the 95 % interval of both."""

    low: float
    high: float
    interval: Interval

    @classmethod
    def of(cls, low: Sequence[float], high: Sequence[float], samples: int) -> ShareRange:
        lowest = bootstrap_mean(low, resamples=samples) or Interval(0, 1)
        highest = lowest if low == high else bootstrap_mean(high, resamples=samples) or lowest
        return cls(fmean(low), fmean(high), Interval(lowest.low, highest.high))


class Front(str, Enum):
    """Whether a policy is on the Pareto front: no other is cheaper and as good, or better."""

    YES = "yes"
    POSSIBLY = "possibly"
    NO = "no"


@dataclass(frozen=True)
class PolicyDifference:
    """A policy against the run's own, on the instances whose outcome under both is known.

    Attributes:
        share: of the policy less that of the run; None without such instances.
        p_corrected: by Holm, for the number of policies compared.
    """

    instances: int
    share: float | None
    interval: Interval | None
    p_value: float | None
    p_corrected: float | None = None

    @property
    def significant(self) -> bool:
        return self.p_corrected is not None and self.p_corrected < 0.05


@dataclass(frozen=True)
class PolicyResult:
    """What a policy gives; dollars, hours, calls and attempts are totals of all instances."""

    name: str
    words: str
    resolved: ShareRange
    unknown: int  # instances whose outcome the recording cannot tell
    attempts: Expected
    calls: Expected
    dollars: Expected
    hours: Expected
    difference: PolicyDifference | None = None  # None for the run's own and for the oracle
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
    name: str
    instances: int
    turns: tuple[Turn, ...]
    attempts: int
    without_verdict: int
    samples: int
    seed: int
    policies: tuple[PolicyResult, ...]
    best: tuple[BestOfK, ...]


@dataclass(frozen=True)
class Walk:
    """A policy's way through one instance, or the mean of several ways.

    Attributes:
        low, high: whether it resolves the instance; they differ if that is not known.
        whole: the policy asked only for attempts that were made.
    """

    low: float
    high: float
    attempts: float
    calls: float | None
    dollars: float | None
    seconds: float | None
    whole: bool = True


def run_lab(data: LabData, policies: Sequence[Policy], samples: int) -> LabReport:
    """Replay ``data`` under policies, with ``samples`` random orders and bootstrap resamples."""
    own = [_own(instance) for instance in data.instances]
    walks = {RECORDED: own, ORACLE: [_oracle(instance, data) for instance in data.instances]}
    walks |= {policy.name: replays(data, policy, samples) for policy in policies}
    words = {RECORDED: "the run's own attempts and choice", ORACLE: "pass@k: an upper bound"}
    words |= {policy.name: policy.words for policy in policies}
    found = [_result(name, words[name], walks[name], samples) for name in walks]
    compared = [_compared(own, walks[policy.name], samples) for policy in policies]
    tested = [each for each in compared if each.p_value is not None]
    fair = dict(zip(map(id, tested), holm([each.p_value or 0 for each in tested]), strict=True))
    pairs = zip(policies, compared, strict=True)
    differences = {p.name: replace(each, p_corrected=fair.get(id(each))) for p, each in pairs}
    real = [each for each in found if each.name != ORACLE]
    results = tuple(
        replace(
            each,
            difference=differences.get(each.name),
            front=_front(each, real) if each.name != ORACLE else Front.NO,
        )
        for each in found
    )
    return LabReport(
        name=data.name,
        instances=len(data.instances),
        turns=data.turns,
        attempts=data.attempts,
        without_verdict=data.without_verdict,
        samples=samples,
        seed=SEED,
        policies=results,
        best=tuple(_best_of(data, k, samples) for k in range(1, len(data.turns) + 1)),
    )


def replays(data: LabData, policy: Policy, samples: int) -> list[Walk]:
    """Return the policy's walk through each instance."""
    found = []
    for instance in data.instances:
        history = data.history.plus(instance.past, -1)
        start = Seen(data.turns, (), (), instance.valid_scripts, history, data.require_tests)
        orders = [data.turns]
        if policy.any_order:
            dice, count = _dice(instance), _orders(data, samples)
            orders = [tuple(dice.sample(data.turns, len(data.turns))) for _ in range(count)]
        walks = [_walk(policy, instance, replace(start, turns=turns)) for turns in orders]
        found.append(_mean(walks))
    return _limited(found, policy, samples)


def _dice(instance: LabInstance) -> Random:
    return Random(f"{SEED} {instance.instance_id}")


def _orders(data: LabData, samples: int) -> int:
    """Return the number of orders of each instance, so that all of them make ``samples``."""
    return max(_FEWEST_ORDERS, -(-samples // len(data.instances)))


def _walk(policy: Policy, instance: LabInstance, seen: Seen) -> Walk:
    made: list[MadeAttempt] = []
    while True:
        step = policy.decide(seen)
        if isinstance(step, Chosen):
            known = instance.resolved[seen.made[step.attempt - 1]] if step.attempt else False
            return _walked(made, known)
        if step in seen.made:
            raise UserError(f"--policy {policy.name} asks twice for {step}; end with Chosen")
        attempt = instance.made.get(step)
        if attempt is None:
            return _walked(made, None, whole=False)
        made.append(attempt)
        candidate = replace(attempt.tried.candidate, attempt=len(made))
        tried = (*seen.tried, replace(attempt.tried, candidate=candidate))
        seen = replace(seen, made=(*seen.made, step), tried=tried)


def _walked(made: Sequence[MadeAttempt], known: bool | None, *, whole: bool = True) -> Walk:
    costs = [one.tried.cost for one in made]
    return Walk(
        low=float(known is True),
        high=float(known is not False),
        attempts=len(made),
        calls=_sum([one.calls for one in made]),
        dollars=_sum([None if cost is None else float(cost) for cost in costs]),
        seconds=_sum([one.seconds for one in made]),
        whole=whole,
    )


def _sum(values: Sequence[float | None]) -> float | None:
    return None if None in values else sum(value or 0.0 for value in values)


def _mean(walks: Sequence[Walk]) -> Walk:
    if len(walks) == 1:
        return walks[0]
    sums = ([w.calls for w in walks], [w.dollars for w in walks], [w.seconds for w in walks])
    calls, dollars, seconds = (None if (s := _sum(each)) is None else s / len(walks)
                               for each in sums)  # fmt: skip
    return Walk(
        fmean(w.low for w in walks),
        fmean(w.high for w in walks),
        fmean(w.attempts for w in walks),
        calls,
        dollars,
        seconds,
        all(w.whole for w in walks),
    )


def _limited(walks: list[Walk], policy: Policy, samples: int) -> list[Walk]:
    """Apply a limit of all dollars: each instance counts by the chance that it is started."""
    if policy.total_usd is None:
        return walks
    import numpy as np

    costs = np.array([walk.dollars or 0.0 for walk in walks])
    dice, started = np.random.default_rng(SEED), np.zeros(len(walks))
    for _ in range(samples):
        order = dice.permutation(len(walks))
        before = np.cumsum(costs[order]) - costs[order]
        started[order] += before < float(policy.total_usd)
    # Where costs are unknown, so is the instance at which the money ends.
    sure = all(walk.whole and walk.dollars is not None for walk in walks)

    def share(value: float | None, chance: float) -> float | None:
        return None if value is None else value * chance

    return [
        Walk(
            low=walk.low * chance if sure else 0.0,
            high=walk.high * chance,
            attempts=walk.attempts * chance,
            calls=share(walk.calls, chance),
            dollars=share(walk.dollars, chance),
            seconds=share(walk.seconds, chance),
            whole=walk.whole,
        )
        for walk, chance in zip(walks, map(float, started / samples), strict=True)
    ]


def _own(instance: LabInstance) -> Walk:
    made = [instance.made[turn] for turn in instance.own]
    return _walked(made, instance.own_resolved, whole=bool(made))


def _oracle(instance: LabInstance, data: LabData) -> Walk:
    made = [instance.made[turn] for turn in data.turns if turn in instance.made]
    good, unknown = _labels(instance, data)
    known = True if good else None if unknown else False
    return _walked(made, known, whole=len(made) == len(data.turns))


def _labels(instance: LabInstance, data: LabData) -> tuple[int, int]:
    """Return the number of turns that resolve an instance, and of those without an answer."""
    found = [instance.resolved.get(turn) for turn in data.turns]
    return found.count(True), found.count(None)


def _result(name: str, words: str, walks: Sequence[Walk], samples: int) -> PolicyResult:
    whole = all(walk.whole for walk in walks)

    def summed(values: Sequence[float | None], unit: float = 1.0) -> Expected:
        return Expected(sum(v or 0.0 for v in values) / unit, whole and None not in values)

    return PolicyResult(
        name=name,
        words=words,
        resolved=ShareRange.of([w.low for w in walks], [w.high for w in walks], samples),
        unknown=sum(walk.low != walk.high for walk in walks),
        attempts=summed([walk.attempts for walk in walks]),
        calls=summed([walk.calls for walk in walks]),
        dollars=summed([walk.dollars for walk in walks]),
        hours=summed([walk.seconds for walk in walks], 3600.0),
    )


def _compared(own: Sequence[Walk], other: Sequence[Walk], samples: int) -> PolicyDifference:
    pairs = [
        (one.low, two.low)
        for one, two in zip(own, other, strict=True)
        if one.low == one.high and two.low == two.high
    ]
    if not pairs:
        return PolicyDifference(0, None, None, None)
    changes = [two - one for one, two in pairs]
    if all(value in (0.0, 1.0) for pair in pairs for value in pair):
        table = PairedTable.of((one == 1.0, two == 1.0) for one, two in pairs)
        p_value = mcnemar_exact(table.only_a, table.only_b)
    else:
        p_value = sign_flip_test(changes)
    interval = bootstrap_mean(changes, resamples=samples)
    return PolicyDifference(len(pairs), fmean(changes), interval, p_value)


def _front(one: PolicyResult, others: Sequence[PolicyResult]) -> Front:
    """Compare by the ranges of shares and dollars: ``POSSIBLY`` if they leave it open."""
    front = Front.YES if one.dollars.complete and not one.unknown else Front.POSSIBLY
    for other in others:
        if other is one:
            continue
        cheap, dear = _dollars(other)
        lowest, highest = _dollars(one)
        low, high = other.resolved.low, other.resolved.high
        worst, best = one.resolved.low, one.resolved.high
        if dear <= lowest and low >= best and (dear < lowest or low > best):
            return Front.NO
        if cheap <= highest and high >= worst and (cheap < highest or high > worst):
            front = Front.POSSIBLY
    return front


def _dollars(one: PolicyResult) -> tuple[float, float]:
    return one.dollars.value, one.dollars.value if one.dollars.complete else float("inf")


def _best_of(data: LabData, k: int, samples: int) -> BestOfK:
    chosen: dict[Select, tuple[list[float], list[float]]] = {}
    for select in (least_bad, most_agreed):
        pairs = [_best_at(instance, data, k, samples, select) for instance in data.instances]
        chosen[select] = [low for low, _ in pairs], [high for _, high in pairs]
    labels, n = [_labels(instance, data) for instance in data.instances], len(data.turns)
    oracle = [pass_at_k(n, good, k) for good, _ in labels]
    possible = [pass_at_k(n, good + unknown, k) for good, unknown in labels]
    return BestOfK(
        k,
        ShareRange.of(*chosen[least_bad], samples),
        ShareRange.of(*chosen[most_agreed], samples),
        ShareRange.of(oracle, possible, samples),
    )


def _best_at(
    instance: LabInstance, data: LabData, k: int, samples: int, select: Select
) -> tuple[float, float]:
    """Return the mean over sets of ``k`` turns; attempts that are equally good count in part."""
    lows, highs = [], []
    for turns in _sets(instance, data, k, samples):
        if any(turn not in instance.made for turn in turns):
            lows.append(0.0)
            highs.append(1.0)
            continue
        by_number = {instance.made[t].tried.candidate.attempt: instance.resolved[t] for t in turns}
        best = select([instance.made[turn].tried for turn in turns], data.require_tests)
        labels = [by_number[one.candidate.attempt] for one in best] or [False]
        lows.append(labels.count(True) / len(labels))
        highs.append((len(labels) - labels.count(False)) / len(labels))
    return fmean(lows), fmean(highs)


def _sets(instance: LabInstance, data: LabData, k: int, samples: int) -> Iterator[tuple[Turn, ...]]:
    most = _orders(data, samples)
    if comb(len(data.turns), k) <= most:
        yield from combinations(data.turns, k)
        return
    dice = _dice(instance)
    for _ in range(most):
        yield tuple(dice.sample(data.turns, k))
