"""Tell a model why its SEARCH lines were not found, with the nearest lines that are there."""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import Indel

_CONTEXT = 3
_MINIMUM = 0.6
_MOST_LINES = 400


def explain_mismatch(path: str, search: str, replace: str, text: str | None) -> str:
    """Return a paragraph for the model about a block for ``path`` that could not be applied."""
    head = f"## This SEARCH block for {path} matches no lines"
    block = f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE"
    if text is None:
        return f"{head}: there is no file {path}.\n{block}"
    parts = [f"{head} of the file exactly.", block]
    near = nearest_lines(search.splitlines(), text.split("\n"))
    if near:
        parts.append(f"The nearest lines of {path} are:\n{near}")
    if replace.strip() and replace in text:
        parts.append(f"The REPLACE lines are already in {path}: is this block still needed?")
    return "\n\n".join(parts)


def nearest_lines(search: Sequence[str], lines: Sequence[str]) -> str:
    """Return the numbered lines most like ``search``, with some context; empty if none is like it.

    Likeness is the normalized Indel similarity of the stripped lines (rapidfuzz), a line counting
    as one symbol; ties go to the first place.
    """
    wanted = [line.strip() for line in search][:_MOST_LINES]
    have = [line.strip() for line in lines]
    size = max(1, len(wanted))
    common = set(wanted) - {""}
    starts = range(max(1, len(have) - size + 1))
    likely = [s for s in starts if common.intersection(have[s : s + size])] if common else []
    scored = [(Indel.normalized_similarity(have[s : s + size], wanted), -s) for s in likely]
    best, negative = max(scored, default=(0.0, 0))
    start = -negative
    if best < _MINIMUM:
        start, best = _nearest_single(wanted, have)
    if best < _MINIMUM:
        return ""
    first, last = max(0, start - _CONTEXT), min(len(lines), start + size + _CONTEXT)
    return "\n".join(f"{number + 1:5d}  {lines[number]}" for number in range(first, last))


def _nearest_single(wanted: Sequence[str], have: Sequence[str]) -> tuple[int, float]:
    """Return where the longest wanted line has its best likeness, as (start of block, score)."""
    if not any(wanted):
        return 0, 0.0
    anchor = max(range(len(wanted)), key=lambda i: len(wanted[i]))
    scores = [
        (Indel.normalized_similarity(line, wanted[anchor]), -i) for i, line in enumerate(have)
    ]
    best, negative = max(scores, default=(0.0, 0))
    return max(0, -negative - anchor), best
