"""The names that a file defines: a fence that defines all of them may be the complete file."""

from __future__ import annotations

from functools import lru_cache

from swe_retry.agent.formats.matching.lines import bare_lines
from swe_retry.agent.grammars import language_of
from swe_retry.agent.repomap.scanning.spans import find_spans


def is_complete(path: str, before: str | None, content: str) -> bool:
    """Return whether ``content`` may be the new text of the file ``path`` instead of ``before``.

    It defines all names that the file defines; where there are none, it has the first and the last
    line.
    """
    if before is None or before == content:
        return False
    names = defined_names(path, before)
    if names:
        return names <= defined_names(path, content)
    return _ends(before) <= set(bare_lines(content))


@lru_cache(maxsize=64)
def defined_names(path: str, text: str) -> frozenset[str]:
    """Return the names of functions, classes and constants."""
    language = language_of(path)
    if not language:
        return frozenset()
    spans = find_spans(text.encode("utf-8", "surrogatepass"), language)
    return frozenset(span.name for span in spans)


@lru_cache(maxsize=1)
def _ends(text: str) -> frozenset[str]:
    lines = bare_lines(text)
    return frozenset(lines[:1] + lines[-1:])
