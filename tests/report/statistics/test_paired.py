"""Paired tests of shares, and their correction for the number of tests."""

from __future__ import annotations

import pytest

from swe_retry.report.statistics.methods import (
    Interval,
    ShareRange,
    holm,
    mcnemar_exact,
    paired_p_value,
    sign_flip_test,
    wilson,
)


def test_p_values_are_corrected_for_their_number() -> None:
    """The example is that of R: p.adjust(c(0.01, 0.04, 0.03), "holm")."""
    corrected = holm([0.01, 0.04, 0.03])
    assert corrected == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("only_a", "only_b"),
    [
        (3, 12),
        (10, 11),
        (0, 6),
    ],
)
def test_random_signs_give_the_exact_test(only_a: int, only_b: int) -> None:
    differences = [0.0] * 7
    differences += [-1.0] * only_a
    differences += [1.0] * only_b
    exact = mcnemar_exact(only_a, only_b)
    assert sign_flip_test(differences) == pytest.approx(exact, abs=0.015)


def test_equal_pairs_do_not_differ() -> None:
    assert sign_flip_test([0.0, 0.0]) == 1.0


def test_pairs_of_outcomes_are_tested_exactly_and_shares_by_signs() -> None:
    outcomes = [(0.0, 1.0)] * 9
    outcomes += [(1.0, 0.0), (1.0, 1.0)]
    assert paired_p_value(outcomes) == mcnemar_exact(1, 9)
    shares = [(0.5, outcome) for _, outcome in outcomes]
    differences = [outcome - 0.5 for _, outcome in outcomes]
    assert paired_p_value(shares) == sign_flip_test(differences)


def test_a_range_of_shares_has_the_interval_of_both_ends() -> None:
    lows = [0.0, 0.0, 1.0, 1.0]
    highs = [1.0, 0.0, 1.0, 1.0]
    share_range = ShareRange.of(lows, highs)
    assert share_range.low == 0.5
    assert share_range.high == 0.75
    low = wilson(2, 4, correction=0.5).low
    high = wilson(3, 4, correction=0.5).high
    assert share_range.interval == Interval(low, high)


def test_all_of_two_is_not_certain() -> None:
    """R: prop.test(2, 2)$conf.int is 0.197 to 1."""
    both = [1.0, 1.0]
    interval = ShareRange.of(both, both).interval
    assert interval.low == pytest.approx(0.1979, abs=1e-3)
    assert interval.high == pytest.approx(1.0, abs=1e-3)
