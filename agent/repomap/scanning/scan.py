"""Scan a file for the tags of the map: its definitions, and the words in each."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate

from swe_retry.agent.repomap.scanning.spans import Span, as_text, find_spans
from swe_retry.agent.repomap.scanning.tags import IDENTIFIER, Definition, FileTags

_MAX_BYTES = 4_000_000
_MAX_HEAD = 160
_MAX_DOC = 120
# The first line of a docstring behind the colon of a head, with or without a prefix.
_DOCSTRING = re.compile(rb"[:\s]*[rRuUbB]{0,2}(?:\"\"\"|'''|\"|')\\?\s*([^\n\"]+)")
_TRAILING_COMMENT = re.compile(r":\s*#.*$")
# A line of a comment: //, ///, //!, /*, a star inside /* */, or # where that is a comment.
_COMMENT = re.compile(r"^\s*(?:///?!?|/\*+|\*+|#+)\s*(.*?)\s*(?:\*+/)?\s*$")
_HASH_COMMENTS = ("ruby", "php")
_ATTRIBUTE = "#["


def scan(data: bytes, language: str) -> FileTags:
    """Return the tags of ``data``; binary files and files above four megabytes have none."""
    if len(data) > _MAX_BYTES or b"\0" in data:
        return FileTags()
    spans = find_spans(data, language)
    line_lengths = (len(line) + 1 for line in data.split(b"\n"))
    line_starts = list(accumulate(line_lengths, initial=0))
    parents = _parents(spans)
    definitions = []
    for span, parent in zip(spans, parents, strict=True):
        if language == "python":
            end = min(span.end, span.body + 1000)
            match = _DOCSTRING.match(data, span.body, end)
            doc = _one_line(match[1], _MAX_DOC) if match else ""
        else:
            doc = _comment_above(data, line_starts, span, language)
        last_byte = max(span.start, span.end - 1)
        definition = Definition(
            name=span.name,
            kind=span.kind,
            first=bisect_right(line_starts, span.start),
            last=bisect_right(line_starts, last_byte),
            parent=parent,
            signature=_one_line(data[span.start : span.body], _MAX_HEAD),
            decorators=span.decorators,
            doc=doc,
        )
        definitions.append(definition)
    counts: list[Counter[str]] = [Counter() for _ in range(len(spans) + 1)]
    for owner, start, end in _segments(len(data), spans, parents):
        text = as_text(data[start:end])
        counts[owner + 1].update(IDENTIFIER.findall(text))
    return FileTags(tuple(definitions), tuple(map(dict, counts)))


def _parents(spans: Sequence[Span]) -> list[int]:
    """Return the index of the span around each span, -1 for none."""
    parents: list[int] = []
    parent = -1
    for number, span in enumerate(spans):
        while parent >= 0 and spans[parent].end <= span.start:
            parent = parents[parent]
        parents.append(parent)
        parent = number
    return parents


def _segments(
    length: int, spans: Sequence[Span], parents: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """Yield the innermost span of each part of a file, -1 for none, with the part's ends."""
    owner = -1
    position = 0
    starts = [span.start for span in spans]
    for number, start in enumerate([*starts, length]):
        while owner >= 0 and spans[owner].end <= start:
            yield owner, position, spans[owner].end
            position = spans[owner].end
            owner = parents[owner]
        yield owner, position, start
        position = start
        owner = number


def _comment_above(
    data: bytes, line_starts: Sequence[int], span: Span, language: str
) -> str:
    """Return the first line of the comment that ends above ``span`` and its attributes."""
    doc = ""
    first = bisect_right(line_starts, span.start)
    for number in range(first - 1, 0, -1):
        start = line_starts[number - 1]
        end = line_starts[number]
        line = as_text(data[start:end]).lstrip()
        if line.startswith(_ATTRIBUTE):
            continue
        is_directive = line.startswith("#") and language not in _HASH_COMMENTS
        match = _COMMENT.match(line)
        if not match or is_directive:
            break
        doc = match[1] or doc
    return " ".join(doc[:_MAX_DOC].split())


def _one_line(data: bytes, limit: int) -> str:
    text = as_text(data[: 4 * limit])
    text = " ".join(text.split())
    text = _TRAILING_COMMENT.sub("", text)
    return text[:limit].rstrip(" :{=;")
