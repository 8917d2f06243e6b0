"""Explain to a model why its lines were not found, with the nearest lines of the file."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import nsmallest
from itertools import accumulate

from rapidfuzz.distance import Indel

from agent.formats.matching.lines import indent_of, scope_of

_CONTEXT = 3
_MINIMUM = 0.6
_MOST_LINES = 400
_MOST_QUOTED = 40
_MOST_PLACES = 10
_MOST_STARTS = 50
_LONGEST_LINE = 1_000
AMBIGUOUS = "these lines stand in "
"""How the explanation of lines that are found in several places begins."""


def explain_mismatch(path: str, search: str, replace: str, text: str | None) -> str:
    """Return a paragraph for the model about lines of ``path`` that were not found."""
    if text is None:
        return f"there is no file {path}; these lines were looked for in it:\n{_quoted(search)}"
    parts = [f"these lines are not in {path}:\n{_quoted(search)}"]
    near = nearest_lines(search.splitlines(), text.split("\n"))
    if near:
        parts.append(f"The nearest lines of {path} are:\n{near}")
    if replace.strip() and f"\n{replace}" in f"\n{text}\n":
        parts.append(f"The new lines are already in {path}: is this edit still needed?")
    return "\n\n".join(parts)


def explain_ambiguity(path: str, search: str, starts: Sequence[int], text: str) -> str:
    """Return a paragraph about lines that were found in several places (``starts`` from 0)."""
    lines = text.split("\n")
    shown = []
    for start in starts[:_MOST_PLACES]:
        first, _ = scope_of(lines, start)
        line = _cut(lines[start].strip()) if start < len(lines) else ""
        head = (
            _cut(lines[first].strip())
            if first < start and indent_of(lines[start])
            else ""
        )
        shown.append(f"{start + 1:5d}  {line}" + (f"    (in: {head})" if head else ""))
    more = len(starts) - len(shown)
    return "\n".join(
        [
            f"{AMBIGUOUS}{len(starts)} places of {path}, so it is not clear which are "
            f"meant:\n{_quoted(search)}",
            "The places, with the definition that each is in:",
            *shown,
            *([f"and {more} more"] if more else []),
            "Take more lines around the place that you mean, until it is the only one.",
        ]
    )


def _quoted(search: str) -> str:
    lines = search.splitlines()
    shown = "\n".join(f"    | {_cut(line)}" for line in lines[:_MOST_QUOTED])
    more = len(lines) - _MOST_QUOTED
    return f"{shown}\n    … {more} more lines" if more > 0 else shown


def _cut(line: str) -> str:
    more = len(line) - _LONGEST_LINE
    return line if more <= 0 else f"{line[:_LONGEST_LINE]}… ({more} more characters)"


def nearest_lines(search: Sequence[str], lines: Sequence[str]) -> str:
    """Return the numbered lines most like ``search``, with some context; empty if none is like it.

    Likeness is the normalized Indel similarity of the stripped lines (rapidfuzz), with a line as
    one symbol; ties go to the first place.
    """
    wanted = [line.strip() for line in search][:_MOST_LINES]
    have = [line.strip() for line in lines]
    size = max(1, len(wanted))
    likely = _likely_starts(have, set(wanted) - {""}, size)
    scored = [
        (Indel.normalized_similarity(have[s : s + size], wanted), -s) for s in likely
    ]
    best, negative = max(scored, default=(0.0, 0))
    start = -negative
    if best < _MINIMUM:
        start, best = _nearest_single(wanted, have)
    if best < _MINIMUM:
        return ""
    first, last = max(0, start - _CONTEXT), min(len(lines), start + size + _CONTEXT)
    return "\n".join(
        f"{number + 1:5d}  {_cut(lines[number])}" for number in range(first, last)
    )


def _likely_starts(
    have: Sequence[str], wanted: Collection[str], size: int
) -> list[int]:
    sums = [0, *accumulate(line in wanted for line in have)]
    starts = range(max(1, len(have) - size + 1))
    counts = {
        start: sums[min(start + size, len(have))] - sums[start] for start in starts
    }
    return nsmallest(
        _MOST_STARTS, (s for s in starts if counts[s]), key=lambda s: (-counts[s], s)
    )


def _nearest_single(wanted: Sequence[str], have: Sequence[str]) -> tuple[int, float]:
    if not any(wanted):
        return 0, 0.0
    anchor = max(range(len(wanted)), key=lambda i: len(wanted[i]))
    looked_for = wanted[anchor][:_LONGEST_LINE]
    scores = [
        (Indel.normalized_similarity(line[:_LONGEST_LINE], looked_for), -i)
        for i, line in enumerate(have)
    ]
    best, negative = max(scores, default=(0.0, 0))
    return max(0, -negative - anchor), best
