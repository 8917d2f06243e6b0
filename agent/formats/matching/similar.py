"""The last step of the search: similar lines with a clear lead and no changed identifier."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz.distance import Indel, Opcodes

from agent.formats.matching.comments import comment_columns
from agent.formats.matching.reindent import counterparts

Lines = Sequence[str]
Found = tuple[int, int, list[list[str]]]
"""First line, number of lines, and for each line of the search the corresponding lines."""

_LEAST = 0.85
_LEAST_LINE = 0.8
_LEAD = 0.08
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"_|\d|[a-z][A-Z]")
_OPERATOR = re.compile(r"[<>=!+\-*/%&|^~@]")
_LITERAL = re.compile(r"'[^']*'|\"[^\"]*\"")
_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "\u00a0": " ", "–": "-", "—": "-"})
_MOST_LINES = 400
# The comparison takes each line of one text with each of the other, by character.
_MOST_PAIRS = 2_000_000
_LONGEST_LINE = 1_000
_LARGEST_FILE = 2_000_000


def similar_places(have: Lines, search: Lines, path: str) -> list[Found]:
    """Return the only place whose lines are like ``search``, or nothing.

    Likeness is the mean over the lines of the normalized Indel similarity (rapidfuzz), white
    space, blank lines and the kind of quotes aside. It must be at least 0.85 and lead any place
    that does not overlap by 0.08. Only plain words of prose (comments, docstrings, sentences in
    strings) may differ, and every line is alike by 0.8.
    """
    wanted = [n for n, line in enumerate(search) if line.strip()]
    numbers = [n for n, line in enumerate(have) if line.strip()]
    if not wanted or len(wanted) > _MOST_LINES or len(numbers) < len(wanted):
        return []
    if len(wanted) * len(numbers) > _MOST_PAIRS or sum(map(len, have)) > _LARGEST_FILE:
        return []
    looked_for = [_plain(search[n]) for n in wanted]
    plain = _plain_lines(tuple(have))
    # Where most lines are nowhere in the file, the places are not compared.
    if 2 * sum(line in plain.known for line in looked_for) < len(wanted) - 2:
        return []
    best = _best([plain.lines[n] for n in numbers], looked_for)
    if best is None:
        return []
    taken = numbers[best : best + len(wanted)]
    pairs = [(taken[i], search[wanted[i]]) for i in range(len(wanted))]
    if not _may_stand_for(have, pairs, path):
        return []
    parts = counterparts(have, search, taken, wanted)
    return [(taken[0], taken[-1] + 1 - taken[0], parts)]


@dataclass(frozen=True)
class _Plain:
    lines: tuple[str, ...]
    known: frozenset[str]


@lru_cache(maxsize=2)
def _plain_lines(have: tuple[str, ...]) -> _Plain:
    lines = tuple(_plain(line) for line in have)
    return _Plain(lines, frozenset(lines))


def _plain(line: str) -> str:
    return " ".join(line.translate(_QUOTES).split())


def _best(have: Lines, search: Lines) -> int | None:
    """Return where the most similar lines begin, when the lead over the next is clear."""
    size = len(search)
    known: dict[tuple[str, str], float] = {}

    def likeness(start: int) -> float:
        total = 0.0
        for index, line in enumerate(search):
            key = (have[start + index], line)
            if key not in known:
                known[key] = _likeness(*key)
            total += known[key]
            if total + size - index - 1 < _LEAST * size:
                return 0.0
        return total / size

    scores = [likeness(start) for start in range(len(have) - size + 1)]
    best = max(range(len(scores)), key=lambda start: (scores[start], -start))
    apart = [score for start, score in enumerate(scores) if abs(start - best) >= size]
    second = max([*apart, 0.0])
    return best if scores[best] >= _LEAST and scores[best] - second >= _LEAD else None


def _likeness(line: str, wrote: str) -> float:
    if max(len(line), len(wrote)) > _LONGEST_LINE:
        return float(line == wrote)
    return Indel.normalized_similarity(line, wrote, score_cutoff=0.5)


def _may_stand_for(have: Lines, pairs: Sequence[tuple[int, str]], path: str) -> bool:
    """Return whether the words allow the lines of the file to be those of the model."""
    differing = [(n, line) for n, line in pairs if _plain(have[n]) != _plain(line)]
    if not differing:
        return True
    if any(max(len(have[n]), len(line)) > _LONGEST_LINE for n, line in differing):
        return False
    prose = comment_columns(have, path, {n for n, _ in differing})
    return all(_harmless(have[n], line, prose.get(n, frozenset())) for n, line in differing)


def _harmless(line: str, wrote: str, prose: frozenset[int]) -> bool:
    """Return whether ``line`` and ``wrote`` differ only in marks and in plain words of prose.

    A name (with an underscore, a digit, or a capital inside) may not differ even in prose, and
    nothing may differ inside a string that is no prose. The operators are the same.
    """
    if Indel.normalized_similarity(_plain(line), _plain(wrote)) < _LEAST_LINE:
        return False
    if _OPERATOR.findall(line) != _OPERATOR.findall(wrote):
        return False
    have, want = list(_WORD.finditer(line)), _WORD.findall(wrote)
    literals = [m for m in _LITERAL.finditer(line.translate(_QUOTES)) if m.start() not in prose]
    said = _LITERAL.findall(wrote.translate(_QUOTES))
    if any(m.group() not in said for m in literals) or (not prose and len(literals) != len(said)):
        return False
    changes: Opcodes = Indel.opcodes([match.group() for match in have], want)
    for change in changes:
        if change.tag == "equal":
            continue
        # A new word belongs to the word before it, else to the one behind it.
        first = change.src_start - (change.tag == "insert")
        touched = have[max(0, first) : max(change.src_end, first + 1)]
        words = [match.group() for match in touched] + want[change.dest_start : change.dest_end]
        in_prose = bool(touched) and all(match.start() in prose for match in touched)
        if not in_prose or any(_NAME.search(word) for word in words):
            return False
    return True
