"""Pure: paired tests of two runs on the same instances."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import comb

from reports.statistics.methods.intervals import CONFIDENCE, Interval

RESAMPLES = 10_000
SEED = 20240523


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
        """The number of compared instances."""
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

    Args:
        only_a: instances that only the first run resolved, 0 or more.
        only_b: instances that only the second run resolved, 0 or more.
    """
    differing = only_a + only_b
    tail = sum(comb(differing, n) for n in range(min(only_a, only_b) + 1))
    # Integers, because floats of this size would overflow.
    return min(1.0, 2 * tail / (1 << differing))


def bootstrap_difference(
    table: PairedTable,
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    confidence: float = CONFIDENCE,
) -> Interval | None:
    """Return the percentile bootstrap interval of the difference; None without instances.

    Instances are drawn with replacement, each with both of its results. The numbers of each kind
    drawn have a multinomial distribution. B. Efron and R. Tibshirani, "An Introduction
    to the Bootstrap" (1993), chapters 8 and 13.

    Args:
        table: of the two runs.
        resamples: number of draws.
        seed: the same seed gives the same interval.
        confidence: between 0 and 1.
    """
    import numpy as np

    total = table.instances
    if not total:
        return None
    kinds = [table.only_a / total, table.only_b / total, (table.both + table.neither) / total]
    drawn = np.random.default_rng(seed).multinomial(total, kinds, size=resamples)
    differences = (drawn[:, 1] - drawn[:, 0]) / total
    low, high = np.quantile(differences, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))
