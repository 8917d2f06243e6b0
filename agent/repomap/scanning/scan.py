"""Scan the bytes of a file for its tags."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate

from agent.repomap.scanning.spans import Span, find_spans
from agent.repomap.scanning.tags import Definition, FileTags
from agent.repomap.scanning.words import IDENTIFIER

_MOST_BYTES = 4_000_000
_LONGEST_HEAD = 160
_LONGEST_DOC = 120
_DOCSTRING = re.compile(rb"[:\s]*[rRuUbB]{0,2}(?:\"\"\"|'''|\"|')\\?\s*([^\n\"]+)")
_TRAILING_COMMENT = re.compile(r":\s*#.*$")
_COMMENT = re.compile(r"^\s*(?:///?!?|/\*+|\*+|#+)\s*(.*?)\s*(?:\*+/)?\s*$")


def scan(data: bytes, language: str) -> FileTags:
    """Return the tags of ``data``; binary files and files above four megabytes have none."""
    if len(data) > _MOST_BYTES or b"\0" in data:
        return FileTags()
    spans = find_spans(data, language)
    lines = list(accumulate((len(line) + 1 for line in data.split(b"\n")), initial=0))
    parents = _parents(spans)
    python = language == "python"
    definitions = tuple(
        Definition(
            span.name,
            span.kind,
            bisect_right(lines, span.start),
            bisect_right(lines, max(span.start, span.end - 1)),
            parent,
            _one_line(data[span.start : span.body], _LONGEST_HEAD),
            span.decorators,
            _docstring(data, span) if python else _comment_above(data, lines, span),
        )
        for span, parent in zip(spans, parents, strict=True)
    )
    return FileTags(definitions, _words(data, spans, parents))


def _parents(spans: Sequence[Span]) -> list[int]:
    """Return for each span the index of the innermost one around it, -1 for none."""
    parents, around = [], list[int]()
    for number, span in enumerate(spans):
        while around and spans[around[-1]].end <= span.start:
            around.pop()
        parents.append(around[-1] if around else -1)
        around.append(number)
    return parents


def _words(
    data: bytes, spans: Sequence[Span], parents: Sequence[int]
) -> tuple[dict[str, int], ...]:
    counts: list[Counter[str]] = [Counter() for _ in range(len(spans) + 1)]
    for owner, start, end in _segments(len(data), spans, parents):
        counts[owner + 1].update(IDENTIFIER.findall(data[start:end].decode("utf-8", "replace")))
    return tuple(map(dict, counts))


def _segments(
    length: int, spans: Sequence[Span], parents: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """Yield (innermost definition or -1, start, end) for all the pieces of a file in order."""
    owner, at = -1, 0
    for number, span in enumerate(spans):
        while owner >= 0 and spans[owner].end <= span.start:
            yield owner, at, spans[owner].end
            at, owner = spans[owner].end, parents[owner]
        yield owner, at, span.start
        at, owner = span.start, number
    while owner >= 0:
        yield owner, at, spans[owner].end
        at, owner = spans[owner].end, parents[owner]
    yield -1, at, length


def _docstring(data: bytes, span: Span) -> str:
    found = _DOCSTRING.match(data, span.body, min(span.end, span.body + 1000))
    return _one_line(found[1], _LONGEST_DOC) if found else ""


def _comment_above(data: bytes, lines: Sequence[int], span: Span) -> str:
    """Return the first line with words of the comment that ends on the line before ``span``."""
    doc = ""
    for number in range(bisect_right(lines, span.start) - 1, 0, -1):
        line = data[lines[number - 1] : lines[number]].decode("utf-8", "replace")
        found = _COMMENT.match(line)
        if found is None:
            break
        doc = found[1] or doc
    return " ".join(doc[:_LONGEST_DOC].split())


def _one_line(data: bytes, longest: int) -> str:
    text = " ".join(data[: 4 * longest].decode("utf-8", "replace").split())
    return _TRAILING_COMMENT.sub("", text)[:longest].rstrip(" :{=;")
