"""Explain to a model why its lines were not found, with the nearest lines of the file."""

from __future__ import annotations

from heapq import nlargest
from itertools import accumulate

from rapidfuzz.distance import Indel

from swe_retry.agent.formats.matching.lines import (
    Lines,
    Numbers,
    indent_of,
    scope_of,
    strip_lines,
)

_CONTEXT_LINES = 3
_MIN_LIKENESS = 0.6
_MAX_LINES = 400
_MAX_QUOTED = 40
_MAX_MATCHES = 10
_MAX_STARTS = 50
_MAX_LINE_LENGTH = 1_000
AMBIGUOUS = "these lines stand in "
"""How the explanation of lines that are found in several places begins."""


def explain_mismatch(path: str, search: str, replace: str, text: str | None) -> str:
    """Return a paragraph for the model about lines of ``path`` that were not found."""
    quotation = _quotation(search)
    if text is None:
        return (
            f"there is no file {path}; these lines were looked for in it:\n{quotation}"
        )
    parts = [f"these lines are not in {path}:\n{quotation}"]
    lines = text.split("\n")
    near = nearest_lines(search.splitlines(), lines)
    if near:
        parts.append(f"The nearest lines of {path} are:\n{near}")
    if replace.strip() and f"\n{replace}" in f"\n{text}\n":
        parts.append(f"The new lines are already in {path}: is this edit still needed?")
    return "\n\n".join(parts)


def explain_ambiguity(path: str, search: str, starts: Numbers, text: str) -> str:
    """Return a paragraph about lines that were found in several places (``starts`` from 0)."""
    lines = text.split("\n")
    rows = [
        f"{AMBIGUOUS}{len(starts)} places of {path}, so it is not clear which are "
        f"meant:\n{_quotation(search)}",
        "The places, with the definition that each is in:",
    ]
    rows += [_describe_place(lines, start) for start in starts[:_MAX_MATCHES]]
    others = len(starts) - _MAX_MATCHES
    if others > 0:
        rows.append(f"and {others} more")
    rows.append(
        "Take more lines around the place that you mean, until it is the only one."
    )
    return "\n".join(rows)


def _describe_place(lines: Lines, start: int) -> str:
    row = f"{start + 1:5d}  "
    if start >= len(lines):
        return row
    row += _shorten(lines[start].strip())
    header = scope_of(lines, start)[0]
    if header < start and indent_of(lines[start]):
        header_line = _shorten(lines[header].strip())
        if header_line:
            row += f"    (in: {header_line})"
    return row


def _quotation(search: str) -> str:
    lines = search.splitlines()
    rows = [f"    | {_shorten(line)}" for line in lines[:_MAX_QUOTED]]
    others = len(lines) - _MAX_QUOTED
    if others > 0:
        rows.append(f"    … {others} more lines")
    return "\n".join(rows)


def _shorten(line: str) -> str:
    excess = len(line) - _MAX_LINE_LENGTH
    if excess <= 0:
        return line
    return f"{line[:_MAX_LINE_LENGTH]}… ({excess} more characters)"


def nearest_lines(search: Lines, lines: Lines) -> str:
    """Return the numbered lines most like ``search``, with some context; empty if none is like it.

    Likeness is the normalized Indel similarity of the stripped lines (rapidfuzz), with a line as
    one symbol; ties go to the first place.
    """
    stripped_search = strip_lines(search[:_MAX_LINES])
    stripped_lines = strip_lines(lines)
    size = max(1, len(stripped_search))
    start = 0
    likeness = 0.0
    for likely in sorted(_likely_starts(stripped_lines, stripped_search, size)):
        window = stripped_lines[likely : likely + size]
        score = Indel.normalized_similarity(window, stripped_search)
        if score > likeness:
            start = likely
            likeness = score
    if likeness < _MIN_LIKENESS:
        start, likeness = _nearest_line(stripped_search, stripped_lines)
    if likeness < _MIN_LIKENESS:
        return ""
    first = max(0, start - _CONTEXT_LINES)
    end = min(len(lines), start + size + _CONTEXT_LINES)
    rows = []
    for number in range(first, end):
        rows.append(f"{number + 1:5d}  {_shorten(lines[number])}")
    return "\n".join(rows)


def _likely_starts(lines: Lines, search: Lines, size: int) -> list[int]:
    """Return where windows of ``size`` begin that share the most lines with ``search``."""
    full = set(search) - {""}
    sums = [0, *accumulate(line in full for line in lines)]
    counts = {}
    max_start = max(0, len(lines) - size)
    for start in range(max_start + 1):
        end = min(start + size, len(lines))
        count = sums[end] - sums[start]
        if count:
            counts[start] = count
    # Of equal ones the first, as in a stable sort.
    return nlargest(_MAX_STARTS, counts, key=counts.__getitem__)


def _nearest_line(search: Lines, lines: Lines) -> tuple[int, float]:
    """Return where ``search`` begins if its longest line is the likest one, and the likeness."""
    if not any(search):
        return 0, 0.0
    longest = max(search, key=len)
    start = 0
    likeness = 0.0
    for number, line in enumerate(lines):
        score = Indel.normalized_similarity(
            line[:_MAX_LINE_LENGTH], longest[:_MAX_LINE_LENGTH]
        )
        if score > likeness:
            start = number
            likeness = score
    return max(0, start - search.index(longest)), likeness
