"""Pure: shorten long texts, so that the pages of a run keep within their total size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import escape


@dataclass(frozen=True)
class Cut:
    """A text of whose middle ``left_out`` characters are left out."""

    head: str
    tail: str = ""
    left_out: int = 0


def size(text: str) -> int:
    """Return the number of bytes of ``text`` in a page."""
    return len(str(escape(text)).encode("utf-8", "backslashreplace"))


def fitting_size(sizes: Iterable[int], budget: int) -> int | None:
    """Return the size to which longer texts must be cut; None if all texts fit.

    It is the largest size for which the sum of ``min(size, result)`` is within ``budget``, so only
    the longest texts are cut.
    """
    ordered = sorted(sizes)
    left = budget
    for number, one in enumerate(ordered):
        share = left // (len(ordered) - number)
        if one > share:
            return max(share, 0)
        left -= one
    return None


def cut(text: str, most: int | None) -> Cut:
    """Cut ``text`` to about ``most`` bytes: two thirds from its start, one third from its end."""
    taken = size(text)
    if most is None or taken <= most:
        return Cut(text)
    kept = len(text) * most // taken
    tail = kept // 3
    head = kept - tail
    return Cut(text[:head], text[len(text) - tail :], len(text) - kept)
