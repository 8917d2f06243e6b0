"""The inverted index of one tree: from words to their places."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.conversation.mentions import FileIndex
from agent.repomap.scanning.tags import IDENTIFIER, Definition, FileTags, parts

Ints = NDArray[np.int32]

FILE, TYPE, FUNCTION = 0, 1, 2

LAYOUT = 4
"""Part of the key in the store, because other layouts cannot be unpacked."""

# The parts never contain them: paths hold no NUL, and one-line texts no separators.
_UNIT, _FIELD, _DECORATOR = "\0", "\x1f", "\x1e"
_UTF8 = ("utf-8", "surrogateescape")
_MOST_COUNTED = 255
_KINDS = {"file": FILE, "type": TYPE, "function": FUNCTION}
_NAMELESS = Definition("", "file", 1, 1, -1, "")


@dataclass(frozen=True)
class Index:
    """The units of a tree, file by file: first the file's own unit, then its definitions.

    Attributes:
        paths: sorted; includes files without definitions.
        first_unit: of each file, and the number of all units at the end.
        parents: unit around each unit; of a file's own unit the unit itself.
        names: place of each unit's name among ``identifiers``; -1 for a file's own unit, and for
            names of one character, which are not identifiers.
        kinds: of each unit one of ``FILE``, ``TYPE``, ``FUNCTION``.
        rows: each unit's definition as text, which ``definition`` parses: few are needed.
        identifiers: all words of all units, sorted.
        starts, units, counts: for identifier ``i``, ``units[starts[i]:starts[i + 1]]`` are the
            units where it stands, in order, ``counts`` how often (255 stands for more).
        stems: sorted; the parts of identifiers.
        stem_starts, stem_identifiers: for each stem the identifiers that hold it, likewise.
    """

    paths: tuple[str, ...]
    first_unit: Ints
    parents: Ints
    names: Ints
    kinds: NDArray[np.uint8]
    rows: tuple[str, ...]
    identifiers: tuple[str, ...]
    starts: Ints
    units: Ints
    counts: NDArray[np.uint8]
    stems: tuple[str, ...]
    stem_starts: Ints
    stem_identifiers: Ints

    def definition(self, unit: int) -> Definition:
        """Return the definition of ``unit``; for the file's own unit it has no name."""
        return _definition(self.rows[unit])

    def definitions_of(self, file: int) -> tuple[Definition, ...]:
        rows = self.rows[self.first_unit[file] + 1 : self.first_unit[file + 1]]
        return tuple(map(_definition, rows))

    def pack(self) -> Iterator[tuple[str, bytes]]:
        """Yield the parts of the index by name, as the whole would be in memory twice."""
        for part in fields(self):
            value = getattr(self, part.name)
            is_array = isinstance(value, np.ndarray)
            yield (
                part.name,
                value.tobytes() if is_array else _UNIT.join(value).encode(*_UTF8),
            )

    @classmethod
    def unpack(cls, packed: Mapping[str, bytes]) -> Index:
        values: dict[str, Any] = {}
        try:
            for name in (part.name for part in fields(cls)):
                data = packed[name]
                if name in ("paths", "rows", "identifiers", "stems"):
                    values[name] = (
                        tuple(data.decode(*_UTF8).split(_UNIT)) if data else ()
                    )
                else:
                    kind = np.uint8 if name in ("kinds", "counts") else np.int32
                    values[name] = np.frombuffer(data, kind)
        except LookupError as error:
            raise ValueError(f"not a packed index: without {error}") from error
        index = cls(**values)
        if not len(index.rows) == len(index.kinds) == index.first_unit[-1]:
            raise ValueError("not a packed index: its parts do not fit")
        return index


def _definition(text: str) -> Definition:
    name, kind, first, last, parent, signature, decorators, doc = text.split(_FIELD)
    marks = tuple(decorators.split(_DECORATOR)) if decorators else ()
    return Definition(
        name, kind, int(first), int(last), int(parent), signature, marks, doc
    )


@dataclass(frozen=True)
class _File:
    """The data of one file in the builder; the last three are parallel, one entry a word."""

    rows: tuple[str, ...]
    names: tuple[str, ...]
    kinds: bytes
    parents: array[int]
    words: array[int]
    units: array[int]
    counts: array[int]


@dataclass
class IndexBuilder:
    """Builds an index from the tags of one file after another, in little memory."""

    _numbers: dict[str, int] = field(default_factory=dict)
    _files: dict[str, _File] = field(default_factory=dict)

    def add(self, path: str, tags: FileTags) -> None:
        numbers = self._numbers
        words, units, counts = array("i"), array("i"), array("B")
        for unit, found in enumerate(tags.words):
            words.extend([numbers.setdefault(word, len(numbers)) for word in found])
            units.extend([unit] * len(found))
            counts.extend([min(count, _MOST_COUNTED) for count in found.values()])
        definitions = (_NAMELESS, *tags.definitions)
        rows = []
        for d in definitions:
            decorators = _DECORATOR.join(d.decorators)
            lines = (str(d.first), str(d.last), str(d.parent))
            rows.append(
                _FIELD.join((d.name, d.kind, *lines, d.signature, decorators, d.doc))
            )
        self._files[path] = _File(
            tuple(rows),
            tuple(d.name for d in definitions),
            bytes(_KINDS[d.kind] for d in definitions),
            array("i", [d.parent + 1 for d in definitions]),
            words,
            units,
            counts,
        )

    def build(self, paths: Iterable[str]) -> Index:
        """Return the index of ``paths``; those whose tags were not added have no definitions.

        The builder is empty afterwards.
        """
        names = tuple(sorted(paths))
        empty = FileTags()
        for path in names:
            if path not in self._files:
                self.add(path, empty)
        files = [self._files.pop(path) for path in names]
        numbers, self._numbers = self._numbers, {}
        return _index(names, files, numbers)


def _index(
    paths: tuple[str, ...], files: Sequence[_File], numbers: dict[str, int]
) -> Index:
    identifiers = tuple(sorted(numbers))
    place = np.empty(len(identifiers), np.int32)
    place[[numbers[word] for word in identifiers]] = np.arange(len(identifiers))
    first_unit = np.cumsum([0, *(len(f.rows) for f in files)]).astype(np.int32)
    word = place[_concatenated([f.words for f in files], np.int32)]
    unit = _concatenated([f.units for f in files], np.int32)
    unit += np.repeat(first_unit[:-1], [len(f.units) for f in files])
    order = np.argsort(word, kind="stable").astype(np.int32)
    parents = _concatenated([f.parents for f in files], np.int32)
    stems, stem_starts, stem_identifiers = _stemmed(identifiers)
    known = [numbers.get(name, -1) for f in files for name in f.names]
    return Index(
        paths=paths,
        first_unit=first_unit,
        parents=parents + np.repeat(first_unit[:-1], np.diff(first_unit)),
        names=np.where(
            np.array(known, np.int32) < 0, -1, place[known] if len(place) else -1
        ),
        kinds=np.frombuffer(b"".join(f.kinds for f in files), np.uint8),
        rows=tuple(row for f in files for row in f.rows),
        identifiers=identifiers,
        starts=np.concatenate(
            ([0], np.cumsum(np.bincount(word, minlength=len(identifiers))))
        ).astype(np.int32),
        units=unit[order],
        counts=_concatenated([f.counts for f in files], np.uint8)[order],
        stems=stems,
        stem_starts=stem_starts,
        stem_identifiers=stem_identifiers,
    )


def _concatenated(arrays: Sequence[array[int]], kind: type[Any]) -> NDArray[Any]:
    return np.concatenate(
        [np.empty(0, kind), *(np.frombuffer(a, kind) for a in arrays)]
    )


def _stemmed(identifiers: Sequence[str]) -> tuple[tuple[str, ...], Ints, Ints]:
    holders: dict[str, list[int]] = {}
    for number, identifier in enumerate(identifiers):
        for part in parts(identifier):
            holders.setdefault(part, []).append(number)
    stems = tuple(sorted(holders))
    found = [holders[stem] for stem in stems]
    starts = np.cumsum([0, *map(len, found)]).astype(np.int32)
    return stems, starts, np.array([n for numbers in found for n in numbers], np.int32)


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
        files = np.arange(len(self.index.paths), dtype=np.int32)
        return np.repeat(files, np.diff(self.index.first_unit))

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
        starts = np.searchsorted(
            names[order], np.arange(len(self.index.identifiers) + 1)
        )
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
        stems = cache(
            lambda text: [s for word in IDENTIFIER.findall(text) for s in parts(word)]
        )
        for number, path in enumerate(self.index.paths):
            folders, _, base = path.rpartition("/")
            for text, share in (
                (base.rpartition(".")[0] or base, 1.0),
                (folders, _FOLDER_SHARE),
            ):
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

    def postings(
        self, identifiers: NDArray[np.integer]
    ) -> tuple[Ints, NDArray[np.uint8]]:
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


def _ranges(
    starts: NDArray[np.integer], ends: NDArray[np.integer]
) -> NDArray[np.integer]:
    sizes = ends - starts
    return np.repeat(ends - np.cumsum(sizes), sizes) + np.arange(sizes.sum())
