"""The inverted index of one tree: from words to their places."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swe_retry.agent.repomap.scanning.tags import (
    FIELD,
    Definition,
    FileTags,
    as_row,
    from_row,
    parts,
)

Ints = NDArray[np.int32]
Integers = NDArray[np.integer]
FILE = 0
TYPE = 1
FUNCTION = 2
LAYOUT = 4
"""Part of the key in the store, because other layouts cannot be unpacked."""
# Neither paths nor one-line texts contain it.
_UNIT = "\0"
_UTF8 = ("utf-8", "surrogateescape")
_MAX_COUNT = 255
# A constant is ranked as a function is.
_KINDS = {"file": FILE, "type": TYPE, "function": FUNCTION, "constant": FUNCTION}
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
        return from_row(self.rows[unit])

    def name(self, unit: int) -> str:
        return self.rows[unit].partition(FIELD)[0]

    def pack(self) -> Iterator[tuple[str, bytes]]:
        """Yield the parts of the index by name, as the whole would be in memory twice."""
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, np.ndarray):
                data = value.tobytes()
            else:
                data = _UNIT.join(value).encode(*_UTF8)
            yield part.name, data

    @classmethod
    def unpack(cls, packed: Mapping[str, bytes]) -> Index:
        names = [part.name for part in fields(cls)]
        try:
            values: Any = {name: _unpack_part(name, packed[name]) for name in names}
        except LookupError as error:
            raise ValueError(f"not a packed index: without {error}") from error
        index = cls(**values)
        units = index.first_unit[-1]
        if len(index.rows) != units or len(index.kinds) != units:
            raise ValueError("not a packed index: its parts do not fit")
        return index


def _unpack_part(name: str, data: bytes) -> tuple[str, ...] | NDArray[Any]:
    if name in ("paths", "rows", "identifiers", "stems"):
        text = data.decode(*_UTF8)
        return tuple(text.split(_UNIT)) if text else ()
    if name in ("kinds", "counts"):
        return np.frombuffer(data, np.uint8)
    return np.frombuffer(data, np.int32)


@dataclass(frozen=True)
class _File:
    """The data of one file in the builder; the last three are parallel, one entry a word."""

    rows: tuple[str, ...]
    names: tuple[str, ...]
    kinds: bytes
    parents: array[int]
    word_numbers: array[int]
    units: array[int]
    counts: array[int]


def _pack_file(tags: FileTags, numbers: dict[str, int]) -> _File:
    """Return the data of a file; ``numbers`` get its new words."""
    word_numbers = array("i")
    units = array("i")
    counts = array("B")
    for unit, word_counts in enumerate(tags.word_counts):
        word_numbers.extend(
            [numbers.setdefault(word, len(numbers)) for word in word_counts]
        )
        units.extend([unit] * len(word_counts))
        counts.extend([min(count, _MAX_COUNT) for count in word_counts.values()])
    definitions = (_NAMELESS, *tags.definitions)
    return _File(
        rows=tuple(map(as_row, definitions)),
        names=tuple(definition.name for definition in definitions),
        kinds=bytes(_KINDS[definition.kind] for definition in definitions),
        parents=array("i", [definition.parent + 1 for definition in definitions]),
        word_numbers=word_numbers,
        units=units,
        counts=counts,
    )


def build_index(
    all_paths: Iterable[str], tags: Iterable[tuple[str, FileTags]]
) -> Index:
    """Return the index of files, in little memory; those without ``tags`` have no definitions."""
    numbers: dict[str, int] = {}
    by_path = {path: _pack_file(file_tags, numbers) for path, file_tags in tags}
    empty = _pack_file(FileTags(), numbers)
    paths = tuple(sorted(all_paths))
    files = [by_path.get(path, empty) for path in paths]
    identifiers = tuple(sorted(numbers))
    # Words are numbered as they come; identifiers are sorted.
    sorted_numbers = [numbers[identifier] for identifier in identifiers]
    positions = np.argsort(sorted_numbers).astype(np.int32)
    first_unit = _starts([len(file.rows) for file in files])
    word_numbers = _concatenate((file.word_numbers for file in files), np.int32)
    word_positions = positions[word_numbers]
    units = _concatenate((file.units for file in files), np.int32)
    word_counts = [len(file.units) for file in files]
    units += np.repeat(first_unit[:-1], word_counts)
    counts = _concatenate((file.counts for file in files), np.uint8)
    order = np.argsort(word_positions, kind="stable").astype(np.int32)
    word_uses = np.bincount(word_positions, minlength=len(identifiers))
    parents = _concatenate((file.parents for file in files), np.int32)
    unit_counts = np.diff(first_unit)
    parents += np.repeat(first_unit[:-1], unit_counts)
    unit_names = chain.from_iterable(file.names for file in files)
    name_numbers = np.array([numbers.get(name, -1) for name in unit_names], np.int32)
    # The number -1 has the last position.
    names = np.append(positions, [-1]).astype(np.int32)[name_numbers]
    stems, stem_starts, stem_identifiers = _stem_table(identifiers)
    return Index(
        paths=paths,
        first_unit=first_unit,
        parents=parents,
        names=names,
        kinds=np.frombuffer(b"".join(file.kinds for file in files), np.uint8),
        rows=tuple(chain.from_iterable(file.rows for file in files)),
        identifiers=identifiers,
        starts=_starts(word_uses),
        units=units[order],
        counts=counts[order],
        stems=stems,
        stem_starts=stem_starts,
        stem_identifiers=stem_identifiers,
    )


def _starts(sizes: Sequence[int] | Integers) -> Ints:
    """Return where groups of these sizes start one after another, and the end of the last."""
    starts = np.concatenate(([0], np.cumsum(sizes)))
    return starts.astype(np.int32)


def _concatenate(arrays: Iterable[array[int]], dtype: type[Any]) -> NDArray[Any]:
    # One without values first, as there may be no arrays.
    blocks = [np.empty(0, dtype)]
    blocks += [np.frombuffer(values, dtype) for values in arrays]
    return np.concatenate(blocks)


def _stem_table(identifiers: Sequence[str]) -> tuple[tuple[str, ...], Ints, Ints]:
    numbers_by_stem: dict[str, list[int]] = {}
    for number, identifier in enumerate(identifiers):
        for part in parts(identifier):
            numbers_by_stem.setdefault(part, []).append(number)
    stems = tuple(sorted(numbers_by_stem))
    groups = [numbers_by_stem[stem] for stem in stems]
    starts = _starts([len(numbers) for numbers in groups])
    numbers = list(chain.from_iterable(groups))
    return stems, starts, np.array(numbers, np.int32)
