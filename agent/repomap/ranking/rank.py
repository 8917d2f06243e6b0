"""Combine evidence into one score for each file and each definition, with the reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from agent.repomap.ranking.graph import References
from agent.repomap.ranking.index import FILE, Index
from agent.repomap.ranking.lexical import Fits, weigh
from agent.repomap.ranking.lexicon import Floats, Lexicon
from agent.repomap.ranking.query import Query, read_query

_TEST = re.compile(
    r"(^|/)(tests?|testing|__tests__|specs?|testdata|test-data|fixtures?|benchmarks?|roottest)/"
    r"|(^|/)(test_[^/]*|conftest\.py|[^/]*_(test|spec)\.\w+|[^/]*\.(test|spec)\.\w+"
    r"|[^/]*Tests?\.\w+|runtests?\.py|[^/]*_tests?\.\w+)$"
)
_DOCUMENTATION = re.compile(
    r"(^|/)(docs?|documentation|examples?|samples?|tutorials?|changelogs?)/"
    r"|\.(rst|md|txt|ipynb|html)$"
)
# Each kind of evidence is scaled to at most 1 and multiplied by its weight. The weights are round
# numbers: values found by search fitted the develop instances better and all others worse.
_FILE_WEIGHTS = {
    "words": 1.0,
    "identifiers": 0.5,
    "defines": 0.3,
    "path": 0.4,
    "traceback": 0.7,
    "named": 1.5,
    "references": 0.3,
    "size": 0.1,
}
_UNIT_WEIGHTS = {
    "words": 1.0,
    "identifiers": 0.5,
    "name": 0.8,
    "name words": 0.4,
    "qualified": 0.5,
    "traceback": 1.0,
    "called": 0.3,
    "calls": 0.3,
    "size": 0.1,
}
# A definition adds this share of the score of the definition around it and of its file's score,
# plain and times its own evidence; a file adds this share of the score of its best definition.
_PARENT, _FILE, _PRODUCT, _BEST = 0.2, 1.0, 1.0, 0.3
# Factors for tests, documentation, files without definitions, and classes.
_SIDE, _NOTHING_DEFINED, _TYPE = 0.25, 0.3, 0.9
# Surfers start at this many files, more often at better ones.
_STARTS = 100
_SEEDS = ("words", "identifiers", "defines")


@dataclass(frozen=True)
class RankedFile:
    """A file with its score; ``reasons`` are kinds of evidence, strongest first."""

    path: str
    score: float
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Ranking:
    """The scores for one text.

    Attributes:
        order: all files; the files that the text names come first.
        file_of: the file of each unit.
        file_scores, unit_scores: by number of file and unit; zero for a file's own unit.
        shares: what each kind of evidence adds to each file's score.
    """

    index: Index
    order: tuple[int, ...]
    file_of: Sequence[int]
    file_scores: Floats
    unit_scores: Floats
    shares: Mapping[str, Floats]

    def units(self, most: int) -> list[int]:
        """Return the ``most`` best definitions by falling score."""
        order = np.argsort(-self.unit_scores, kind="stable")
        best: list[int] = order[self.index.kinds[order] != FILE][:most].tolist()
        return best

    def ranked_files(self) -> tuple[RankedFile, ...]:
        """Return all files in order with score and reasons."""
        return tuple(
            RankedFile(self.index.paths[n], round(float(self.file_scores[n]), 4), self._reasons(n))
            for n in self.order
        )

    def _reasons(self, file: int) -> tuple[str, ...]:
        found = {kind: float(values[file]) for kind, values in self.shares.items()}
        return tuple(sorted((k for k, v in found.items() if v > 0), key=lambda k: (-found[k], k)))


@dataclass(frozen=True)
class Ranker:
    """Ranks one index for many texts."""

    index: Index

    @cached_property
    def lexicon(self) -> Lexicon:
        """The index with its look-up tables."""
        return Lexicon(self.index)

    @cached_property
    def references(self) -> References:
        """References between units."""
        return References.of(self.lexicon)

    @cached_property
    def graph(self) -> References:
        """References between files."""
        return self.references.between_files(self.lexicon)

    @cached_property
    def kinds(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """Which files are tests, are documentation, define nothing."""
        paths = self.index.paths
        return (
            np.array([_is_test(path) for path in paths], bool),
            np.array([_is_documentation(path) for path in paths], bool),
            np.diff(self.index.first_unit) == 1,
        )

    def rank(self, text: str) -> Ranking:
        """Return the scores of all files and definitions for ``text``."""
        query = read_query(text)
        evidence = weigh(self.lexicon, query)
        named = [self.lexicon.file_numbers[p] for p in self.lexicon.files.mentioned(text)]
        factors = self._factors(query)
        shares = self._file_shares(evidence, named, factors)
        files = sum(shares.values(), np.zeros(len(factors)))
        units = self._unit_scores(evidence, files, factors)
        if len(files):
            files = files + _BEST * np.maximum.reduceat(units, self.index.first_unit[:-1])
        by_score: list[int] = np.argsort(-files, kind="stable").tolist()
        return Ranking(
            self.index,
            tuple(dict.fromkeys([*named, *by_score])),
            self.lexicon.file_of.tolist(),
            files,
            units,
            shares,
        )

    def _factors(self, query: Query) -> Floats:
        """Return the factor of each file for its kind."""
        tests, documentation, nothing = self.kinds
        factors = np.ones(len(self.index.paths))
        factors[tests & (not query.asks_for_tests)] *= _SIDE
        factors[documentation & (not query.asks_for_documentation)] *= _SIDE
        factors[nothing] *= _NOTHING_DEFINED
        return factors

    def _file_shares(
        self, evidence: Fits, named: Sequence[int], factors: Floats
    ) -> dict[str, Floats]:
        files = evidence.files
        given = np.zeros(len(factors))
        given[list(named)] = 1.0
        kinds = {
            "words": _scaled(files.words),
            "identifiers": _scaled(files.identifiers),
            "defines": _scaled(files.names),
            "path": _scaled(files.name_words),
            "traceback": files.traceback,
            "named": given,
            "size": _scaled(np.log1p(self.lexicon.file_lengths)),
        }
        seeds = factors * sum(
            _FILE_WEIGHTS[k] * kinds[k] for k in ("words", "identifiers", "defines")
        )
        kinds["references"] = _scaled(np.sqrt(self.graph.importance(_strongest(seeds))))
        return {kind: factors * _FILE_WEIGHTS[kind] * values for kind, values in kinds.items()}

    def _unit_scores(self, evidence: Fits, files: Floats, factors: Floats) -> Floats:
        units, file_of, index = evidence.units, self.lexicon.file_of, self.index
        kinds = {
            "words": _scaled(units.words),
            "identifiers": _scaled(units.identifiers),
            "name": _scaled(units.names),
            "name words": _scaled(units.name_words),
            "qualified": units.qualified,
            "traceback": units.traceback,
            "size": _scaled(np.log1p(self.lexicon.unit_lengths)),
        }
        kept = factors[file_of]
        direct = kept * (kinds["words"] + kinds["identifiers"] + kinds["name"] + kinds["qualified"])
        called, calls = self.references.neighbours(direct)
        kinds["called"], kinds["calls"] = _scaled(np.sqrt(called)), _scaled(np.sqrt(calls))
        own = sum((_UNIT_WEIGHTS[k] * v for k, v in kinds.items()), np.zeros(len(file_of)))
        in_file = _scaled(files)[file_of]
        inner = index.parents != index.first_unit[file_of]
        score = own + _PARENT * own[index.parents] * inner + in_file * (_FILE + _PRODUCT * own)
        scores: Floats = score * kept * self.lexicon.kind_factors(_TYPE)
        return scores


def _scaled(values: Floats) -> Floats:
    most = values.max(initial=0.0)
    return values / most if most > 0 else values


def _strongest(scores: Floats) -> Floats:
    """Return the squares of the highest scores and zero for the rest."""
    if len(scores) <= _STARTS:
        return scores**2
    limit = np.partition(scores, -_STARTS)[-_STARTS]
    return np.where(scores > limit, scores, 0.0) ** 2


def _is_test(path: str) -> bool:
    """Return whether ``path`` looks like a test or a file for tests."""
    return _TEST.search(path) is not None


def _is_documentation(path: str) -> bool:
    """Return whether ``path`` looks like documentation or an example."""
    return _DOCUMENTATION.search(path) is not None
