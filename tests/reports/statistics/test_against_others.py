"""Our numbers against scipy's, statsmodels' and scikit-learn's, on random data.

They are imported where they are used: that takes seconds, which every worker would spend.
"""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.statistics.comparing import compare_verdicts
from reports.statistics.methods import (
    PairedTable,
    Share,
    compare_means,
    mcnemar_exact,
    paired_interval,
    pass_at_k,
    wilson,
)

CLOSE = {"rel": 1e-9, "abs": 1e-12}
pairs = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)
shares = st.integers(1, 3000).flatmap(
    lambda of: st.tuples(st.integers(0, of), st.just(of))
)


@settings(max_examples=50)
@given(shares, st.floats(0.5, 0.999))
def test_wilson(share: tuple[int, int], confidence: float) -> None:
    from scipy.stats import binomtest
    from statsmodels.stats.proportion import proportion_confint

    count, of = share
    ours = wilson(count, of, confidence)
    theirs = proportion_confint(
        count,
        of,
        alpha=1 - confidence,
        method="wilson",
    )
    assert (ours.low, ours.high) == pytest.approx(theirs, **CLOSE)
    scipys = binomtest(count, of).proportion_ci(confidence, method="wilson")
    assert (ours.low, ours.high) == pytest.approx((scipys.low, scipys.high), **CLOSE)
    assert 0 <= ours.low <= count / of <= ours.high <= 1
    corrected = wilson(count, of, confidence, correction=0.5)
    assert 0 <= corrected.low <= ours.low
    assert ours.high <= corrected.high <= 1


@settings(max_examples=50)
@given(st.integers(0, 400), st.integers(0, 400))
def test_mcnemar(only_a: int, only_b: int) -> None:
    from scipy.stats import binomtest
    from statsmodels.stats.contingency_tables import mcnemar

    theirs = mcnemar([[7, only_a], [only_b, 3]], exact=True).pvalue
    assert mcnemar_exact(only_a, only_b) == pytest.approx(theirs, **CLOSE)
    if only_a + only_b:
        scipys = binomtest(only_a, only_a + only_b, 0.5).pvalue
        assert mcnemar_exact(only_a, only_b) == pytest.approx(scipys, rel=1e-6)


def test_mcnemar_of_many_instances() -> None:
    """Powers of two beyond the range of floats."""
    from scipy.stats import binomtest

    expected = binomtest(1400, 3000, 0.5).pvalue
    assert mcnemar_exact(1400, 1600) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=50)
@given(st.integers(1, 60), st.data())
def test_pass_at_k_is_the_hypergeometric_chance(
    attempts: int, data: st.DataObject
) -> None:
    from scipy.stats import hypergeom

    good = data.draw(st.integers(0, attempts))
    k = data.draw(st.integers(1, attempts))
    expected = 1 - hypergeom(attempts, good, k).pmf(0)
    assert pass_at_k(attempts, good, k) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@settings(max_examples=50)
@given(st.lists(st.booleans(), min_size=1, max_size=7), st.data())
def test_pass_at_k_is_the_mean_over_all_choices(
    outcomes: list[bool], data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(outcomes)))
    drawn = [any(choice) for choice in combinations(outcomes, k)]
    expected = sum(drawn) / len(drawn)
    assert pass_at_k(len(outcomes), sum(outcomes), k) == pytest.approx(expected)


@settings(max_examples=50)
@given(pairs)
def test_the_paired_table_is_sklearns(some: list[tuple[bool, bool]]) -> None:
    from sklearn.metrics import confusion_matrix

    table = PairedTable.of(some)
    columns = zip(*some, strict=True)
    (neither, only_b), (only_a, both) = confusion_matrix(*columns, labels=[0, 1])
    assert table == PairedTable(both, only_a, only_b, neither)


def scipys_interval(
    a: Any,
    b: Any,
    seed: int,
) -> tuple[float, float]:
    """Return the ends of scipy's interval of the mean of ``b`` less that of ``a``."""
    from scipy.stats import bootstrap

    interval = bootstrap(
        (a, b),
        lambda x, y, axis: y.mean(axis) - x.mean(axis),
        paired=True,
        vectorized=True,
        n_resamples=10_000,
        method="percentile",
        rng=seed,
    ).confidence_interval
    return interval.low, interval.high


@pytest.mark.parametrize("share_b", [0.2, 0.5, 0.9])
def test_newcombes_interval_of_uncorrelated_outcomes(share_b: float) -> None:
    """Without correlation it is that of two independent samples."""
    from statsmodels.stats.proportion import confint_proportions_2indep

    b = [1.0] * round(10 * share_b) + [0.0] * round(10 - 10 * share_b)
    pairs = list(product([1.0] * 2 + [0.0] * 3, b))
    theirs = confint_proportions_2indep(
        50 * share_b, 50, 20, 50, method="newcomb", compare="diff"
    )
    ours = paired_interval(pairs, 0.0)
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx(theirs, **CLOSE)


@settings(max_examples=50)
@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 9), st.integers(0, 9))
def test_the_paired_interval_agrees_with_its_test(
    only_a: int, only_b: int, both: int, neither: int
) -> None:
    verdicts_a = [True] * (both + only_a) + [False] * (only_b + neither)
    verdicts_b = [True] * both + [False] * only_a + [True] * only_b + [False] * neither
    a, b = (dict(enumerate(verdicts)) for verdicts in (verdicts_a, verdicts_b))
    comparison = compare_verdicts("a", a, "b", b)  # type: ignore[arg-type]
    if not a:
        assert comparison.interval is comparison.p_value is None
        return
    interval = comparison.interval
    assert interval is not None
    assert comparison.p_value is not None
    assert (interval.low <= 0 <= interval.high) == (comparison.p_value >= 0.05)
    assert interval.low <= comparison.table.difference <= interval.high


@pytest.mark.parametrize("seed", range(3))
def test_the_bootstrap_of_means_agrees_with_scipys(seed: int) -> None:
    import numpy as np

    dice = np.random.default_rng(seed)
    a = dice.binomial(20, dice.random(105)) / 20
    b = np.clip(a + dice.choice([-0.1, 0.0, 0.05, 0.2], 105), 0, 1)
    names = [f"problem-{number}" for number in range(105)]
    means_a = dict(zip(names, a, strict=True))
    means_b = dict(zip(names, b, strict=True))
    ours = compare_means(means_a, means_b)
    interval = ours.interval
    assert interval is not None
    theirs = scipys_interval(a, b, seed)
    assert (interval.low, interval.high) == pytest.approx(theirs, abs=0.004)
    assert ours.difference == pytest.approx(b.mean() - a.mean())


def test_the_bootstrap_of_means_ignores_the_order() -> None:
    import numpy as np

    dice = np.random.default_rng(5)
    a, b = ({f"i{n}": bool(dice.random() < 0.4) for n in range(90)} for _ in range(2))
    means = compare_means(
        a,
        {
            **dict(reversed(b.items())),
            "only here": True,
        },
    )
    assert means.left_out == 1
    assert means == compare_means(dict(reversed(a.items())), {"other": 0.5, **b})


def test_verdicts_are_compared_where_both_have_one() -> None:
    a = {
        "x": True,
        "y": True,
        "z": False,
        "only a": True,
    }
    b = {
        "z": True,
        "y": True,
        "x": False,
        "w": True,
    }
    comparison = compare_verdicts("first", a, "second", b)
    assert comparison.a == "first"
    assert comparison.b == "second"
    assert comparison.left_out == 2
    assert comparison.table == PairedTable(both=1, only_a=1, only_b=1, neither=0)
    assert comparison.only_a == ("x",)
    assert comparison.only_b == ("z",)
    assert comparison.difference == 0
    assert comparison.p_value == 1
    assert comparison.cost_a is None
    assert comparison.cost_b is None
    nothing = compare_verdicts("first", {}, "second", a)
    assert nothing.p_value is None
    assert nothing.difference is None
    assert nothing.interval is None


def test_means_of_nothing_and_of_no_numbers() -> None:
    nothing = compare_means({"a": 0.5}, {"b": 0.5})
    assert nothing.problems == 0
    assert nothing.left_out == 2
    assert nothing.difference is None
    assert nothing.interval is None
    assert compare_means({"a": 0.25}, {"a": 0.75}).difference == 0.5
    with pytest.raises(ValueError, match="not a share: a has nan"):
        compare_means({"a": float("nan")}, {"a": 1.0})


def test_nothing_has_no_share_and_no_interval() -> None:
    assert Share.compute(0, 0) == Share(0, 0, None, None)
    assert paired_interval([], 1.0) is None
    assert mcnemar_exact(0, 0) == 1.0
    for bad in ((1, 0), (-1, 3), (4, 3)):
        with pytest.raises(ValueError, match="not a share"):
            wilson(*bad)
    for attempts, good, k in ((3, 4, 1), (3, 1, 0), (3, 1, 4)):
        with pytest.raises(ValueError, match="no pass@"):
            pass_at_k(attempts, good, k)
