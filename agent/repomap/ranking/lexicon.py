"""Tables of one index: the units and files of names, words and stems."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swe_retry.agent.mentions import FileIndex
from swe_retry.agent.repomap.ranking.index import Index, Ints, Numbers
from swe_retry.agent.repomap.scanning.tags import IDENTIFIER, parts

Floats = NDArray[np.float64]
Shares = tuple[Numbers, Floats]
"""Numbers of units or files, each with a share between 0 and 1."""
_FOLDER_SHARE = 0.5
# BM25 (Robertson & Zaragoza 2009): saturation of repetition, and weight of length.
K1 = 1.2
_B = 0.4


@dataclass(frozen=True)
class Lexicon:
    """Tables of one index, each made on first use and kept for later queries."""

    index: Index

    @cached_property
    def files(self) -> FileIndex:
        return FileIndex.of(self.index.paths)

    @cached_property
    def file_numbers(self) -> dict[str, int]:
        return _numbers(self.index.paths)

    @cached_property
    def identifier_numbers(self) -> dict[str, int]:
        return _numbers(self.index.identifiers)

    @cached_property
    def _stem_numbers(self) -> dict[str, int]:
        return _numbers(self.index.stems)

    @cached_property
    def file_of(self) -> Ints:
        files = np.arange(len(self.index.paths), dtype=np.int32)
        unit_counts = np.diff(self.index.first_unit)
        return np.repeat(files, unit_counts)

    @cached_property
    def unit_lengths(self) -> Floats:
        index = self.index
        return sum_by_number(index.units, index.counts, len(index.rows))

    @cached_property
    def file_lengths(self) -> Floats:
        return sum_by_number(self.file_of, self.unit_lengths, len(self.index.paths))

    @cached_property
    def unit_norms(self) -> Floats:
        return _norms(self.unit_lengths)

    @cached_property
    def file_norms(self) -> Floats:
        return _norms(self.file_lengths)

    @cached_property
    def _units_by_name(self) -> tuple[Ints, Ints]:
        names = self.index.names
        order = np.argsort(names, kind="stable").astype(np.int32)
        identifiers = np.arange(len(self.index.identifiers) + 1)
        starts = np.searchsorted(names[order], identifiers)
        return order, starts.astype(np.int32)

    @cached_property
    def definition_counts(self) -> Ints:
        return np.diff(self._units_by_name[1])

    @cached_property
    def stem_counts(self) -> Floats:
        """The number of stems of each identifier; at least one."""
        number = len(self.index.identifiers)
        counts = np.bincount(self.index.stem_identifiers, minlength=number)
        return np.maximum(counts, 1).astype(np.float64)

    def units_named(self, name: str) -> Ints:
        number = self.identifier_numbers.get(name)
        if number is None:
            return np.empty(0, np.int32)
        return self.units_defining(np.array([number]))

    def units_defining(self, identifiers: Numbers) -> Ints:
        order, starts = self._units_by_name
        positions = _ranges(starts[identifiers], starts[identifiers + 1])
        units: Ints = order[positions]
        return units

    @cached_property
    def path_stems(self) -> dict[str, Shares]:
        """For each stem the files with it in their path: the base name counts 1, folders half."""
        stems_of = cache(_stems_of)
        shares_by_stem: dict[str, dict[int, float]] = {}
        for number, path in enumerate(self.index.paths):
            folders, _, base = path.rpartition("/")
            name = base.rpartition(".")[0] or base
            for stem in stems_of(name):
                shares_by_stem.setdefault(stem, {})[number] = 1.0
            for stem in stems_of(folders):
                shares_by_stem.setdefault(stem, {}).setdefault(number, _FOLDER_SHARE)
        path_stems: dict[str, Shares] = {}
        for stem, shares in shares_by_stem.items():
            numbers = np.array(list(shares), np.int64)
            values = np.array(list(shares.values()))
            path_stems[stem] = (numbers, values)
        return path_stems

    def identifiers_with(self, stem: str) -> Ints:
        """Return the numbers of the identifiers that hold ``stem``."""
        number = self._stem_numbers.get(stem)
        if number is None:
            return np.empty(0, np.int32)
        start = self.index.stem_starts[number]
        end = self.index.stem_starts[number + 1]
        return self.index.stem_identifiers[start:end]

    def postings(self, identifiers: Numbers) -> tuple[Ints, NDArray[np.uint8]]:
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


def _stems_of(text: str) -> list[str]:
    stems: list[str] = []
    for identifier in IDENTIFIER.findall(text):
        stems += parts(identifier)
    return stems


def _norms(lengths: Floats) -> Floats:
    mean = lengths.mean() or 1.0
    return 1 - _B + _B * lengths / mean


def sum_by_number(numbers: Numbers, values: NDArray[Any], size: int) -> Floats:
    """Return for each of ``size`` places the sum of its values."""
    sums = np.bincount(numbers, values, size)
    return sums.astype(np.float64, copy=False)


def _ranges(starts: Numbers, ends: Numbers) -> Numbers:
    """Return the numbers of all ranges one after another."""
    sizes = ends - starts
    shifts = np.repeat(ends - np.cumsum(sizes), sizes)
    return shifts + np.arange(sizes.sum())
