"""Pure: recorded runs replayed under policies: what each gives on each instance.

What the recording cannot tell is a range: an instance without an answer counts as not resolved at
its low end and as resolved at its high end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import ceil
from random import Random
from typing import Any

import numpy as np

from swe_retry.core.jsontypes import JsonObject
from swe_retry.llm.chat import Reply
from swe_retry.record.records import Attempt
from swe_retry.report.statistics.methods import SEED
from swe_retry.study.lab.policies import Chosen, Policy, Seen
from swe_retry.study.lab.recorded import (
    LabData,
    LabInstance,
    ModelTurn,
    finished_attempts,
)

_MIN_DRAWS = 20
COLUMNS = ("low", "high", "attempts", "calls", "dollars", "seconds", "unmade")
"""What a walk through an instance gives, as numbers.

Whether it is resolved at least and at most, how much that took (NaN if unknown), and whether an
attempt was asked for that was never made.
"""
Walks = JsonObject
"""By column, an array with the number of each instance."""


class ReorderedError(Exception):
    """A policy asks for attempts, which were told of earlier ones, in another order."""


def _by_column(figures: Iterable[Sequence[float]]) -> Walks:
    columns = np.array(list(figures), dtype=float).T
    return dict(zip(COLUMNS, columns, strict=True))


def recorded_walks(data: LabData) -> Walks:
    """Return what the run itself did."""
    figures = []
    for instance in data.instances:
        recorded = instance.recorded
        attempts = finished_attempts(recorded)
        calls = recorded.script_calls
        figures.append(
            _figures(attempts, recorded.resolved, calls, unmade=not attempts)
        )
    return _by_column(figures)


def oracle_walks(data: LabData) -> Walks:
    """Return what all attempts give where one that resolves the instance is always chosen."""
    figures = []
    for instance in data.instances:
        outcomes = instance.outcomes.values()
        outcome: bool | None = False
        if None in outcomes:
            outcome = None
        if True in outcomes:
            outcome = True
        attempts = [tried.attempt for tried in instance.tried.values()]
        unmade = len(attempts) < len(outcomes)
        figures.append(_figures(attempts, outcome, unmade=unmade))
    return _by_column(figures)


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


def replay_policy(policy: Policy, data: LabData) -> Walks:
    """Return what a policy gives on each instance; of random orders the mean."""
    means = []
    for instance in data.instances:
        orders: Iterable[tuple[ModelTurn, ...]] = [data.turns]
        if policy.any_order:
            orders = draw_turns(len(data.turns), instance, data)
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
            raise ReorderedError
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


def draw_turns(
    k: int,
    instance: LabInstance,
    data: LabData,
) -> Iterator[tuple[ModelTurn, ...]]:
    """Yield random selections of ``k`` turns; those of all instances make the samples."""
    dice = Random(f"{SEED} {instance.recorded.instance_id}")
    for _ in range(count_draws(data)):
        yield tuple(dice.sample(data.turns, k))


def count_draws(data: LabData) -> int:
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
