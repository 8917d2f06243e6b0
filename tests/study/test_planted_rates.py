"""The statistics of studies on planted rates: intervals hold them, and chance has no winner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from swe_retry.report.statistics.comparing import compare_verdicts
from swe_retry.report.statistics.methods import (
    Interval,
    PairedTable,
    Share,
    bootstrap_interval,
    mcnemar_exact,
    needed_instances,
)
from swe_retry.study.armreport import compare_pairs, find_winner

RATES = {"a": 0.3, "b": 0.5, "c": 0.5}
TIMES = 2000
SEED = 20261129
Outcomes = Any
"""An array of booleans: repetition, instance, arm."""


def draw(times: int, instances: int, alike: float) -> Outcomes:
    """Draw outcomes of arms at their rates; with ``alike`` arms share an instance's difficulty."""
    dice = np.random.default_rng(SEED)
    own = dice.random((times, instances, len(RATES)))
    shared = dice.random((times, instances, 1))
    is_shared = dice.random((times, instances, 1)) < alike
    return np.where(is_shared, shared, own) < list(RATES.values())


def holds(interval: Interval | None, truth: float) -> bool:
    assert interval
    return interval.low - 1e-9 <= truth <= interval.high + 1e-9


def studies(outcomes: Outcomes) -> Iterator[dict[str, dict[str, bool]]]:
    """Yield the verdicts of each repetition, by arm and instance."""
    for study in outcomes:
        columns = zip(RATES, study.T.tolist(), strict=True)
        yield {
            name: dict(zip(map(str, range(len(column))), column, strict=True))
            for name, column in columns
        }


@pytest.mark.parametrize(("instances", "alike"), [(15, 0), (30, 0.7)])
def test_shares_and_differences_are_held_and_chance_seldom_wins(
    instances: int, alike: float
) -> None:
    held = Counter[str]()
    wrong = 0
    no_winner = 0
    for verdicts in studies(draw(TIMES, instances, alike)):
        comparisons = []
        for name, rate in RATES.items():
            count = sum(verdicts[name].values())
            share = Share.compute(count, instances, correction=0.5)
            held[name] += holds(share.interval, rate)
        for a, b in combinations(RATES, 2):
            compared = compare_verdicts(a, verdicts[a], b, verdicts[b])
            held[a + b] += holds(compared.interval, RATES[b] - RATES[a])
            comparisons.append(compared)
        pairs = compare_pairs(comparisons, [[]] * 3)
        wrong += bool(pairs[2].better)
        no_winner += not find_winner(pairs, len(RATES))
    assert set(held) == {"a", "b", "c", "ab", "ac", "bc"}
    assert min(held.values()) >= 0.94 * TIMES
    assert wrong <= 0.05 * TIMES
    assert no_winner >= 0.95 * TIMES


def held_dollars(times: int, instances: int) -> tuple[float, float]:
    """Return how often intervals hold dollars per solved instance, and differences of dollars.

    An attempt costs a dollar in the mean, and half as much again where it fails.
    """
    dice = np.random.default_rng(SEED)
    ratios = 0
    differences = 0
    for study in draw(times, instances, 0.5):
        spread = np.exp(0.5 * dice.standard_normal(study.shape) - 0.125)
        costs = spread * np.where(study, 1.0, 1.5)
        means = {name: 1.5 - 0.5 * rate for name, rate in RATES.items()}
        outcomes = study[:, 0].astype(float).tolist()
        interval = bootstrap_interval(costs[:, 0].tolist(), outcomes)
        ratios += holds(interval, means["a"] / RATES["a"])
        interval = bootstrap_interval((costs[:, 1] - costs[:, 0]).tolist())
        differences += holds(interval, means["b"] - means["a"])
    return ratios / times, differences / times


def test_dollars_are_held() -> None:
    assert min(held_dollars(200, 30)) >= 0.91, "2.5 standard errors below 95 %"


@pytest.mark.long
@pytest.mark.parametrize("instances", [15, 30, 60])
def test_dollars_are_held_in_many_studies(instances: int) -> None:
    assert min(held_dollars(TIMES, instances)) >= 0.94


def test_so_many_instances_tell_two_arms_apart() -> None:
    """Of simulated studies with the needed instances, four in five show the difference."""
    needed = needed_instances(PairedTable(both=30, only_a=10, only_b=30, neither=30))
    assert needed
    dice = np.random.default_rng(SEED)
    counts = dice.multinomial(needed, [0.1, 0.3, 0.6], size=TIMES)
    shown = sum(mcnemar_exact(*map(int, row[:2])) < 0.05 for row in counts)
    assert 0.74 <= shown / TIMES <= 0.84
    assert needed_instances(PairedTable(5, 2, 2, 5)) is None, "nothing differs"
    assert needed_instances(PairedTable(0, 0, 0, 0)) is None
    table = PairedTable(30, 10, 30, 30)
    assert (needed_instances(table, tests=3) or 0) > needed


def test_a_ratio_without_a_bound() -> None:
    assert bootstrap_interval([1, 1, 1], [1, 0, 0]) is None, "too few"
    interval = bootstrap_interval([1] * 6, [1, 0, 0, 0, 0, 0])
    assert interval
    assert interval.high == float("inf")
    assert interval.low >= 1


def test_the_winner_beats_each_other_arm() -> None:
    verdicts = {
        "good": dict.fromkeys(map(str, range(30)), True),
        "bad": dict.fromkeys(map(str, range(30)), False),
        "fair": {str(n): n < 25 for n in range(30)},
    }
    comparisons = []
    for a, b in combinations(verdicts, 2):
        comparisons.append(compare_verdicts(a, verdicts[a], b, verdicts[b]))
    pairs = compare_pairs(comparisons, [[], [], []])
    assert [pair.better for pair in pairs] == ["good", "", "fair"]
    assert pairs[0].further == 0
    assert pairs[1].further == 30, "five of 30 differ, and twice as many would show it"
    assert find_winner(pairs, 3) == ""
    assert find_winner([pairs[0]], 2) == "good"
    few = {name: dict(list(verdicts[name].items())[:5]) for name in ("good", "bad")}
    (pair,) = compare_pairs([compare_verdicts("a", few["good"], "b", few["bad"])], [[]])
    assert (pair.better, pair.further) == ("", 1), "p is 0.0625: the test needs a sixth"
