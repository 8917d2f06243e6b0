"""Pure: shares, intervals, paired tests and pass@k, with their sources."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

CONFIDENCE = 0.95
RESAMPLES = 10_000
SEED = 20240523


@dataclass(frozen=True)
class Interval:
    """The bounds of a share or of a difference of shares, from -1 to 1."""

    low: float
    high: float


@dataclass(frozen=True)
class Share:
    """A part of a whole.

    Attributes:
        count: the part.
        of: the whole.
        share: from 0 to 1; None if the whole is 0 or nothing was evaluated.
        interval: Wilson's 95 % interval; None if the share is None.
    """

    count: int
    of: int
    share: float | None
    interval: Interval | None

    @classmethod
    def made(cls, count: int, of: int, *, known: bool = True) -> Share:
        """Return a share with its interval; ``known`` is False if nothing was evaluated."""
        if not of or not known:
            return cls(count, of, None, None)
        return cls(count, of, count / of, wilson(count, of))


def wilson(count: int, of: int, confidence: float = CONFIDENCE) -> Interval:
    """Return the Wilson score interval of a binomial share, without continuity correction.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal
    of the American Statistical Association 22 (1927), 209-212.

    Raises:
        ValueError: an argument is out of range.
    """
    if not 0 <= count <= of or not of or not 0 < confidence < 1:
        raise ValueError(f"not a share: {count} of {of} at {confidence}")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = count / of
    scale = 1 + z * z / of
    middle = (share + z * z / (2 * of)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / of + (z / (2 * of)) ** 2)
    # The bounds for none and all are exact; floating point would round them.
    low = 0.0 if count == 0 else middle - half
    return Interval(low, 1.0 if count == of else middle + half)


def pass_at_k(attempts: int, good: int, k: int) -> float:
    """Return the probability that one of ``k`` attempts drawn without replacement is good.

    The unbiased estimator of M. Chen et al., "Evaluating large language models trained on code"
    (2021), arXiv:2107.03374, equation 1: ``1 - C(n - c, k) / C(n, k)``.

    Raises:
        ValueError: ``good`` or ``k`` is out of range.
    """
    if not 0 <= good <= attempts or not 1 <= k <= attempts:
        raise ValueError(f"no pass@{k} of {good} good ones among {attempts}")
    return 1 - math.comb(attempts - good, k) / math.comb(attempts, k)


def mean_pass_at_k(counts: Sequence[tuple[int, int]], k: int) -> float:
    """Return the mean of pass@k over instances, of which ``counts`` has attempts and good ones."""
    return fmean(pass_at_k(attempts, good, k) for attempts, good in counts)


@dataclass(frozen=True)
class PairedTable:
    """The numbers of instances that both runs, one of them, or neither resolved."""

    both: int
    only_a: int
    only_b: int
    neither: int

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool]]) -> PairedTable:
        """Count pairs: whether A and whether B resolved an instance."""
        every = list(pairs)
        return cls(
            both=every.count((True, True)),
            only_a=every.count((True, False)),
            only_b=every.count((False, True)),
            neither=every.count((False, False)),
        )

    @property
    def instances(self) -> int:
        return self.both + self.only_a + self.only_b + self.neither

    @property
    def difference(self) -> float:
        """The share of B minus that of A; 0 without instances."""
        return (self.only_b - self.only_a) / self.instances if self.instances else 0.0


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """Return the two-sided p-value of McNemar's exact test; 1 if nothing differs.

    If both runs are equally good, an instance that only one of them resolved belongs to either with
    probability 1/2. The p-value is twice the smaller binomial tail, at most 1.
    Q. McNemar, "Note on the sampling error of the difference between correlated proportions or
    percentages", Psychometrika 12 (1947), 153-157; exact form: A. Agresti, "Categorical Data
    Analysis" (2002), section 10.1.4.
    """
    differing = only_a + only_b
    tail = sum(math.comb(differing, n) for n in range(min(only_a, only_b) + 1))
    # Integers, because floats of this size would overflow.
    return min(1.0, 2 * tail / (1 << differing))


def bootstrap_difference(table: PairedTable) -> Interval | None:
    """Return the 95 % percentile bootstrap interval of the difference; None without instances.

    Instances are drawn with replacement, each with both of its results. The numbers of each kind
    drawn have a multinomial distribution. B. Efron and R. Tibshirani, "An Introduction
    to the Bootstrap" (1993), chapters 8 and 13.
    """
    counts = [table.only_a, table.only_b, table.both + table.neither]
    return _bootstrap([-1.0, 1.0, 0.0], counts, RESAMPLES, SEED)


@dataclass(frozen=True)
class MeanComparison:
    """The mean shares of two runs over the problems that both have."""

    problems: int
    left_out: int  # number of problems that only one run has
    mean_a: float | None
    mean_b: float | None
    difference: (
        float | None
    )  # B minus A; like the means and its interval None without problems
    interval: Interval | None
    resamples: int
    seed: int


def compare_means(
    a: Mapping[str, float],
    b: Mapping[str, float],
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> MeanComparison:
    """Compare the means of two runs' shares, such as pass@1 of 20 samples of each problem.

    The interval is that of the paired percentile bootstrap: problems are drawn with replacement,
    each with the shares of both runs. The samples of a problem are not drawn again, because
    problems, not samples, are the units that vary between benchmarks. B. Efron and R. Tibshirani,
    "An Introduction to the Bootstrap" (1993), chapters 8 and 13; P. Koehn, "Statistical
    significance tests for machine translation evaluation" (EMNLP 2004), for pairs; E. Miller,
    "Adding error bars to evals" (2024), arXiv:2411.00640, sections 2.2 and 4.2, for questions with
    several samples.

    Args:
        a, b: shares by problem id; the order of the ids does not matter.

    Raises:
        ValueError: a share is not a finite number.
    """
    common = sorted({*a} & {*b})
    if bad := [
        name
        for name in common
        if not (math.isfinite(a[name]) and math.isfinite(b[name]))
    ]:
        raise ValueError(f"not a share: {bad[0]} has {a[bad[0]]} and {b[bad[0]]}")
    changes = [b[name] - a[name] for name in common]
    return MeanComparison(
        problems=len(common),
        left_out=len({*a} ^ {*b}),
        mean_a=fmean(a[name] for name in common) if common else None,
        mean_b=fmean(b[name] for name in common) if common else None,
        difference=fmean(changes) if common else None,
        interval=bootstrap_mean(changes, resamples=resamples, seed=seed),
        resamples=resamples,
        seed=seed,
    )


def bootstrap_mean(
    shares: Iterable[float], *, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval | None:
    """Return the 95 % percentile bootstrap interval of a mean over problems; None without problems.

    The order of the shares does not matter.
    """
    kinds = sorted(Counter(shares).items())
    values, counts = [value for value, _ in kinds], [count for _, count in kinds]
    return _bootstrap(values, counts, resamples, seed)


def sign_flip_test(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of paired differences; 1 if nothing differs.

    If both sides are equally good, each difference has either sign with probability 1/2. This is
    McNemar's test for shares other than 0 and 1. R. A. Fisher, "The Design of Experiments" (1935),
    section 21; by random signs: E. W. Noreen, "Computer-Intensive Methods for Testing Hypotheses"
    (1989), chapter 2.
    """
    import numpy as np

    values = np.asarray([value for value in differences if value])
    if not len(values):
        return 1.0
    dice, reached, observed = np.random.default_rng(SEED), 0, abs(values.sum()) - 1e-9
    # In parts, because many instances make a large table.
    for rows in _parts(RESAMPLES):
        signs = dice.choice([-1.0, 1.0], size=(rows, len(values)))
        reached += int((abs(signs @ values) >= observed).sum())
    return (1 + reached) / (1 + RESAMPLES)


def paired_p_value(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the two-sided p-value of pairs of shares: McNemar's if all are 0 or 1."""
    if any(share not in (0, 1) for pair in pairs for share in pair):
        return sign_flip_test([two - one for one, two in pairs])
    table = PairedTable.of((one == 1, two == 1) for one, two in pairs)
    return mcnemar_exact(table.only_a, table.only_b)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values that are corrected for their number, in the same order.

    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6 (1979), 65-70.
    """
    found, highest = [1.0] * len(p_values), 0.0
    for done, place in enumerate(
        sorted(range(len(p_values)), key=lambda n: p_values[n])
    ):
        highest = max(highest, p_values[place] * (len(p_values) - done))
        found[place] = min(1.0, highest)
    return found


@dataclass(frozen=True)
class ShareRange:
    """A mean share of which some parts are not known.

    Attributes:
        low: what is proven: unknown parts count as 0.
        high: what is possible: they count as 1.
        interval: from the lower bound of one to the upper bound of the other, 95 % by bootstrap.
    """

    low: float
    high: float
    interval: Interval

    @classmethod
    def of(
        cls, low: Sequence[float], high: Sequence[float], resamples: int
    ) -> ShareRange:
        ends = [bootstrap_mean(each, resamples=resamples) for each in (low, high)]
        lowest, highest = (each or Interval(0, 1) for each in ends)
        return cls(fmean(low), fmean(high), Interval(lowest.low, highest.high))


def _bootstrap(
    values: Sequence[float],
    counts: Sequence[int],
    resamples: int,
    seed: int,
) -> Interval | None:
    import numpy as np

    total = sum(counts)
    if not total:
        return None
    dice, chances = np.random.default_rng(seed), [count / total for count in counts]
    # In parts, because many different values make a large table.
    drawn = [
        dice.multinomial(total, chances, size=rows) @ np.asarray(values)
        for rows in _parts(resamples)
    ]
    means = np.concatenate(drawn) / total
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(low), float(high))


def _parts(resamples: int) -> list[int]:
    return [min(1000, resamples - done) for done in range(0, resamples, 1000)]
