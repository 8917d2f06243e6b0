"""How well each unit and each file of an index fits a query, one number per kind of evidence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from agent.mentions import FileIndex
from agent.repomap.index import Index, Ints
from agent.repomap.query import Query
from agent.repomap.words import IDENTIFIER, parts

Floats = NDArray[np.float64]

# BM25 (Robertson & Zaragoza 2009): how fast repetition stops counting, how much length does.
_K1, _B = 1.2, 0.4


@dataclass(frozen=True)
class Lexicon:
    """An index with its look-up tables; made once for many queries."""

    index: Index

    @cached_property
    def identifier_numbers(self) -> dict[str, int]:
        """Place of each identifier."""
        return {word: number for number, word in enumerate(self.index.identifiers)}

    @cached_property
    def stem_numbers(self) -> dict[str, int]:
        """Place of each stem."""
        return {stem: number for number, stem in enumerate(self.index.stems)}

    @cached_property
    def files(self) -> FileIndex:
        """All paths, to be found in texts."""
        return FileIndex.of(self.index.paths)

    @cached_property
    def file_of(self) -> Ints:
        """The file of each unit."""
        return self.index.file_of

    @cached_property
    def unit_lengths(self) -> Floats:
        """Words in each unit."""
        size = len(self.file_of)
        return np.bincount(self.index.units, self.index.counts, size).astype(np.float64)

    @cached_property
    def file_lengths(self) -> Floats:
        """Words in each file."""
        return np.bincount(self.file_of, self.unit_lengths, len(self.index.paths))

    @cached_property
    def named(self) -> dict[str, list[int]]:
        """The units that define each name."""
        found: dict[str, list[int]] = {}
        for unit, definition in enumerate(self.index.definitions):
            if definition.name:
                found.setdefault(definition.name, []).append(unit)
        return found

    @cached_property
    def name_stems(self) -> dict[str, list[tuple[int, float]]]:
        """For each stem the units whose name holds it, with its share of the name."""
        found: dict[str, list[tuple[int, float]]] = {}
        for name, units in self.named.items():
            stems = parts(name)
            for stem in stems:
                found.setdefault(stem, []).extend((unit, 1.0 / len(stems)) for unit in units)
        return found

    @cached_property
    def path_stems(self) -> dict[str, list[tuple[int, float]]]:
        """For each stem the files whose path holds it: the base name counts full, folders half."""
        found: dict[str, list[tuple[int, float]]] = {}
        for number, path in enumerate(self.index.paths):
            weights: dict[str, float] = {}
            for depth, folder in enumerate(reversed(path.rsplit(".", 1)[0].split("/"))):
                for word in IDENTIFIER.findall(folder):
                    for stem in parts(word):
                        weights.setdefault(stem, 1.0 if depth == 0 else 0.5)
            for stem, weight in weights.items():
                found.setdefault(stem, []).append((number, weight))
        return found


@dataclass(frozen=True)
class Evidence:
    """Numbers of no unit but comparable within one kind; zero means none."""

    unit_stems: Floats
    unit_identifiers: Floats
    unit_names: Floats
    unit_name_stems: Floats
    unit_qualified: Floats
    file_stems: Floats
    file_identifiers: Floats
    file_names: Floats
    file_paths: Floats
    file_frames: Floats
    unit_frames: Floats


def weigh(lexicon: Lexicon, query: Query) -> Evidence:
    """Return the evidence of ``query`` for each unit and file."""
    index = lexicon.index
    units, files = len(index.definitions), len(index.paths)
    unit_stems, file_stems = np.zeros(units), np.zeros(files)
    unit_ids, file_ids = np.zeros(units), np.zeros(files)
    names, file_names = np.zeros(units), np.zeros(files)
    name_stems, paths, qualified = np.zeros(units), np.zeros(files), np.zeros(units)
    for stem, weight in query.stems.items():
        number = lexicon.stem_numbers.get(stem)
        if number is not None:
            held = index.stem_identifiers[index.stem_starts[number] : index.stem_starts[number + 1]]
            _bm25(lexicon, held, weight, unit_stems, file_stems)
        _spread(lexicon.name_stems.get(stem, []), weight, units, name_stems)
        _spread(lexicon.path_stems.get(stem, []), weight, files, paths)
    for word, weight in query.identifiers.items():
        number = lexicon.identifier_numbers.get(word)
        if number is not None:
            _bm25(lexicon, np.array([number]), weight, unit_ids, file_ids)
        defining = lexicon.named.get(word, [])
        if defining:
            value = weight * np.log(1 + len(lexicon.named) / len(defining)) / len(defining) ** 0.5
            names[defining] += value
            seen = np.unique(lexicon.file_of[defining])
            file_names[seen] += value
    for before, name in query.qualified:
        for unit in lexicon.named.get(name, []):
            around = index.definitions[index.parents[unit]].name
            base = index.paths[lexicon.file_of[unit]].rsplit("/", 1)[-1].rsplit(".", 1)[0]
            if before in (around, base):
                qualified[unit] += 1
    frames, unit_frames = np.zeros(files), np.zeros(units)
    numbers = {path: n for n, path in enumerate(index.paths)}
    for place, (path, function) in enumerate(reversed(query.frames)):
        for named in lexicon.files.mentioned(path):
            file = numbers[named]
            value = 1.0 / (1 + place) ** 0.5
            frames[file] = max(frames[file], value)
            for unit in lexicon.named.get(function, []):
                if lexicon.file_of[unit] == file:
                    unit_frames[unit] = max(unit_frames[unit], value)
    return Evidence(
        unit_stems, unit_ids, names, name_stems, qualified,
        file_stems, file_ids, file_names, paths, frames, unit_frames,
    )


def _bm25(
    lexicon: Lexicon, identifiers: NDArray[np.integer], weight: float, units: Floats, files: Floats
) -> None:
    """Add what a word, which stands as any of ``identifiers``, tells of units and files."""
    index = lexicon.index
    starts, ends = index.starts[identifiers], index.starts[identifiers + 1]
    at = np.repeat(ends - np.cumsum(ends - starts), ends - starts) + np.arange(
        (ends - starts).sum()
    )
    where, counts = index.units[at], index.counts[at]
    in_units = np.bincount(where, counts, len(units))
    in_files = np.bincount(lexicon.file_of[where], counts, len(files))
    idf = _idf(int(np.count_nonzero(in_files)), len(files))
    unit_idf = _idf(int(np.count_nonzero(in_units)), len(units))
    units += weight * unit_idf * _saturated(in_units, lexicon.unit_lengths)
    files += weight * idf * _saturated(in_files, lexicon.file_lengths)


def _saturated(counts: Floats, lengths: Floats) -> Floats:
    mean = lengths.mean() or 1.0
    return counts * (_K1 + 1) / (counts + _K1 * (1 - _B + _B * lengths / mean))


def _idf(holding: int, number: int) -> float:
    return float(np.log(1 + (number - holding + 0.5) / (holding + 0.5)))


def _spread(places: list[tuple[int, float]], weight: float, number: int, target: Floats) -> None:
    if places:
        value = weight * _idf(len(places), number)
        for place, share in places:
            target[place] += value * share
