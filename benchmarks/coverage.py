"""How often the lab's intervals hold the truth, against the 95 % that they state.

``python -m benchmarks.coverage``.

Draws outcomes of n instances with a known share, and pairs of outcomes with a known difference,
2,000 times each, and prints for each n how often the 95 % intervals hold the truth: the least and
the mean over shares from 0.02 to 0.98. Ends with 1 if any falls below 93 %.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from statistics import fmean

import numpy as np

from swe_retry.report.statistics.methods import (
    SEED,
    Interval,
    ShareRange,
    mcnemar_exact,
    paired_interval,
)

SIZES = (5, 6, 8, 10, 15, 20, 30, 47, 100, 200, 500)
SHARES = (0.02, 0.03, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.97, 0.98)
CHANGES = (0.0, 0.1, 0.3)
"""How often the outcome of a second run is drawn again, with half or all of the first's share."""
DRAWS = 2000
LEAST = 0.93


@cache
def share_interval(count: int, of: int) -> Interval:
    outcomes = [1.0] * count
    outcomes += [0.0] * (of - count)
    return ShareRange.of(outcomes, outcomes).interval


@cache
def difference_interval(both: int, only_a: int, only_b: int, neither: int) -> Interval:
    pairs = [(1.0, 1.0)] * both
    pairs += [(1.0, 0.0)] * only_a
    pairs += [(0.0, 1.0)] * only_b
    pairs += [(0.0, 0.0)] * neither
    interval = paired_interval(pairs, mcnemar_exact(only_a, only_b))
    assert interval
    return interval


def share_coverage(size: int, dice: np.random.Generator) -> Iterator[float]:
    """Yield for each share how often its interval holds it."""
    for share in SHARES:
        hits = 0
        counts = dice.binomial(size, share, DRAWS)
        for count in counts.tolist():
            interval = share_interval(count, size)
            hits += interval.low <= share <= interval.high
        yield hits / DRAWS


def difference_coverage(size: int, dice: np.random.Generator) -> Iterator[float]:
    """Yield for each pair of correlated shares how often the interval holds their difference."""
    for share in SHARES:
        for change in CHANGES:
            for factor in (0.5, 1.0):
                again = change * share * factor
                only_a = share * change - share * again
                only_b = (1 - share) * again
                both = share - only_a
                neither = 1 - both - only_a - only_b
                chances = (both, only_a, only_b, neither)
                yield _coverage(size, chances, dice)


def _coverage(size: int, chances: Sequence[float], dice: np.random.Generator) -> float:
    difference = chances[2] - chances[1]
    hits = 0
    for table in dice.multinomial(size, chances, DRAWS):
        interval = difference_interval(*map(int, table))
        # Sums of floats differ in the last bits.
        hits += interval.low - 1e-9 <= difference <= interval.high + 1e-9
    return hits / DRAWS


def main() -> int:
    """Print least and mean coverage by size; return 1 where it is too low."""
    dice = np.random.default_rng(SEED)
    least = 1.0
    print("instances  share: least  mean   difference: least  mean")
    for size in SIZES:
        shares = list(share_coverage(size, dice))
        differences = list(difference_coverage(size, dice))
        least = min(least, *shares, *differences)
        cells = []
        for group in (shares, differences):
            for value in (min(group), fmean(group)):
                cells.append(f"{100 * value:.1f} %")
        line = "  ".join(cells)
        print(f"{size:9}  {line}")
    return int(least < LEAST)


if __name__ == "__main__":
    sys.exit(main())
