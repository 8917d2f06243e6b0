"""The last resort of the search: lines alike, with a clear lead and no changed identifier."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rapidfuzz.distance import Indel, Opcodes

from agent.formats.prose import prose_columns

Lines = Sequence[str]
Found = tuple[int, int, list[list[str]]]
"""First line, number of lines, and for each line of the search those that it stands for."""

_LEAST = 0.85
_LEAD = 0.08
_WORD = re.compile(r"\w+")
_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "\u00a0": " ", "–": "-", "—": "-"})
_MOST_LINES = 400


def similar_places(have: Lines, search: Lines, path: str) -> list[Found]:
    """Return the one place whose lines are like ``search``, or nothing.

    Likeness is the mean over the lines of the normalized Indel similarity (rapidfuzz), white
    space, blank lines and the kind of quotes aside. It must be at least 0.85 and lead any place
    that does not overlap by 0.08. Outside of comments and strings, no word may differ.
    """
    wanted = [n for n, line in enumerate(search) if line.strip()]
    numbers = [n for n, line in enumerate(have) if line.strip()]
    if not wanted or len(wanted) > _MOST_LINES or len(numbers) < len(wanted):
        return []
    best = _best([_plain(have[n]) for n in numbers], [_plain(search[n]) for n in wanted])
    if best is None:
        return []
    taken = numbers[best : best + len(wanted)]
    pairs = [(taken[i], search[wanted[i]]) for i in range(len(wanted))]
    if not _same_words(have, pairs, path):
        return []
    parts: list[list[str]] = [[] for _ in search]
    ends = [*taken[1:], taken[-1] + 1]
    for index, start, end in zip(wanted, taken, ends, strict=True):
        parts[index] = list(have[start:end])
    return [(taken[0], taken[-1] + 1 - taken[0], parts)]


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
                known[key] = Indel.normalized_similarity(*key, score_cutoff=0.5)
            total += known[key]
            if total + size - index - 1 < _LEAST * size:
                return 0.0
        return total / size

    scores = [likeness(start) for start in range(len(have) - size + 1)]
    best = max(range(len(scores)), key=lambda start: (scores[start], -start))
    apart = [score for start, score in enumerate(scores) if abs(start - best) >= size]
    # A place that scores below the least counts as just below it: a lead cannot hide there.
    second = max([*apart, 0.0])
    return best if scores[best] >= _LEAST and scores[best] - second >= _LEAD else None


def _same_words(have: Lines, pairs: Sequence[tuple[int, str]], path: str) -> bool:
    """Tell whether the lines of the file have the words that the model wrote, prose aside."""
    differing = [(n, line) for n, line in pairs if _words(have[n]) != _words(line)]
    if not differing:
        return True
    prose = prose_columns(have, path)
    return all(_differ_in_prose(have[n], line, prose.get(n, frozenset())) for n, line in differing)


def _words(line: str) -> list[str]:
    return _WORD.findall(line)


def _differ_in_prose(line: str, wrote: str, prose: frozenset[int]) -> bool:
    """Tell whether every word of ``line`` that ``wrote`` lacks or changes stands in prose."""
    have, want = list(_WORD.finditer(line)), _words(wrote)
    opcodes: Opcodes = Indel.opcodes([match.group() for match in have], want)
    for change in opcodes:
        if change.tag == "delete" or change.tag == "replace":
            touched = have[change.src_start : change.src_end]
        elif change.tag == "insert":
            # A new word belongs to the words around it: one of them must be prose.
            touched = have[max(0, change.src_start - 1) : change.src_start + 1][:1]
            if not touched:
                return False
        else:
            continue
        if any(match.start() not in prose for match in touched):
            return False
    return True
