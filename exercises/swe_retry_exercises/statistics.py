"""Pure: means over problems, compared by the bootstrap, with their sources."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from swe_retry.kit import Interval

CONFIDENCE = 0.95
RESAMPLES = 10_000
SEED = 20240523
_PART = 1000


@dataclass(frozen=True)
class MeanComparison:
    """The mean shares of two runs over the problems that both have.

    Attributes:
        left_out: the number of problems that only one run has.
        difference: B minus A; like its interval None without problems.
    """

    problems: int
    left_out: int
    difference: float | None
    interval: Interval | None


def compare_means(a: Mapping[str, float], b: Mapping[str, float]) -> MeanComparison:
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
    changes = []
    for name in sorted(a.keys() & b.keys()):
        change = b[name] - a[name]
        if not math.isfinite(change):
            raise ValueError(f"not a share: {name} has {a[name]} and {b[name]}")
        changes.append(change)
    return MeanComparison(
        problems=len(changes),
        left_out=len(a.keys() ^ b.keys()),
        difference=fmean(changes) if changes else None,
        interval=bootstrap_mean(changes),
    )


def bootstrap_mean(shares: Iterable[float]) -> Interval | None:
    """Return the 95 % percentile bootstrap interval of a mean over problems; None without problems.

    The order of the shares does not matter.
    """
    import numpy as np

    numbers = dict(sorted(Counter(shares).items()))
    total = sum(numbers.values())
    if not total:
        return None
    generator = np.random.default_rng(SEED)
    values = np.asarray(list(numbers))
    chances = [number / total for number in numbers.values()]
    sums = []
    # A table of all resamples at once would be large.
    for _ in range(RESAMPLES // _PART):
        drawn = generator.multinomial(total, chances, size=_PART)
        sums.append(drawn @ values)
    means = np.concatenate(sums) / total
    bounds = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    low, high = np.quantile(means, bounds)
    return Interval(float(low), float(high))
