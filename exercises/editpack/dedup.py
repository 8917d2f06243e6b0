"""Near-duplicates among texts: MinHash, bands, clusters, and the row of each that stays. Pure.

As the published EditPackFT was made (near-deduplication of BigCode, arXiv:2211.15533, on
CommitPackFT's rows): a text is split at each ``\\W`` and lowered, its 5-grams are a set, and sets
that agree in one band of their signatures are joined. Adjacent separators leave empty tokens, so
indentation counts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from datasketch import MinHash
    from numpy.typing import NDArray

GRAM = 5
"""Tokens in a shingle; a shorter text has none."""
SEED = 1
_SEPARATOR = re.compile(r"\W")
# Shingles whose permutations are in memory at once; more gain no speed.
_AT_ONCE = 256
_SHORT_HASH = 0xFFFFFFFF

Alike = Callable[[int, int], bool]


@dataclass(frozen=True)
class Banding:
    """How a signature is cut: sets that agree in all rows of one of the bands are candidates."""

    bands: int
    rows: int

    @property
    def width(self) -> int:
        return self.bands * self.rows


@cache
def banding(threshold: float, permutations: int) -> Banding:
    """Return the bands with the smallest sum of false positives and negatives at a threshold.

    The sum is datasketch's: both integrals weigh the same.
    """
    from datasketch import MinHashLSH

    found = MinHashLSH(threshold=threshold, num_perm=permutations)
    return Banding(found.b, found.r)


def shingles(text: str) -> NDArray[np.uint64]:
    """Return the hashes of a text's 5-grams, sorted, each once.

    A hash is the first 8 bytes of SHA-1. Its lower half is what datasketch hashes bytes to.
    """
    import numpy as np

    tokens = _SEPARATOR.split(text.lower())
    grams = set(map(" ".join, zip(*(tokens[n:] for n in range(GRAM)), strict=False)))
    return np.unique(np.frombuffer(b"".join(map(_digest, grams)), dtype="<u8"))


def _digest(gram: str) -> bytes:
    return hashlib.sha1(gram.encode()).digest()[:8]


def signature(found: NDArray[np.uint64], permutations: int) -> NDArray[np.uint32]:
    """Return datasketch's MinHash of shingles: a value for each permutation."""
    sketch = _empty_sketch(permutations).copy()
    hashes = (found & _SHORT_HASH).tolist()
    for start in range(0, len(hashes), _AT_ONCE):
        sketch.update_batch(hashes[start : start + _AT_ONCE])
    values: NDArray[np.uint32] = sketch.hashvalues
    return values


@cache
def _empty_sketch(permutations: int) -> MinHash:
    from datasketch import MinHash

    return MinHash(num_perm=permutations, seed=SEED, hashfunc=int)


def similar(one: NDArray[np.uint64], other: NDArray[np.uint64], threshold: float) -> bool:
    """Tell whether two sets of shingles have a Jaccard similarity of at least ``threshold``."""
    import numpy as np

    small, large = sorted((len(one), len(other)))
    if small < threshold * large:
        return False
    common = len(np.intersect1d(one, other, assume_unique=True))
    return common >= threshold * (small + large - common)


class UnionFind:
    """Sets of numbers below ``size``; the smallest number of a set stands for it."""

    def __init__(self, size: int) -> None:
        self._parents = list(range(size))

    def find(self, number: int) -> int:
        """Return the smallest number of the set that ``number`` is in."""
        parents = self._parents
        while (parent := parents[number]) != number:
            parents[number] = parents[parent]
            number = parent
        return number

    def join(self, one: int, other: int) -> None:
        small, large = sorted((self.find(one), self.find(other)))
        self._parents[large] = small

    def clusters(self) -> list[list[int]]:
        """Return the sets of more than one number, each in order, by their first."""
        found: dict[int, list[int]] = {}
        for number in range(len(self._parents)):
            if (first := self.find(number)) != number:
                found.setdefault(first, [first]).append(number)
        return [found[first] for first in sorted(found)]


def buckets(signatures: NDArray[np.uint32], cut: Banding) -> Iterator[list[int]]:
    """Yield the rows of ``signatures`` (texts × values) that agree in a band, band by band.

    One band is in memory at a time.
    """
    import numpy as np

    for band in range(cut.bands):
        values = np.ascontiguousarray(signatures[:, band * cut.rows : (band + 1) * cut.rows])
        order = np.lexsort(values.T)
        values = values[order]
        starts = np.flatnonzero(np.r_[True, (values[1:] != values[:-1]).any(axis=1)])
        sizes = np.diff(np.r_[starts, len(order)])
        for start, size in zip(starts[sizes > 1], sizes[sizes > 1], strict=True):
            yield order[start : start + size].tolist()


def join_all(numbers: Iterable[int], joined: UnionFind) -> None:
    first, *others = numbers
    for other in others:
        joined.join(first, other)


def join_alike(numbers: Iterable[int], joined: UnionFind, alike: Alike) -> int:
    """Join those numbers that are alike, and return how many pairs were compared.

    Numbers of one set are not compared: that changes nothing.
    """
    compared = 0
    seen: dict[int, list[int]] = {}
    for number in numbers:
        for first, members in seen.items():
            for member in members:
                if joined.find(first) == joined.find(number):
                    break
                compared += 1
                if alike(number, member):
                    joined.join(number, member)
        seen.setdefault(joined.find(number), []).append(number)
    return compared


def replaced(clusters: Iterable[Sequence[int]], worth: Sequence[float]) -> dict[int, int]:
    """Return by which row each row that goes is replaced: the first one of the greatest worth."""
    kept = {max(rows, key=lambda row: (worth[row], -row)): rows for rows in clusters}
    return {row: stays for stays, rows in kept.items() for row in rows if row != stays}
