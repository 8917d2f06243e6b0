"""Score each unit and each file of an index for a query, by kind of evidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.repomap.ranking.lexicon import K1, Floats, Lexicon, Places, summed
from agent.repomap.ranking.query import Query


@dataclass(frozen=True)
class Fit:
    """Scores of units or files, comparable within one kind; zero is no evidence.

    Attributes:
        words: BM25 over stems; ``identifiers``: BM25 over whole identifiers.
        names: the text holds a name that is defined here.
        name_words: words of the text are parts of the name, or of the path.
        qualified: 1 where the text has the name with its class or module before a dot.
        traceback: 1 for the innermost frame, less for those around it.
    """

    words: Floats
    identifiers: Floats
    names: Floats
    name_words: Floats
    qualified: Floats
    traceback: Floats

    @classmethod
    def none(cls, number: int) -> Fit:
        """Return no evidence for ``number`` units or files."""
        return cls(*(np.zeros(number) for _ in range(6)))


@dataclass(frozen=True)
class Fits:
    """The scores of all units and of all files."""

    units: Fit
    files: Fit


def weigh(lexicon: Lexicon, query: Query) -> Fits:
    """Return the evidence of ``query`` for each unit and file."""
    index = lexicon.index
    evidence = Fits(Fit.none(len(index.rows)), Fit.none(len(index.paths)))
    for stem, weight in query.stems.items():
        _weigh_stem(lexicon, evidence, stem, weight)
    for word, weight in query.identifiers.items():
        _weigh_identifier(lexicon, evidence, word, weight)
    for before, name in query.qualified:
        for unit in lexicon.named(name).tolist():
            if before in lexicon.qualifiers(unit):
                evidence.units.qualified[unit] = 1.0
    _weigh_frames(lexicon, evidence, query)
    return evidence


def _weigh_stem(lexicon: Lexicon, evidence: Fits, stem: str, weight: float) -> None:
    units, files = evidence.units, evidence.files
    held = lexicon.holding(stem)
    if len(held):
        _bm25(lexicon, held, weight, (units.words, files.words))
        shares = np.repeat(1.0 / lexicon.stem_counts[held], lexicon.definers[held])
        _spread((lexicon.defining(held), shares), weight, units.name_words)
    if stem in lexicon.path_stems:
        _spread(lexicon.path_stems[stem], weight, files.name_words)


def _weigh_identifier(lexicon: Lexicon, evidence: Fits, word: str, weight: float) -> None:
    units, files = evidence.units, evidence.files
    number = lexicon.identifier_numbers.get(word)
    if number is None:
        return
    _bm25(lexicon, np.array([number]), weight, (units.identifiers, files.identifiers))
    defining = lexicon.named(word)
    if len(defining):
        names = np.count_nonzero(lexicon.definers)
        rareness = np.log(1 + names / len(defining)) / np.sqrt(len(defining))
        units.names[defining] += weight * rareness
        files.names[np.unique(lexicon.file_of[defining])] += weight * rareness


def _weigh_frames(lexicon: Lexicon, evidence: Fits, query: Query) -> None:
    for depth, (path, function) in enumerate(reversed(query.frames)):
        value = 1.0 / np.sqrt(1 + depth)
        for named in lexicon.files.mentioned(path):
            file = lexicon.file_numbers[named]
            _raise(evidence.files.traceback, file, value)
            for unit in lexicon.named(function).tolist():
                if lexicon.file_of[unit] == file:
                    _raise(evidence.units.traceback, unit, value)


def _raise(values: Floats, at: int, value: float) -> None:
    values[at] = max(values[at], value)


def _bm25(
    lexicon: Lexicon, identifiers: NDArray[np.integer], weight: float, into: tuple[Floats, Floats]
) -> None:
    """Add the BM25 score of a word to the units and files that hold any of ``identifiers``."""
    units, files = into
    where, counts = lexicon.postings(identifiers)
    in_units = summed(where, counts, len(units))
    in_files = summed(lexicon.file_of[where], counts, len(files))
    _add_bm25(units, in_units, lexicon.unit_norms, weight)
    _add_bm25(files, in_files, lexicon.file_norms, weight)


def _add_bm25(into: Floats, counts: Floats, norms: Floats, weight: float) -> None:
    """Add BM25 where ``counts`` is not zero, which is in few places."""
    hit = np.flatnonzero(counts)
    found = counts[hit]
    into[hit] += weight * _idf(len(hit), len(into)) * found * (K1 + 1) / (found + K1 * norms[hit])


def _idf(holding: int, number: int) -> float:
    """Return BM25's inverse document frequency: nearly zero for a word in all documents."""
    return float(np.log(1 + (number - holding + 0.5) / (holding + 0.5)))


def _spread(places: Places, weight: float, into: Floats) -> None:
    where, shares = places
    if len(where):
        into[where] += weight * _idf(len(where), len(into)) * shares
