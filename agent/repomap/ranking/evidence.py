"""Weigh the evidence of a query for each file and definition of a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from swe_retry.agent.repomap.ranking.index import Integers
from swe_retry.agent.repomap.ranking.lexicon import (
    K1,
    Floats,
    Lexicon,
    Shares,
    sum_by_number,
)
from swe_retry.agent.repomap.ranking.query import Query


@dataclass(frozen=True)
class FitScores:
    """Scores of units or files, comparable within one kind; zero means no evidence.

    Attributes:
        stems: BM25 over stems; ``identifiers``: BM25 over whole identifiers.
        names: the text holds a name that is defined here.
        name_words: words of the text are parts of the name, or of the path.
        qualified: 1 where the text has the name with its class or module before a dot.
        traceback: 1 for the innermost frame, less for those around it.
    """

    stems: Floats
    identifiers: Floats
    names: Floats
    name_words: Floats
    qualified: Floats
    traceback: Floats

    @classmethod
    def none(cls, number: int) -> FitScores:
        scores = [np.zeros(number) for _ in range(6)]
        return cls(*scores)


@dataclass(frozen=True)
class Fits:
    """The scores of all units and of all files."""

    units: FitScores
    files: FitScores


def weigh(lexicon: Lexicon, query: Query) -> Fits:
    """Return the evidence of ``query`` for each unit and file."""
    units = FitScores.none(len(lexicon.index.rows))
    files = FitScores.none(len(lexicon.index.paths))
    evidence = Fits(units, files)
    for stem, weight in query.stems.items():
        identifiers = lexicon.identifiers_with(stem)
        if len(identifiers):
            _bm25(lexicon, identifiers, weight, units.stems, files.stems)
            # A stem is as small a share of a name as the name has stems.
            stem_shares = 1.0 / lexicon.stem_counts[identifiers]
            definition_counts = lexicon.definition_counts[identifiers]
            shares = np.repeat(stem_shares, definition_counts)
            named_units = lexicon.units_defining(identifiers)
            _spread((named_units, shares), weight, units.name_words)
        if stem in lexicon.path_stems:
            _spread(lexicon.path_stems[stem], weight, files.name_words)
    for word, weight in query.identifiers.items():
        number = lexicon.identifier_numbers.get(word)
        if number is not None:
            identifiers = np.array([number], np.int32)
            _bm25(lexicon, identifiers, weight, units.identifiers, files.identifiers)
            _weigh_name(lexicon, word, weight, evidence)
    for qualifier, name in query.qualified:
        for unit in lexicon.units_named(name).tolist():
            if qualifier in lexicon.qualifiers(unit):
                units.qualified[unit] = 1.0
    _weigh_traceback(lexicon, query.frames, evidence)
    return evidence


def _weigh_name(lexicon: Lexicon, name: str, weight: float, evidence: Fits) -> None:
    """Add ``weight`` where ``name`` is defined, less where it is defined often."""
    units = lexicon.units_named(name)
    if len(units):
        names = np.count_nonzero(lexicon.definition_counts)
        rareness = np.log(1 + names / len(units)) / np.sqrt(len(units))
        files = np.unique(lexicon.file_of[units])
        evidence.units.names[units] += weight * rareness
        evidence.files.names[files] += weight * rareness


def _weigh_traceback(
    lexicon: Lexicon, frames: Sequence[tuple[str, str]], evidence: Fits
) -> None:
    files = evidence.files.traceback
    units = evidence.units.traceback
    for depth, (path, function) in enumerate(reversed(frames)):
        value = 1.0 / np.sqrt(1 + depth)
        for named in lexicon.files.mentioned_files(path):
            file = lexicon.file_numbers[named]
            files[file] = max(files[file], value)
            inside = lexicon.units_named(function)
            inside = inside[lexicon.file_of[inside] == file]
            units[inside] = np.maximum(units[inside], value)


def _bm25(
    lexicon: Lexicon, identifiers: Integers, weight: float, units: Floats, files: Floats
) -> None:
    """Add BM25's scores of ``identifiers`` to the sums of the units and of the files."""
    postings, counts = lexicon.postings(identifiers)
    in_units = sum_by_number(postings, counts, len(units))
    in_files = sum_by_number(lexicon.file_of[postings], counts, len(files))
    _add_bm25(units, in_units, lexicon.unit_norms, weight)
    _add_bm25(files, in_files, lexicon.file_norms, weight)


def _add_bm25(sums: Floats, counts: Floats, norms: Floats, weight: float) -> None:
    hits = np.flatnonzero(counts)
    hit_counts = counts[hits]
    rarity = weight * _idf(len(hits), len(sums))
    saturation = hit_counts + K1 * norms[hits]
    sums[hits] += rarity * hit_counts * (K1 + 1) / saturation


def _idf(holding: int, number: int) -> float:
    """Return BM25's inverse document frequency: nearly zero for a word in all documents."""
    odds = (number - holding + 0.5) / (holding + 0.5)
    return float(np.log(1 + odds))


def _spread(shares: Shares, weight: float, sums: Floats) -> None:
    numbers, values = shares
    if len(numbers):
        rarity = weight * _idf(len(numbers), len(sums))
        sums[numbers] += rarity * values
