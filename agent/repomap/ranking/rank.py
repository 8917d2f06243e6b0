"""Combine evidence into one score for each file and each definition, with the reasons."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from swe_retry.agent.repomap.ranking.index import (
    FILE,
    K1,
    Floats,
    Index,
    Ints,
    Lexicon,
    Numbers,
    Shares,
    sum_by_number,
)
from swe_retry.agent.repomap.scanning.tags import IDENTIFIER, parts

Mask = NDArray[np.bool_]

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
            reasons = self._reasons(file)
            ranked.append(RankedFile(self.index.paths[file], score, reasons))
        return tuple(ranked)

    def _reasons(self, file: int) -> tuple[str, ...]:
        strengths = []
        for kind, shares in self.shares.items():
            share = float(shares[file])
            if share > 0:
                strengths.append((-share, kind))
        return tuple(kind for _, kind in sorted(strengths))


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
    def _tests(self) -> Mask:
        return self._matches(_TEST)

    @cached_property
    def _documentation(self) -> Mask:
        return self._matches(_DOCUMENTATION)

    def _matches(self, pattern: re.Pattern[str]) -> Mask:
        matches = [bool(pattern.search(path)) for path in self.index.paths]
        return np.array(matches, bool)

    def rank(self, text: str) -> Ranking:
        query = read_query(text)
        lexicon = self.lexicon
        evidence = weigh(lexicon, query)
        mentioned = lexicon.files.mentioned_files(text)
        named_files = [lexicon.file_numbers[path] for path in mentioned]
        factors = np.ones(len(self.index.paths))
        if not query.asks_for_tests:
            factors[self._tests] *= _SIDE
        if not query.asks_for_documentation:
            factors[self._documentation] *= _SIDE
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
        self,
        evidence: Fits,
        named_files: Sequence[int],
        factors: Floats,
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


_FENCED = re.compile(r"```[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
_QUOTED = re.compile(r"`([^`\n]+)`")
# Lines of an indented block, or behind the prompt of Python or IPython.
_INDENTED = re.compile(r"^(?: {4}|\t|>>> |In \[\d+\]:)(.*)$", re.MULTILINE)
# _name, camelCase, snake_case, v2, CONSTANT, or a name before a parenthesis.
_LIKE_CODE = re.compile(r"^_|[a-z0-9][A-Z]|\w_\w|[A-Za-z]\d|^[A-Z]{2,}$|\w+(?=\()")
_CALLED = re.compile(r"([^\W\d]\w+)\(")
# Looks ahead, so that a.b.c has two.
_QUALIFIED = re.compile(r"(?=\b([^\W\d]\w*)\.([^\W\d]\w+))")
# File and function of one line of Python's traceback.
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
_EVERYDAY_STEMS = frozenset(chain.from_iterable(map(parts, _EVERYDAY.split())))


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
    prose = _FENCED.sub(" ", text)
    code = [
        *_FENCED.findall(text),
        *_QUOTED.findall(prose),
        *_INDENTED.findall(prose),
    ]
    called = set(_CALLED.findall(text))
    marked = set(IDENTIFIER.findall(" ".join(code))) | called
    for part, weight in ((title, _TITLE_WEIGHS), (body, 1.0)):
        counts = Counter(IDENTIFIER.findall(part))
        for word, count in counts.items():
            word_stems = _telling_stems(word)
            for stem in word_stems:
                stems[stem] += weight * count
            if word_stems and (word in marked or _LIKE_CODE.search(word)):
                identifiers[word] += weight * count
    return Query(
        stems=_dampen(stems),
        identifiers=_dampen(identifiers),
        qualified=tuple(dict.fromkeys(_QUALIFIED.findall(text))),
        frames=tuple(dict.fromkeys(_FRAME.findall(text))),
        asks_for_tests=_ON_TESTS.search(title) is not None,
        asks_for_documentation=_ON_DOCUMENTATION.search(title) is not None,
    )


def _telling_stems(word: str) -> list[str]:
    stems = []
    for stem in parts(word):
        if stem not in _EVERYDAY_STEMS and len(stem) > 1:
            stems.append(stem)
    return stems


def _dampen(counts: Mapping[str, float]) -> dict[str, float]:
    """Return weights that grow more slowly than the counts, by sorted names."""
    sorted_counts = sorted(counts.items())
    return {name: 3.0 * count / (2.0 + count) for name, count in sorted_counts}


# A name with more definitions than this does not identify one of them.
_MAX_DEFINITIONS = 5
_MIN_NAME = 3
_DAMPING = 0.6
_MAX_STEPS = 50
_CLOSE_ENOUGH = 1e-6


@dataclass(frozen=True)
class References:
    """Edges from the units that use a name to the units that define it.

    Attributes:
        users, definitions: one unit each.
        weights: of each edge, less for names used everywhere.
    """

    users: Ints
    definitions: Ints
    weights: NDArray[np.float32]

    @classmethod
    def of(cls, lexicon: Lexicon) -> References:
        lengths = np.array([len(word) for word in lexicon.index.identifiers])
        all_uses = np.diff(lexicon.index.starts)
        users = []
        definitions = []
        weights = []
        for definition_count in range(1, _MAX_DEFINITIONS + 1):
            shared = lexicon.definition_counts == definition_count
            names = np.flatnonzero(shared & (lengths >= _MIN_NAME))
            postings, counts = lexicon.postings(names)
            uses = all_uses[names]
            commonness = definition_count**2 * np.repeat(uses, uses)
            weight = np.sqrt(counts / commonness)
            units_of_names = lexicon.units_defining(names)
            for units in units_of_names.reshape(-1, definition_count).T:
                users.append(postings)
                definitions.append(np.repeat(units, uses))
                weights.append(weight.astype(np.float32))
        edges = cls(
            users=np.concatenate(users),
            definitions=np.concatenate(definitions),
            weights=np.concatenate(weights),
        )
        return edges._without_loops()

    def _without_loops(self) -> References:
        remaining = self.users != self.definitions
        return References(
            users=self.users[remaining],
            definitions=self.definitions[remaining],
            weights=self.weights[remaining],
        )

    def neighbours(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return, for each unit, the weighted scores of its users, and of what it uses."""
        from_users = self.weights * scores[self.users]
        from_definitions = self.weights * scores[self.definitions]
        return (
            sum_by_number(self.definitions, from_users, len(scores)),
            sum_by_number(self.users, from_definitions, len(scores)),
        )

    def between_files(self, lexicon: Lexicon) -> References:
        """Return the edges from file to file, one for each edge of units in different files."""
        users = lexicon.file_of[self.users]
        definitions = lexicon.file_of[self.definitions]
        edges = References(users, definitions, self.weights)
        return edges._without_loops()

    def importance(self, start: Floats) -> Floats:
        """Return the rank of each node for surfers that start at the nodes of ``start``, by weight.

        PageRank (Page et al. 1999) with weighted edges and a personalised start (Haveliwala
        2002), by power iteration; all zeros for no start. Surfers without an edge start again.
        """
        number = len(start)
        total = start.sum()
        if total <= 0:
            return np.zeros(number)
        begin = start / total
        leaving = sum_by_number(self.users, self.weights, number)
        share = self.weights / leaving[self.users]
        stuck = leaving == 0
        ranks: Floats = begin
        for _ in range(_MAX_STEPS):
            flow = share * ranks[self.users]
            moved = sum_by_number(self.definitions, flow, number)
            moved += ranks[stuck].sum() * begin
            moved = _DAMPING * moved + (1 - _DAMPING) * begin
            change = np.abs(moved - ranks).sum()
            ranks = moved
            if change < _CLOSE_ENOUGH:
                break
        return ranks


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
    lexicon: Lexicon,
    frames: Sequence[tuple[str, str]],
    evidence: Fits,
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
    lexicon: Lexicon,
    identifiers: Numbers,
    weight: float,
    units: Floats,
    files: Floats,
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
