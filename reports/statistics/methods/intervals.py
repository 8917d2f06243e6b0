"""Pure: shares and their confidence intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

CONFIDENCE = 0.95


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
