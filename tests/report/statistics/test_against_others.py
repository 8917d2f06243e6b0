"""Our numbers against scipy's, statsmodels' and scikit-learn's, on random data.

They are imported where they are used: that takes seconds, which every worker would spend.
"""

from __future__ import annotations

from functools import partial
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swe_retry.report.statistics.comparing import compare_verdicts
from swe_retry.report.statistics.methods import (
    Interval,
    PairedTable,
    Share,
    mcnemar_exact,
    paired_interval,
    pass_at_k,
    wilson,
)
from swe_retry_exercises.statistics import compare_means

about = partial(pytest.approx, rel=1e-9, abs=1e-12)
pairs = st.lists(
    st.tuples(st.booleans(), st.booleans()),
    min_size=1,
    max_size=60,
)
outcomes = st.lists(st.booleans(), min_size=1, max_size=7)
upto_12 = st.integers(0, 12)
upto_9 = st.integers(0, 9)
upto_400 = st.integers(0, 400)


@st.composite
def shares(draw: st.DrawFn) -> tuple[int, int]:
    """A part and its whole."""
    whole = draw(st.integers(1, 3000))
    return draw(st.integers(0, whole)), whole


def assert_close(interval: Interval, low: float, high: float) -> None:
    assert interval.low == about(low)
    assert interval.high == about(high)


@settings(max_examples=50)
@given(shares(), st.floats(0.5, 0.999))
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
    assert_close(ours, *theirs)
    test = binomtest(count, of)
    scipys = test.proportion_ci(confidence, method="wilson")
    assert_close(ours, scipys.low, scipys.high)
    assert 0 <= ours.low <= count / of <= ours.high <= 1
    corrected = wilson(count, of, confidence, correction=0.5)
    assert 0 <= corrected.low <= ours.low
    assert ours.high <= corrected.high <= 1


@settings(max_examples=50)
@given(upto_400, upto_400)
def test_mcnemar(only_a: int, only_b: int) -> None:
    from scipy.stats import binomtest
    from statsmodels.stats.contingency_tables import mcnemar

    ours = mcnemar_exact(only_a, only_b)
    table = [[7, only_a], [only_b, 3]]
    theirs = mcnemar(table, exact=True).pvalue
    assert ours == about(theirs)
    if only_a + only_b:
        scipys = binomtest(only_a, only_a + only_b, 0.5).pvalue
        assert ours == pytest.approx(scipys, rel=1e-6)


def test_mcnemar_of_many_instances() -> None:
    """Powers of two beyond the range of floats."""
    from scipy.stats import binomtest

    expected = binomtest(1400, 3000, 0.5).pvalue
    ours = mcnemar_exact(1400, 1600)
    assert ours == pytest.approx(expected, rel=1e-9)


@settings(max_examples=50)
@given(st.integers(1, 60), st.data())
def test_pass_at_k_is_the_hypergeometric_chance(
    attempts: int, data: st.DataObject
) -> None:
    from scipy.stats import hypergeom

    good = data.draw(st.integers(0, attempts))
    k = data.draw(st.integers(1, attempts))
    none_good = hypergeom(attempts, good, k).pmf(0)
    ours = pass_at_k(attempts, good, k)
    assert ours == pytest.approx(1 - none_good, rel=1e-9, abs=1e-9)


@settings(max_examples=50)
@given(outcomes, st.data())
def test_pass_at_k_is_the_mean_over_all_choices(
    outcomes: list[bool], data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(outcomes)))
    drawn = [any(choice) for choice in combinations(outcomes, k)]
    expected = sum(drawn) / len(drawn)
    ours = pass_at_k(len(outcomes), sum(outcomes), k)
    assert ours == pytest.approx(expected)


@settings(max_examples=50)
@given(pairs)
def test_the_paired_table_is_sklearns(some: list[tuple[bool, bool]]) -> None:
    from sklearn.metrics import confusion_matrix

    table = PairedTable.of(some)
    columns = zip(*some, strict=True)
    (neither, only_b), (only_a, both) = confusion_matrix(
        *columns,
        labels=[0, 1],
    )
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

    ones = round(10 * share_b)
    b = [1.0] * ones + [0.0] * (10 - ones)
    a = [1.0, 1.0, 0.0, 0.0, 0.0]
    pairs = list(product(a, b))
    theirs = confint_proportions_2indep(
        50 * share_b,
        50,
        20,
        50,
        method="newcomb",
        compare="diff",
    )
    ours = paired_interval(pairs, 0.0)
    assert ours is not None
    assert_close(ours, *theirs)


@pytest.mark.parametrize(
    ("both", "only_b", "only_a", "neither", "low", "high"),
    [
        (36, 12, 2, 0, 0.0569, 0.3404),
        (20, 12, 2, 16, 0.0562, 0.3292),
    ],
)
def test_the_paired_interval_is_newcombes_in_his_examples(
    both: int,
    only_b: int,
    only_a: int,
    neither: int,
    low: float,
    high: float,
) -> None:
    """Method 10 in table II of the paper; the outcomes of the second are correlated."""
    pairs = [(1.0, 1.0)] * both
    pairs += [(0.0, 1.0)] * only_b
    pairs += [(1.0, 0.0)] * only_a
    pairs += [(0.0, 0.0)] * neither
    interval = paired_interval(pairs, p_value=0.0)
    assert interval is not None
    assert interval.low == pytest.approx(low, abs=5e-5)
    assert interval.high == pytest.approx(high, abs=5e-5)


@settings(max_examples=50)
@given(upto_12, upto_12, upto_9, upto_9)
def test_the_paired_interval_agrees_with_its_test(
    only_a: int, only_b: int, both: int, neither: int
) -> None:
    pairs = [(True, True)] * both
    pairs += [(True, False)] * only_a
    pairs += [(False, True)] * only_b
    pairs += [(False, False)] * neither
    a = {}
    b = {}
    for number, (verdict_a, verdict_b) in enumerate(pairs):
        name = f"i{number}"
        a[name] = verdict_a
        b[name] = verdict_b
    comparison = compare_verdicts("a", a, "b", b)
    if not a:
        assert comparison.interval is None
        assert comparison.p_value is None
        return
    interval = comparison.interval
    assert interval is not None
    assert comparison.p_value is not None
    holds_zero = interval.low <= 0 <= interval.high
    assert holds_zero == (comparison.p_value >= 0.05)
    assert interval.low <= comparison.table.difference <= interval.high


@pytest.mark.parametrize("seed", range(3))
def test_the_bootstrap_of_means_agrees_with_scipys(seed: int) -> None:
    import numpy as np

    dice = np.random.default_rng(seed)
    a = dice.binomial(20, dice.random(105)) / 20
    steps = dice.choice([-0.1, 0.0, 0.05, 0.2], 105)
    b = np.clip(a + steps, 0, 1)
    names = [f"problem-{number}" for number in range(105)]
    means_a = dict(zip(names, a, strict=True))
    means_b = dict(zip(names, b, strict=True))
    ours = compare_means(means_a, means_b)
    interval = ours.interval
    assert interval is not None
    low, high = scipys_interval(a, b, seed)
    assert interval.low == pytest.approx(low, abs=0.004)
    assert interval.high == pytest.approx(high, abs=0.004)
    difference = b.mean() - a.mean()
    assert ours.difference == pytest.approx(difference)


def test_the_bootstrap_of_means_ignores_the_order() -> None:
    import numpy as np

    dice = np.random.default_rng(5)
    names = [f"i{number}" for number in range(90)]
    a = {name: bool(dice.random() < 0.4) for name in names}
    b = {name: bool(dice.random() < 0.4) for name in names}
    a_backwards = dict(reversed(a.items()))
    b_backwards = dict(reversed(b.items()))
    means = compare_means(a, {**b_backwards, "only here": True})
    assert means.left_out == 1
    assert means == compare_means(a_backwards, {"other": 0.5, **b})


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
    assert comparison.table == PairedTable(
        both=1,
        only_a=1,
        only_b=1,
        neither=0,
    )
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
    means = compare_means({"a": 0.25}, {"a": 0.75})
    assert means.difference == 0.5
    no_number = {"a": float("nan")}
    with pytest.raises(ValueError, match="not a share: a has nan"):
        compare_means(no_number, {"a": 1.0})


def test_nothing_has_no_share_and_no_interval() -> None:
    assert Share.compute(0, 0) == Share(0, 0, None, None)
    assert paired_interval([], 1.0) is None
    assert mcnemar_exact(0, 0) == 1.0


@pytest.mark.parametrize(("count", "of"), [(1, 0), (-1, 3), (4, 3)])
def test_what_is_no_share_has_no_interval(count: int, of: int) -> None:
    with pytest.raises(ValueError, match="not a share"):
        wilson(count, of)


@pytest.mark.parametrize(
    ("attempts", "good", "k"),
    [
        (3, 4, 1),
        (3, 1, 0),
        (3, 1, 4),
    ],
)
def test_what_has_no_pass_at_k(attempts: int, good: int, k: int) -> None:
    with pytest.raises(ValueError, match="no pass@"):
        pass_at_k(attempts, good, k)
