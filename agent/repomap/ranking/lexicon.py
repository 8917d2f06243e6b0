"""The look-up tables of an index for queries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.conversation.mentions import FileIndex
from agent.repomap.ranking.index import Index, Ints
from agent.repomap.scanning.words import IDENTIFIER, parts

Floats = NDArray[np.float64]
Places = tuple[NDArray[np.integer], Floats]
"""Numbers of units or files, each with a share between 0 and 1."""

_FOLDER_SHARE = 0.5
# BM25 (Robertson & Zaragoza 2009): saturation of repetition, and weight of length.
K1, _B = 1.2, 0.4


@dataclass(frozen=True)
class Lexicon:
    """Tables of one index, each made on first use and kept for later queries."""

    index: Index

    @cached_property
    def files(self) -> FileIndex:
        return FileIndex.of(self.index.paths)

    @cached_property
    def file_numbers(self) -> dict[str, int]:
        return {path: number for number, path in enumerate(self.index.paths)}

    @cached_property
    def identifier_numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.index.identifiers)}

    @cached_property
    def _stem_numbers(self) -> dict[str, int]:
        return {stem: number for number, stem in enumerate(self.index.stems)}

    @cached_property
    def file_of(self) -> Ints:
        return self.index.file_of

    @cached_property
    def unit_lengths(self) -> Floats:
        return summed(self.index.units, self.index.counts, len(self.file_of))

    @cached_property
    def file_lengths(self) -> Floats:
        return summed(self.file_of, self.unit_lengths, len(self.index.paths))

    @cached_property
    def unit_norms(self) -> Floats:
        return _norms(self.unit_lengths)

    @cached_property
    def file_norms(self) -> Floats:
        return _norms(self.file_lengths)

    @cached_property
    def _defining(self) -> tuple[Ints, Ints]:
        names = self.index.names
        order = np.argsort(names, kind="stable").astype(np.int32)
        starts = np.searchsorted(names[order], np.arange(len(self.index.identifiers) + 1))
        return order, starts.astype(np.int32)

    @cached_property
    def definers(self) -> Ints:
        return np.diff(self._defining[1])

    @cached_property
    def stem_counts(self) -> Floats:
        """The number of stems of each identifier; at least one."""
        number = len(self.index.identifiers)
        counts = np.bincount(self.index.stem_identifiers, minlength=number)
        return np.maximum(counts, 1).astype(np.float64)

    def named(self, name: str) -> Ints:
        number = self.identifier_numbers.get(name)
        return self.defining(np.array([] if number is None else [number], np.int64))

    def defining(self, identifiers: NDArray[np.integer]) -> Ints:
        order, starts = self._defining
        units: Ints = order[_ranges(starts[identifiers], starts[identifiers + 1])]
        return units

    @cached_property
    def path_stems(self) -> dict[str, Places]:
        """For each stem the files with it in their path: the base name counts 1, folders half."""
        found: dict[str, dict[int, float]] = {}
        stems = cache(lambda text: [s for word in IDENTIFIER.findall(text) for s in parts(word)])
        for number, path in enumerate(self.index.paths):
            folders, _, base = path.rpartition("/")
            for text, share in ((base.rpartition(".")[0] or base, 1.0), (folders, _FOLDER_SHARE)):
                for stem in stems(text):
                    found.setdefault(stem, {}).setdefault(number, share)
        return {
            key: (np.array(list(places), np.int64), np.array(list(places.values())))
            for key, places in found.items()
        }

    def holding(self, stem: str) -> Ints:
        """Return the numbers of the identifiers that hold ``stem``."""
        number = self._stem_numbers.get(stem)
        if number is None:
            return np.empty(0, np.int32)
        starts = self.index.stem_starts
        return self.index.stem_identifiers[starts[number] : starts[number + 1]]

    def postings(self, identifiers: NDArray[np.integer]) -> tuple[Ints, NDArray[np.uint8]]:
        """Return the units that hold ``identifiers``, and how often."""
        index = self.index
        at = _ranges(index.starts[identifiers], index.starts[identifiers + 1])
        return index.units[at], index.counts[at]

    def qualifiers(self, unit: int) -> tuple[str, str]:
        """Return the names that may precede the dot: the definition around ``unit``, its module."""
        around = self.index.definition(int(self.index.parents[unit])).name
        base = self.index.paths[self.file_of[unit]].rpartition("/")[2]
        return around, base.partition(".")[0]

    def kind_factors(self, type_factor: float) -> Floats:
        """Return ``type_factor`` for each class or similar, 1 for functions, 0 for files."""
        factors: Floats = np.array([0.0, type_factor, 1.0])
        return factors[self.index.kinds]


def _norms(lengths: Floats) -> Floats:
    return 1 - _B + _B * lengths / (lengths.mean() or 1.0)


def summed(places: NDArray[np.integer], values: NDArray[Any], number: int) -> Floats:
    """Return for each of ``number`` places the sum of its values."""
    return np.bincount(places, values, number).astype(np.float64, copy=False)


def _ranges(starts: NDArray[np.integer], ends: NDArray[np.integer]) -> NDArray[np.integer]:
    sizes = ends - starts
    return np.repeat(ends - np.cumsum(sizes), sizes) + np.arange(sizes.sum())
