"""Combine evidence into one score for each file and each definition, with the reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from swe_retry.agent.repomap.ranking.evidence import Fits, weigh
from swe_retry.agent.repomap.ranking.index import FILE, Index
from swe_retry.agent.repomap.ranking.lexicon import Floats, Lexicon
from swe_retry.agent.repomap.ranking.query import read_query
from swe_retry.agent.repomap.ranking.references import References

# A folder of tests, or the name of a file with tests.
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
# A definition adds this share of the score of the definition around it,
_PARENT = 0.2
# this share of its file's score, plain
_FILE = 1.0
# and times its own evidence.
_PRODUCT = 1.0
# A file adds this share of the score of its best definition.
_BEST = 0.3
# Factors for tests and documentation, for files without definitions, and for classes.
_SIDE = 0.25
_NOTHING_DEFINED = 0.3
_TYPE = 0.9
# Surfers start at this many files, more often at better ones.
_STARTS = 100


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

    def units(self, limit: int) -> list[int]:
        order = np.argsort(-self.unit_scores, kind="stable")
        is_definition = self.index.kinds[order] != FILE
        best: list[int] = order[is_definition][:limit].tolist()
        return best

    def ranked_files(self) -> tuple[RankedFile, ...]:
        ranked = []
        for file in self.order:
            score = round(float(self.file_scores[file]), 4)
            strengths = []
            for kind, shares in self.shares.items():
                share = float(shares[file])
                if share > 0:
                    strengths.append((-share, kind))
            reasons = tuple(kind for _, kind in sorted(strengths))
            ranked.append(RankedFile(self.index.paths[file], score, reasons))
        return tuple(ranked)


class Ranker:
    """Ranks one index for many texts."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.lexicon = Lexicon(index)
        self.references = References.of(self.lexicon)
        self.graph = self.references.between_files(self.lexicon)
        self.tests = [bool(_TEST.search(path)) for path in index.paths]
        self.documents = [bool(_DOCUMENTATION.search(path)) for path in index.paths]

    def rank(self, text: str) -> Ranking:
        query = read_query(text)
        lexicon = self.lexicon
        evidence = weigh(lexicon, query)
        mentioned = lexicon.files.mentioned_files(text)
        named_files = [lexicon.file_numbers[path] for path in mentioned]
        factors = np.ones(len(self.index.paths))
        if not query.asks_for_tests:
            factors[self.tests] *= _SIDE
        if not query.asks_for_documentation:
            factors[self.documents] *= _SIDE
        unit_counts = np.diff(self.index.first_unit)
        factors[unit_counts == 1] *= _NOTHING_DEFINED
        shares = self._file_shares(evidence, named_files, factors)
        file_scores = sum(shares.values(), np.zeros(len(factors)))
        unit_scores = self._unit_scores(evidence, file_scores, factors)
        if len(file_scores):
            first_unit = self.index.first_unit[:-1]
            best_units = np.maximum.reduceat(unit_scores, first_unit)
            file_scores = file_scores + _BEST * best_units
        by_score: list[int] = np.argsort(-file_scores, kind="stable").tolist()
        return Ranking(
            index=self.index,
            order=tuple(dict.fromkeys([*named_files, *by_score])),
            file_of=lexicon.file_of.tolist(),
            file_scores=file_scores,
            unit_scores=unit_scores,
            shares=shares,
        )

    def _file_shares(
        self, evidence: Fits, named_files: Sequence[int], factors: Floats
    ) -> dict[str, Floats]:
        files = evidence.files
        named = np.zeros(len(factors))
        named[list(named_files)] = 1.0
        kinds = {
            "words": _scale(files.stems),
            "identifiers": _scale(files.identifiers),
            "defines": _scale(files.names),
            "path": _scale(files.name_words),
            "traceback": files.traceback,
            "named": named,
            "size": _scale(np.log1p(self.lexicon.file_lengths)),
        }
        direct = sum(
            _FILE_WEIGHTS[kind] * kinds[kind]
            for kind in ("words", "identifiers", "defines")
        )
        importance = self.graph.importance(_start_weights(factors * direct))
        kinds["references"] = _scale(np.sqrt(importance))
        return {
            kind: factors * _FILE_WEIGHTS[kind] * values
            for kind, values in kinds.items()
        }

    def _unit_scores(self, evidence: Fits, files: Floats, factors: Floats) -> Floats:
        units = evidence.units
        file_of = self.lexicon.file_of
        index = self.index
        kinds = {
            "words": _scale(units.stems),
            "identifiers": _scale(units.identifiers),
            "name": _scale(units.names),
            "name words": _scale(units.name_words),
            "qualified": units.qualified,
            "traceback": units.traceback,
            "size": _scale(np.log1p(self.lexicon.unit_lengths)),
        }
        unit_factors = factors[file_of]
        direct = (
            kinds["words"] + kinds["identifiers"] + kinds["name"] + kinds["qualified"]
        )
        called, calls = self.references.neighbours(unit_factors * direct)
        kinds["called"] = _scale(np.sqrt(called))
        kinds["calls"] = _scale(np.sqrt(calls))
        totals = np.zeros(len(file_of))
        for kind, values in kinds.items():
            totals = totals + _UNIT_WEIGHTS[kind] * values
        in_file = _scale(files)[file_of]
        inner = index.parents != index.first_unit[file_of]
        from_parent = _PARENT * totals[index.parents] * inner
        from_file = in_file * (_FILE + _PRODUCT * totals)
        # Of a file's own unit, of a class or similar, of a function.
        kind_factors: Floats = np.array([0.0, _TYPE, 1.0])
        scores: Floats = totals + from_parent + from_file
        scores *= unit_factors
        scores *= kind_factors[index.kinds]
        return scores


def _scale(values: Floats) -> Floats:
    maximum = values.max(initial=0.0)
    if maximum > 0:
        values = values / maximum
    return values


def _start_weights(scores: Floats) -> Floats:
    if len(scores) > _STARTS:
        partition = np.partition(scores, -_STARTS)
        limit = partition[-_STARTS]
        scores = np.where(scores > limit, scores, 0.0)
    return scores**2
