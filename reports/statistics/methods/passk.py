"""Pure: pass@k, the probability that one of k attempts is good."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from statistics import fmean


def pass_at_k(attempts: int, good: int, k: int) -> float:
    """Return the probability that one of ``k`` attempts drawn without replacement is good.

    The unbiased estimator of M. Chen et al., "Evaluating large language models trained on code"
    (2021), arXiv:2107.03374, equation 1: ``1 - C(n - c, k) / C(n, k)``.

    Raises:
        ValueError: ``good`` or ``k`` is out of range.
    """
    if not 0 <= good <= attempts or not 1 <= k <= attempts:
        raise ValueError(f"no pass@{k} of {good} good ones among {attempts}")
    return 1 - comb(attempts - good, k) / comb(attempts, k)


def mean_pass_at_k(counts: Sequence[tuple[int, int]], k: int) -> float:
    """Return the mean of pass@k over instances, of which ``counts`` has attempts and good ones."""
    return fmean(pass_at_k(attempts, good, k) for attempts, good in counts)
