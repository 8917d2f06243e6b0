"""Choose the parts of a long file that a message shows: whole functions that matter."""

from __future__ import annotations

from collections import Counter
from itertools import chain, groupby, pairwise

from swe_retry.agent.formats.matching.lines import bare_lines, to_lines, with_ends
from swe_retry.agent.grammars import language_of
from swe_retry.agent.repomap.scanning.scan import scan
from swe_retry.agent.repomap.scanning.tags import IDENTIFIER
from swe_retry.llm.tokens import Count

LineSpan = tuple[int, int]
"""The first line (from 0) and the line behind the last."""
# Lines of a span between functions.
_PIECE = 40
# Words of the focus that a span has, each divided by the number of spans that have it.
_MIN_SHARED = 0.5


def choose_spans(
    path: str, text: str, focus: str, about: str, room: int, count: Count
) -> dict[LineSpan, str]:
    """Return the beginning of a file and what ``focus`` names or shares rare words with.

    Functions that ``about`` names, and lines that it holds, come first. ``room`` is in ``count``.
    """
    lines = to_lines(text)
    names = _split(path, text, len(lines))
    texts = {span: with_ends(lines[slice(*span)]) for span in names}
    words = {span: set(IDENTIFIER.findall(texts[span])) for span in texts}
    counts = Counter(chain.from_iterable(words.values()))
    named = set(IDENTIFIER.findall(focus))
    meant = {*IDENTIFIER.findall(about), *bare_lines(about)}

    def worth(span: LineSpan) -> tuple[bool, bool, float]:
        is_meant = not meant.isdisjoint({names[span], *bare_lines(texts[span])})
        shared = sum(1 / counts[word] for word in words[span] & named)
        return is_meant, names[span] in named, shared

    first = next(iter(texts))
    chosen: set[int] = set()
    ranked = sorted(texts, key=lambda span: (span == first, worth(span)), reverse=True)
    for span in ranked:
        if span != first and worth(span) < (False, False, _MIN_SHARED):
            break
        needed = count(texts[span])
        if needed <= room:
            chosen.update(range(*span))
            room -= needed
    spans = {}
    for _, run in groupby(enumerate(sorted(chosen)), lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in run]
        span = numbers[0], numbers[-1] + 1
        spans[span] = with_ends(lines[slice(*span)])
    return spans


def _split(path: str, text: str, end: int) -> dict[LineSpan, str]:
    """Return the functions with their names, and pieces of what stands between them."""
    starts = {0: "", end: ""}
    language = language_of(path)
    tags = scan(text.encode("utf-8", "surrogatepass"), language) if language else None
    inside = 0
    for definition in tags.definitions if tags else ():
        if definition.kind == "function" and definition.first > inside:
            inside = definition.last
            starts[definition.first - 1 - len(definition.decorators)] = definition.name
            starts.setdefault(inside, "")
    spans = {}
    for start, following in pairwise(sorted(starts)):
        size = following - start if starts[start] else _PIECE
        for first in range(start, following, size):
            spans[first, min(first + size, following)] = starts[start]
    return spans
