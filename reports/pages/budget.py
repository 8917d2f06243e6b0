"""Pure: how long texts may be, so that the pages of a run stay within their size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import escape


@dataclass(frozen=True)
class Cut:
    """A text as it is shown.

    Attributes:
        head, tail: what is left of its two ends; all of it is the head where nothing is left out.
        left_out: characters between them.
    """

    head: str
    tail: str = ""
    left_out: int = 0


def size(text: str) -> int:
    """Return the bytes that ``text`` takes in a page."""
    return len(str(escape(text)).encode("utf-8", "backslashreplace"))


def fitting_size(sizes: Iterable[int], budget: int) -> int | None:
    """Return the size to which longer texts must be cut, None when all fit as they are.

    Short texts stay whole and the longest give way: the sum of ``min(size, result)`` is the
    greatest within ``budget``.
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
    """Cut ``text`` to about ``most`` bytes of page: two thirds from its head, one from its tail."""
    taken = size(text)
    if most is None or taken <= most:
        return Cut(text)
    kept = len(text) * most // taken
    tail = kept // 3
    head = kept - tail
    return Cut(text[:head], text[len(text) - tail :], len(text) - kept)
