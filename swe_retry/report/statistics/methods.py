"""Pure: shares, intervals, paired tests and pass@k, with their sources."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import NormalDist, fmean
from typing import Any

CONFIDENCE = 0.95
RESAMPLES = 10_000
SEED = 20240523
_PART = 1000
_FEWER = 3
_POWER = 0.8


def percent(share: float | None) -> str:
    """Return a share in percent with one decimal; a dash for None."""
    if share is None:
        return "–"
    return f"{100 * share:.1f} %"


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
    def compute(
        cls, count: int, of: int, *, evaluated: bool = True, correction: float = 0.0
    ) -> Share:
        """Return a share with its interval (``wilson``); unknown if nothing was evaluated."""
        if not of or not evaluated:
            return cls(count, of, None, None)
        interval = wilson(count, of, correction=correction)
        return cls(count, of, count / of, interval)


def ratio(part: float, total: float) -> float | None:
    """Return the quotient; None if ``total`` is 0."""
    if not total:
        return None
    return part / total


def wilson(
    count: float,
    of: int,
    confidence: float = CONFIDENCE,
    *,
    correction: float = 0.0,
) -> Interval:
    """Return the Wilson score interval of a binomial share.

    It holds for a mean of shares as well: these vary less than outcomes of the same mean do.
    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal
    of the American Statistical Association 22 (1927), 209-212.

    Args:
        correction: by which the count may be too large or too small for a continuous scale; with
            1/2 the interval holds the truth at least as often as it says also where few of few
            are counted: R. G. Newcombe, "Two-sided confidence intervals for the single
            proportion", Statistics in Medicine 17 (1998), 857-872, method 4.

    Raises:
        ValueError: an argument is out of range.
    """
    if not 0 <= count <= of or not of or not 0 < confidence < 1:
        raise ValueError(f"not a share: {count} of {of} at {confidence}")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    low = _score_bound((count - correction) / of, of, -z)
    high = _score_bound((count + correction) / of, of, z)
    # The bounds for none and all are exact; floating point would round them.
    if count <= correction:
        low = 0.0
    if count >= of - correction:
        high = 1.0
    return Interval(low, high)


def _score_bound(share: float, of: int, z: float) -> float:
    """Return the share from which ``share`` is ``z`` standard deviations away."""
    scale = 1 + z * z / of
    middle = (share + z * z / (2 * of)) / scale
    variance = share * (1 - share) / of
    variance += (z / (2 * of)) ** 2
    return middle + z / scale * math.sqrt(max(0.0, variance))


def pass_at_k(attempts: int, good: int, k: int) -> float:
    """Return the probability that one of ``k`` attempts drawn without replacement is good.

    The unbiased estimator of M. Chen et al., "Evaluating large language models trained on code"
    (2021), arXiv:2107.03374, equation 1: ``1 - C(n - c, k) / C(n, k)``.

    Raises:
        ValueError: ``good`` or ``k`` is out of range.
    """
    if not 0 <= good <= attempts or not 1 <= k <= attempts:
        raise ValueError(f"no pass@{k} of {good} good ones among {attempts}")
    without_good = math.comb(attempts - good, k)
    return 1 - without_good / math.comb(attempts, k)


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
        numbers = Counter(pairs)
        return cls(
            both=numbers[True, True],
            only_a=numbers[True, False],
            only_b=numbers[False, True],
            neither=numbers[False, False],
        )

    @property
    def instances(self) -> int:
        return self.both + self.only_a + self.only_b + self.neither

    @property
    def difference(self) -> float:
        """The share of B minus that of A; 0 without instances."""
        return ratio(self.only_b - self.only_a, self.instances) or 0.0


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """Return the two-sided p-value of McNemar's exact test; 1 if nothing differs.

    If both runs are equally good, an instance that only one of them resolved belongs to either with
    probability 1/2. The p-value is twice the smaller binomial tail, at most 1.
    Q. McNemar, "Note on the sampling error of the difference between correlated proportions or
    percentages", Psychometrika 12 (1947), 153-157; exact form: A. Agresti, "Categorical Data
    Analysis" (2002), section 10.1.4.
    """
    differing = only_a + only_b
    fewer = min(only_a, only_b)
    tail = sum(math.comb(differing, n) for n in range(fewer + 1))
    # Integers, because floats of this size would overflow.
    return min(1.0, 2 * tail / (1 << differing))


def paired_interval(
    pairs: Sequence[tuple[float, float]], p_value: float
) -> Interval | None:
    """Return the 95 % interval of the mean of B minus that of A; None without pairs.

    It holds 0 where ``p_value`` is not below 5 %. R. G. Newcombe, "Improved confidence intervals
    for the difference between binomial proportions based on paired data", Statistics in Medicine 17
    (1998), 2635-2650, method 10: Wilson's intervals of both shares, joined by their correlation.

    Args:
        pairs: the shares of A and of B, from 0 to 1, on the same instances.
    """
    if not pairs:
        return None
    count = len(pairs)
    mean_a = fmean(a for a, _ in pairs)
    mean_b = fmean(b for _, b in pairs)
    interval_a = wilson(mean_a * count, count)
    interval_b = wilson(mean_b * count, count)
    covariance = fmean(a * b for a, b in pairs) - mean_a * mean_b
    if (
        covariance > 0
    ):  # a continuity correction, so that equal outcomes are not certain
        covariance = max(0.0, covariance - 1 / (2 * count))
    variance_a = mean_a * (1 - mean_a)
    variance_b = mean_b * (1 - mean_b)
    scale = math.sqrt(variance_a * variance_b)
    correlation = ratio(covariance, scale) or 0.0

    def reach(of_a: float, of_b: float) -> float:
        square = of_a**2 - 2 * correlation * of_a * of_b + of_b**2
        return math.sqrt(max(0.0, square))

    difference = mean_b - mean_a
    below = reach(interval_a.high - mean_a, mean_b - interval_b.low)
    above = reach(mean_a - interval_a.low, interval_b.high - mean_b)
    low = difference - below
    high = difference + above
    if p_value >= 1 - CONFIDENCE:
        low = min(low, 0.0)
        high = max(high, 0.0)
    return Interval(low, high)


def sign_flip_test(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of paired differences; 1 if nothing differs.

    If both sides are equally good, each difference has either sign with probability 1/2. This is
    McNemar's test for shares other than 0 and 1. R. A. Fisher, "The Design of Experiments" (1935),
    section 21; by random signs: E. W. Noreen, "Computer-Intensive Methods for Testing Hypotheses"
    (1989), chapter 2.
    """
    import numpy as np

    values = np.asarray(differences)
    values = values[values != 0]
    if not len(values):
        return 1.0
    generator = np.random.default_rng(SEED)
    observed = abs(values.sum()) - 1e-9
    reached = 0
    for _ in range(RESAMPLES // _PART):
        signs = generator.choice([-1.0, 1.0], size=(_PART, len(values)))
        sums = abs(signs @ values)
        reached += int((sums >= observed).sum())
    return (1 + reached) / (1 + RESAMPLES)


def paired_p_value(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the two-sided p-value of pairs of shares: McNemar's if all are 0 or 1."""
    shares = chain.from_iterable(pairs)
    if not {0, 1}.issuperset(shares):
        differences = [after - before for before, after in pairs]
        return sign_flip_test(differences)
    table = PairedTable.of((before == 1, after == 1) for before, after in pairs)
    return mcnemar_exact(table.only_a, table.only_b)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values that are corrected for their number, in the same order.

    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6 (1979), 65-70.
    """
    count = len(p_values)
    corrected = [1.0] * count
    positions = sorted(range(count), key=lambda n: p_values[n])
    highest = 0.0
    for rank, position in enumerate(positions):
        p_value = p_values[position] * (count - rank)
        highest = max(highest, p_value)
        corrected[position] = min(1.0, highest)
    return corrected


@dataclass(frozen=True)
class ShareRange:
    """A mean share of which some parts are not known.

    Attributes:
        low: what is proven: unknown parts count as 0.
        high: what is possible: they count as 1.
        interval: from Wilson's lower bound of one to the upper bound of the other, 95 %.
    """

    low: float
    high: float
    interval: Interval

    @classmethod
    def of(cls, low: Sequence[float], high: Sequence[float]) -> ShareRange:
        count = len(low)
        lowest = wilson(math.fsum(low), count, correction=0.5)
        highest = wilson(math.fsum(high), count, correction=0.5)
        interval = Interval(lowest.low, highest.high)
        return cls(fmean(low), fmean(high), interval)


def bootstrap_interval(
    parts: Sequence[Any], totals: Sequence[float] = ()
) -> Interval | None:
    """Return the 95 % interval of a mean, or of a ratio of two sums.

    It is None below four values, and if one is None.

    Values are drawn with replacement, three fewer than there are: this widens the interval of
    percentiles as Student's t widens one of the normal distribution. Without it, one of 20 values
    holds the truth in 92 %; T. Hesterberg, "What teachers should know about the bootstrap", The
    American Statistician 69 (2015), 371-386, section 4.4.

    Args:
        parts: of the mean, or above the line; one for each instance.
        totals: below the line; ends without bound are ``inf``.
    """
    import numpy as np

    count = len(parts)
    if count <= _FEWER or None in parts:
        return None
    above = np.asarray(parts, dtype=float)
    below = np.asarray(totals or [1.0] * count)
    dice = np.random.default_rng(SEED)
    drawn = dice.integers(count, size=(RESAMPLES, count - _FEWER))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = above[drawn].sum(axis=1) / below[drawn].sum(axis=1)
    ratios[np.isnan(ratios)] = math.inf
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(ratios, [tail, 1 - tail], method="inverted_cdf")
    return Interval(float(low), float(high))


def needed_instances(table: PairedTable, tests: int = 1) -> int | None:
    """Return how many instances in all would tell two runs apart; None if nothing differs.

    It takes the observed shares of instances that only one of them resolved as true. R. J. Connor,
    "Sample size for testing differences in proportions for the paired-sample design", Biometrics
    43 (1987), 207-211, for a two-sided test.

    Args:
        tests: that share the level of 5 % (Bonferroni).
    """
    difference = table.difference
    if not difference:
        return None
    discordant = (table.only_a + table.only_b) / table.instances
    level = (1 - CONFIDENCE) / tests
    reach = NormalDist().inv_cdf(1 - level / 2) * math.sqrt(discordant)
    reach += NormalDist().inv_cdf(_POWER) * math.sqrt(discordant - difference**2)
    return math.ceil((reach / difference) ** 2)
