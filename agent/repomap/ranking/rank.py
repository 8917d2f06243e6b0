"""Combine evidence into one score for each file and each definition, with the reasons."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from agent.repomap.ranking.index import (
    FILE,
    K1,
    Floats,
    Index,
    Ints,
    Lexicon,
    Places,
    summed,
)
from agent.repomap.scanning.tags import IDENTIFIER, parts

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
        order = np.argsort(-self.unit_scores, kind="stable")
        best: list[int] = order[self.index.kinds[order] != FILE][:most].tolist()
        return best

    def ranked_files(self) -> tuple[RankedFile, ...]:
        ranked = []
        for n in self.order:
            found = {kind: float(values[n]) for kind, values in self.shares.items()}
            reasons = sorted(
                (k for k, v in found.items() if v > 0), key=lambda k: (-found[k], k)
            )
            score = round(float(self.file_scores[n]), 4)
            ranked.append(RankedFile(self.index.paths[n], score, tuple(reasons)))
        return tuple(ranked)


@dataclass(frozen=True)
class Ranker:
    """Ranks one index for many texts."""

    index: Index

    @cached_property
    def lexicon(self) -> Lexicon:
        return Lexicon(self.index)

    @cached_property
    def references(self) -> References:
        return References.of(self.lexicon)

    @cached_property
    def graph(self) -> References:
        return self.references.between_files(self.lexicon)

    @cached_property
    def _tests(self) -> NDArray[np.bool_]:
        return np.array([bool(_TEST.search(path)) for path in self.index.paths], bool)

    @cached_property
    def _documentation(self) -> NDArray[np.bool_]:
        return np.array(
            [bool(_DOCUMENTATION.search(path)) for path in self.index.paths], bool
        )

    def rank(self, text: str) -> Ranking:
        query = read_query(text)
        evidence = weigh(self.lexicon, query)
        named = [
            self.lexicon.file_numbers[p] for p in self.lexicon.files.mentioned(text)
        ]
        factors = np.ones(len(self.index.paths))
        factors[self._tests & (not query.asks_for_tests)] *= _SIDE
        factors[self._documentation & (not query.asks_for_documentation)] *= _SIDE
        factors[np.diff(self.index.first_unit) == 1] *= _NOTHING_DEFINED
        shares = self._file_shares(evidence, named, factors)
        files = sum(shares.values(), np.zeros(len(factors)))
        units = self._unit_scores(evidence, files, factors)
        if len(files):
            files = files + _BEST * np.maximum.reduceat(
                units, self.index.first_unit[:-1]
            )
        by_score: list[int] = np.argsort(-files, kind="stable").tolist()
        return Ranking(
            self.index,
            tuple(dict.fromkeys([*named, *by_score])),
            self.lexicon.file_of.tolist(),
            files,
            units,
            shares,
        )

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
        return {
            kind: factors * _FILE_WEIGHTS[kind] * values
            for kind, values in kinds.items()
        }

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
        direct = kept * (
            kinds["words"] + kinds["identifiers"] + kinds["name"] + kinds["qualified"]
        )
        called, calls = self.references.neighbours(direct)
        kinds["called"], kinds["calls"] = (
            _scaled(np.sqrt(called)),
            _scaled(np.sqrt(calls)),
        )
        own = sum(
            (_UNIT_WEIGHTS[k] * v for k, v in kinds.items()), np.zeros(len(file_of))
        )
        in_file = _scaled(files)[file_of]
        inner = index.parents != index.first_unit[file_of]
        score = (
            own
            + _PARENT * own[index.parents] * inner
            + in_file * (_FILE + _PRODUCT * own)
        )
        scores: Floats = score * kept * self.lexicon.kind_factors(_TYPE)
        return scores


def _scaled(values: Floats) -> Floats:
    most = values.max(initial=0.0)
    return values / most if most > 0 else values


def _strongest(scores: Floats) -> Floats:
    if len(scores) <= _STARTS:
        return scores**2
    limit = np.partition(scores, -_STARTS)[-_STARTS]
    return np.where(scores > limit, scores, 0.0) ** 2


_FENCED = re.compile(r"```[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
_QUOTED = re.compile(r"`([^`\n]+)`")
_INDENTED = re.compile(r"^(?: {4}|\t|>>> |In \[\d+\]:)(.*)$", re.MULTILINE)
_LIKE_CODE = re.compile(r"^_|[a-z0-9][A-Z]|\w_\w|[A-Za-z]\d|^[A-Z]{2,}$|\w+(?=\()")
_CALLED = re.compile(r"([^\W\d]\w+)\(")
_QUALIFIED = re.compile(r"(?=\b([^\W\d]\w*)\.([^\W\d]\w+))")
_FRAME = re.compile(r"File \"([^\"\n]+)\", line \d+, in (\w+)")
_ON_TESTS = re.compile(
    r"\b(?:failing|broken|flaky|add|missing|write|new) (?:\w+ )?tests?\b", re.I
)
_ON_DOCUMENTATION = re.compile(
    r"\b(?:docs|documentation|tutorial|readme|changelog)\b", re.I
)
_TITLE_WEIGHS = 3.0
# Words of any issue. Rarity in code does not show that: there, "would" is a rare word.
_EVERYDAY = """
    about above after again all also although always and another any anything are around ask back
    because been before being below between both bug but can cannot case cause change code com
    come confirm could current currently did different does doing done down during each either
    else email enough error even ever every everything exactly example expect expected fact fail
    few find first fix following for found from further get github give going good got had happen
    has have having hello help here hope how however html http https idea instead into issue its
    itself just know later least let like line little local look made make many maybe mean might
    more most much must need never new not nothing now off once one only org other our out over
    own pip please possible probably problem put python question quite rather really recent reason
    reproduce result run same say see seem set several should show simple simply since some
    something still such sure system take than thank that the their them then there these they
    thing think this those though through too traceback tried try trying two under until usage use
    used user using version very via want was way well were what when where whether which while
    who why will with within without won work would wrong www yes yet you your actual behavior
    behaviour bit linux windows macos call last file module
    """
_EVERYDAY_STEMS = frozenset(part for word in _EVERYDAY.split() for part in parts(word))


@dataclass(frozen=True)
class Query:
    """The evidence in one text; all weights are positive.

    Attributes:
        stems: words and parts of identifiers, everyday words left out.
        identifiers: as they stand, where they look like code.
        qualified: names with the name before their dot: ``("Add", "flatten")``.
        frames: file and function of each traceback line, innermost last.
        asks_for_tests, asks_for_documentation: the title is about them.
    """

    stems: Mapping[str, float]
    identifiers: Mapping[str, float]
    qualified: tuple[tuple[str, str], ...]
    frames: tuple[tuple[str, str], ...]
    asks_for_tests: bool = False
    asks_for_documentation: bool = False


def read_query(text: str) -> Query:
    """Return the evidence in ``text``; its first line counts as the title."""
    title, _, body = text.strip().partition("\n")
    stems: dict[str, float] = defaultdict(float)
    identifiers: dict[str, float] = defaultdict(float)
    without = _FENCED.sub(" ", text)
    code = [
        *_FENCED.findall(text),
        *_QUOTED.findall(without),
        *_INDENTED.findall(without),
    ]
    called = set(_CALLED.findall(text))
    marked = set(IDENTIFIER.findall(" ".join(code))) | called
    for part, weight in ((title, _TITLE_WEIGHS), (body, 1.0)):
        for word, count in Counter(IDENTIFIER.findall(part)).items():
            found = [p for p in parts(word) if p not in _EVERYDAY_STEMS and len(p) > 1]
            for stem in found:
                stems[stem] += weight * count
            if found and (word in marked or _LIKE_CODE.search(word)):
                identifiers[word] += weight * count
    return Query(
        {stem: _damped(n) for stem, n in sorted(stems.items())},
        {word: _damped(n) for word, n in sorted(identifiers.items())},
        tuple(dict.fromkeys(_QUALIFIED.findall(text))),
        tuple(dict.fromkeys(_FRAME.findall(text))),
        asks_for_tests=_ON_TESTS.search(title) is not None,
        asks_for_documentation=_ON_DOCUMENTATION.search(title) is not None,
    )


def _damped(count: float) -> float:
    return 3.0 * count / (2.0 + count)


# A name with more definitions than this does not identify one of them.
_MOST_DEFINERS = 5
_SHORTEST_NAME = 3
_DAMPING = 0.6
_MOST_STEPS, _CLOSE_ENOUGH = 50, 1e-6


@dataclass(frozen=True)
class References:
    """Edges from the units that use a name to the units that define it.

    Attributes:
        users, defined: one unit each; ``weights``: of the edge, less for names used everywhere.
    """

    users: Ints
    defined: Ints
    weights: NDArray[np.float32]

    @classmethod
    def of(cls, lexicon: Lexicon) -> References:
        lengths = np.array([len(word) for word in lexicon.index.identifiers])
        users, defined, weights = [], [], []
        for definers in range(1, _MOST_DEFINERS + 1):
            shared = lexicon.definers == definers
            names = np.flatnonzero(shared & (lengths >= _SHORTEST_NAME))
            where, counts = lexicon.postings(names)
            uses = np.diff(lexicon.index.starts)[names]
            weight = np.sqrt(counts / (definers**2 * np.repeat(uses, uses))).astype(
                np.float32
            )
            for units in lexicon.defining(names).reshape(-1, definers).T:
                users.append(where)
                defined.append(np.repeat(units, uses))
                weights.append(weight)
        edges = cls(*map(np.concatenate, (users, defined, weights)))
        return edges._without(edges.users == edges.defined)

    def _without(self, dropped: NDArray[np.bool_]) -> References:
        kept = ~dropped
        return References(self.users[kept], self.defined[kept], self.weights[kept])

    def neighbours(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return, for each unit, the weighted scores of its users, and of what it uses."""
        number = len(scores)
        return (
            summed(self.defined, self.weights * scores[self.users], number),
            summed(self.users, self.weights * scores[self.defined], number),
        )

    def between_files(self, lexicon: Lexicon) -> References:
        """Return the edges from file to file, one for each edge of units in different files."""
        users, defined = lexicon.file_of[self.users], lexicon.file_of[self.defined]
        return References(users, defined, self.weights)._without(users == defined)

    def importance(self, start: Floats) -> Floats:
        """Return the rank of each node for surfers that start at the nodes of ``start``, by weight.

        PageRank (Page et al. 1999) with weighted edges and a personalised start (Haveliwala
        2002), by power iteration; all zeros for no start. Surfers without an edge start again.
        """
        number, total = len(start), start.sum()
        if total <= 0:
            return np.zeros(number)
        begin = start / total
        leaving = summed(self.users, self.weights, number)
        share = self.weights / leaving[self.users]
        stuck = leaving == 0
        ranks: Floats = begin
        for _ in range(_MOST_STEPS):
            moved = summed(self.defined, share * ranks[self.users], number)
            moved += ranks[stuck].sum() * begin
            moved = _DAMPING * moved + (1 - _DAMPING) * begin
            done = np.abs(moved - ranks).sum() < _CLOSE_ENOUGH
            ranks = moved
            if done:
                break
        return ranks


@dataclass(frozen=True)
class Fit:
    """Scores of units or files, comparable within one kind; zero means no evidence.

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
        units = evidence.units
        files = evidence.files
        held = lexicon.holding(stem)
        if len(held):
            _bm25(lexicon, held, weight, (units.words, files.words))
            shares = np.repeat(1.0 / lexicon.stem_counts[held], lexicon.definers[held])
            _spread((lexicon.defining(held), shares), weight, units.name_words)
        if stem in lexicon.path_stems:
            _spread(lexicon.path_stems[stem], weight, files.name_words)
    for word, weight in query.identifiers.items():
        units = evidence.units
        files = evidence.files
        number = lexicon.identifier_numbers.get(word)
        if number is None:
            continue
        _bm25(
            lexicon, np.array([number]), weight, (units.identifiers, files.identifiers)
        )
        defining = lexicon.named(word)
        if len(defining):
            names = np.count_nonzero(lexicon.definers)
            rareness = np.log(1 + names / len(defining)) / np.sqrt(len(defining))
            units.names[defining] += weight * rareness
            files.names[np.unique(lexicon.file_of[defining])] += weight * rareness
    for before, name in query.qualified:
        for unit in lexicon.named(name).tolist():
            if before in lexicon.qualifiers(unit):
                evidence.units.qualified[unit] = 1.0
    _weigh_traceback(lexicon, query.frames, evidence)
    return evidence


def _weigh_traceback(
    lexicon: Lexicon, frames: Sequence[tuple[str, str]], evidence: Fits
) -> None:
    files = evidence.files.traceback
    units = evidence.units.traceback
    for depth, (path, function) in enumerate(reversed(frames)):
        value = 1.0 / np.sqrt(1 + depth)
        for named in lexicon.files.mentioned(path):
            file = lexicon.file_numbers[named]
            files[file] = max(files[file], value)
            inside = lexicon.named(function)
            inside = inside[lexicon.file_of[inside] == file]
            units[inside] = np.maximum(units[inside], value)


def _bm25(
    lexicon: Lexicon,
    identifiers: NDArray[np.integer],
    weight: float,
    into: tuple[Floats, Floats],
) -> None:
    units, files = into
    where, counts = lexicon.postings(identifiers)
    in_units = summed(where, counts, len(units))
    in_files = summed(lexicon.file_of[where], counts, len(files))
    _add_bm25(units, in_units, lexicon.unit_norms, weight)
    _add_bm25(files, in_files, lexicon.file_norms, weight)


def _add_bm25(into: Floats, counts: Floats, norms: Floats, weight: float) -> None:
    hit = np.flatnonzero(counts)
    found = counts[hit]
    into[hit] += (
        weight
        * _idf(len(hit), len(into))
        * found
        * (K1 + 1)
        / (found + K1 * norms[hit])
    )


def _idf(holding: int, number: int) -> float:
    """Return BM25's inverse document frequency: nearly zero for a word in all documents."""
    return float(np.log(1 + (number - holding + 0.5) / (holding + 0.5)))


def _spread(places: Places, weight: float, into: Floats) -> None:
    where, shares = places
    if len(where):
        into[where] += weight * _idf(len(where), len(into)) * shares
