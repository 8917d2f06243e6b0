"""Find rows that share text with evaluation problems. Pure.

Two texts share a run of 13 tokens (T. Brown et al., "Language models are few-shot learners", 2020,
arXiv:2005.14165, appendix C, with 13-grams), or half of their 8-grams. Tokens are lower-case runs
of letters, digits and ``_``, so that white space, line breaks, quotes and brackets do not matter.
Every text is compared with its comments and without them, so that a copy with other comments is
found as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from core.plaintext import shortened
from exercises.editpack.rows import INSTRUCTION, NEW, OLD, Row, message_of

RUN, GRAM, JACCARD = 13, 8, 0.5
"""Tokens of a run; tokens of the grams whose Jaccard index is taken; its limit."""
FEWEST_WORDS = 3
"""A gram of fewer distinct words says nothing: tables of numbers, lists of letters."""
BOILERPLATE = Path(__file__).with_name("boilerplate.txt")
_TOKEN = re.compile(r"\w+")
_WORD = re.compile(r"[^\W\d]\w")
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
_SHOWN = 240


@dataclass(frozen=True)
class EvaluationText:
    """A text of an evaluation problem.

    Attributes:
        origin: the position of its set among those given.
        column: of the row, or the kind of file.
    """

    origin: int
    problem: str
    column: str
    text: str


@dataclass(frozen=True)
class SharedText:
    """What a row shares with a problem."""

    found: EvaluationText
    column: str
    rule: str
    shared: str

    def __str__(self) -> str:
        place = f"{self.found.problem}, {self.found.column} = {self.column}"
        return f"{place}: {self.shared}"


@dataclass(frozen=True)
class ProblemIndex:
    """The grams of evaluation problems.

    Attributes:
        texts: those with at least 8 tokens; one that has comments is there twice, once without.
        sizes: distinct 8-grams of each.
        eights: positions of the texts that have an 8-gram.
        runs: the first text that has a run of 13 tokens. A text of 8 to 12 tokens is one run.
        lengths: tokens of those runs.
        short: texts under 8 tokens, which are not compared.
    """

    texts: tuple[EvaluationText, ...]
    sizes: tuple[int, ...]
    eights: Mapping[str, Sequence[int]]
    runs: Mapping[str, int]
    lengths: tuple[int, ...]
    short: tuple[EvaluationText, ...]


def index_of(texts: Iterable[EvaluationText]) -> ProblemIndex:
    """Return the index of the texts of evaluation problems."""
    long, sizes, short = list[EvaluationText](), list[int](), list[EvaluationText]()
    eights, runs = dict[str, list[int]](), dict[str, int]()
    lengths = {RUN}
    for text in texts:
        if len(tokens_of(text.text)) < GRAM:
            short.append(text)
            continue
        for tokens in map(tokens_of, _versions(text.text)):
            length, grams = max(GRAM, min(RUN, len(tokens))), _telling(tokens, GRAM)
            lengths.add(length)
            for gram in grams:
                eights.setdefault(gram, []).append(len(long))
            for gram in _telling(tokens, length):
                runs.setdefault(gram, len(long))
            long.append(text)
            sizes.append(len(grams))
    order = tuple(sorted(lengths, reverse=True))
    return ProblemIndex(tuple(long), tuple(sizes), eights, runs, order, tuple(short))


def leak_of(row: Row, index: ProblemIndex) -> SharedText | None:
    """Return the first text that a row shares with a problem, None if there is none."""
    columns = ((OLD, row[OLD]), (NEW, row[NEW]), (INSTRUCTION, message_of(row)))
    for column, text in columns:
        for version in _versions(text):
            tokens = tokens_of(version)
            # Without a known 8-gram there is no known run either.
            if known := {gram for gram in _grams(tokens, GRAM) if gram in index.eights}:
                found = _run(column, version, tokens, index) or _alike(column, tokens, known, index)
                if found:
                    return found
    return None


def _run(column: str, text: str, tokens: Sequence[str], index: ProblemIndex) -> SharedText | None:
    for length in index.lengths:
        known = [gram in index.runs for gram in _grams(tokens, length)]
        if True not in known:
            continue
        start = known.index(True)
        # The run goes on as long as its grams are known.
        grams = known.index(False, start) - start if False in known[start:] else len(known) - start
        spans = [match.span() for match in _TOKEN.finditer(text)]
        shared = text[spans[start][0] : spans[start + grams + length - 2][1]]
        place = index.runs[" ".join(tokens[start : start + length])]
        return SharedText(index.texts[place], column, "run", shortened(shared, _SHOWN))
    return None


def _alike(
    column: str, tokens: Sequence[str], known: Iterable[str], index: ProblemIndex
) -> SharedText | None:
    shared = Counter(place for gram in known for place in index.eights[gram])
    size = len(_telling(tokens, GRAM))
    values = {place: n / (size + index.sizes[place] - n) for place, n in shared.items()}
    place = min(values, key=lambda place: (-values[place], place))
    if values[place] < JACCARD:
        return None
    gram = next(gram for gram in _grams(tokens, GRAM) if place in index.eights.get(gram, ()))
    words = f"{values[place]:.2f} of the {GRAM}-grams, first: {gram}"
    return SharedText(index.texts[place], column, "jaccard", shortened(words, _SHOWN))


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a text: lower-case runs of letters, digits and ``_``."""
    # Lowered one by one: lower-case letters may be more characters, and their places would shift.
    return [match[0].lower() for match in _TOKEN.finditer(text)]


def _versions(text: str) -> Iterator[str]:
    yield text
    bare = _COMMENT.sub("", text)
    if bare != text:
        yield bare


def _grams(tokens: Sequence[str], length: int) -> Iterator[str]:
    return (" ".join(tokens[n : n + length]) for n in range(len(tokens) - length + 1))


def _telling(tokens: Sequence[str], length: int) -> dict[str, None]:
    ignored = [gram in boilerplate() for gram in _grams(tokens, GRAM)]
    return {
        gram: None
        for n, gram in enumerate(_grams(tokens, length))
        if len(set(filter(_WORD.match, tokens[n : n + length]))) >= FEWEST_WORDS
        and not any(ignored[n : n + length - GRAM + 1])
    }


@cache
def boilerplate() -> frozenset[str]:
    """Return the 8-grams of texts that any project may hold, such as licences."""
    paragraphs = BOILERPLATE.read_text(encoding="utf-8").split("\n\n")
    return frozenset(gram for text in paragraphs for gram in _grams(tokens_of(text), GRAM))
