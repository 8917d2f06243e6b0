"""Tables of one index: the units and files of names, words and stems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swe_retry.agent.mentions import FileIndex
from swe_retry.agent.repomap.ranking.index import Index, Integers, Ints
from swe_retry.agent.repomap.scanning.tags import IDENTIFIER, parts

Floats = NDArray[np.float64]
Shares = tuple[Integers, Floats]
"""Numbers of units or files, each with a share between 0 and 1."""
_FOLDER_SHARE = 0.5
# BM25 (Robertson & Zaragoza 2009): saturation of repetition, and weight of length.
K1 = 1.2
_B = 0.4


class Lexicon:
    """Tables of one index, for all queries.

    Attributes:
        file_of: the file of each unit.
        stem_counts: the number of stems of each identifier; at least one.
        path_stems: for each stem the files with it in their path: the base name counts 1,
            folders half.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        self.files = FileIndex(index.paths)
        self.file_numbers = _numbers(index.paths)
        self.identifier_numbers = _numbers(index.identifiers)
        self.stem_numbers = _numbers(index.stems)
        file_count = len(index.paths)
        files = np.arange(file_count, dtype=np.int32)
        self.file_of: Ints = np.repeat(files, np.diff(index.first_unit))
        self.unit_lengths = sum_by_number(index.units, index.counts, len(index.rows))
        self.file_lengths = sum_by_number(self.file_of, self.unit_lengths, file_count)
        self.unit_norms = _norms(self.unit_lengths)
        self.file_norms = _norms(self.file_lengths)
        self.units_by_name = np.argsort(index.names, kind="stable").astype(np.int32)
        identifiers = np.arange(len(index.identifiers) + 1)
        starts = np.searchsorted(index.names[self.units_by_name], identifiers)
        self.name_starts = starts.astype(np.int32)
        self.definition_counts: Ints = np.diff(self.name_starts)
        counts = np.bincount(index.stem_identifiers, minlength=len(index.identifiers))
        self.stem_counts = np.maximum(counts, 1).astype(np.float64)
        self.path_stems = _path_stems(index.paths)

    def units_named(self, name: str) -> Ints:
        number = self.identifier_numbers.get(name)
        if number is None:
            return np.empty(0, np.int32)
        return self.units_defining(np.array([number]))

    def units_defining(self, identifiers: Integers) -> Ints:
        starts = self.name_starts
        positions = _ranges(starts[identifiers], starts[identifiers + 1])
        return self.units_by_name[positions]

    def identifiers_with(self, stem: str) -> Ints:
        """Return the numbers of the identifiers that hold ``stem``."""
        number = self.stem_numbers.get(stem)
        if number is None:
            return np.empty(0, np.int32)
        start = self.index.stem_starts[number]
        end = self.index.stem_starts[number + 1]
        return self.index.stem_identifiers[start:end]

    def postings(self, identifiers: Integers) -> tuple[Ints, NDArray[np.uint8]]:
        """Return the units that hold ``identifiers``, and how often."""
        index = self.index
        positions = _ranges(index.starts[identifiers], index.starts[identifiers + 1])
        return index.units[positions], index.counts[positions]

    def qualifiers(self, unit: int) -> tuple[str, str]:
        """Return the names that may precede the dot: the definition around ``unit``, its module."""
        enclosing = self.index.definition(int(self.index.parents[unit]))
        path = self.index.paths[self.file_of[unit]]
        base = path.rpartition("/")[2]
        return enclosing.name, base.partition(".")[0]


def _numbers(names: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}


def _path_stems(paths: Sequence[str]) -> dict[str, Shares]:
    stems_of = cache(_stems_of)
    shares_by_stem: dict[str, dict[int, float]] = defaultdict(dict)
    for number, path in enumerate(paths):
        folders, _, base = path.rpartition("/")
        name = base.rpartition(".")[0] or base
        for stem in stems_of(name):
            shares_by_stem[stem][number] = 1.0
        for stem in stems_of(folders):
            shares_by_stem[stem].setdefault(number, _FOLDER_SHARE)
    path_stems: dict[str, Shares] = {}
    for stem, shares in shares_by_stem.items():
        numbers = np.array(list(shares), np.int64)
        path_stems[stem] = (numbers, np.array(list(shares.values())))
    return path_stems


def _stems_of(text: str) -> list[str]:
    stems: list[str] = []
    for identifier in IDENTIFIER.findall(text):
        stems += parts(identifier)
    return stems


def _norms(lengths: Floats) -> Floats:
    mean = lengths.sum() / max(1, len(lengths)) or 1.0
    return 1 - _B + _B * lengths / mean


def sum_by_number(numbers: Integers, values: NDArray[Any], size: int) -> Floats:
    """Return for each of ``size`` places the sum of its values."""
    sums = np.bincount(numbers, values, size)
    return sums.astype(np.float64, copy=False)


def _ranges(starts: Integers, ends: Integers) -> Integers:
    """Return the numbers of all ranges one after another."""
    sizes = ends - starts
    shifts = np.repeat(ends - np.cumsum(sizes), sizes)
    return shifts + np.arange(sizes.sum())
