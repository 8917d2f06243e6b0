"""Read SEARCH/REPLACE blocks in the variants that models write."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from agent.formats.base import Edit, ReplyScope, SearchReplace, Unreadable
from agent.formats.matching.lines import with_ends
from agent.formats.reading.fences import fence_of, path_above, path_in_info, paths_in_prose
from agent.formats.reading.names import path_in_line, resolve_existing

# UPDATED and ORIGINAL are the words of 2023.
OPEN = re.compile(r"^\s{0,3}(<{5,}) ?(?:SEARCH|ORIGINAL)\b")
DIVIDER = re.compile(r"^\s{0,3}(={5,})\s*$")
CLOSE = re.compile(r"^\s{0,3}(>{5,}) ?(?:REPLACE|UPDATED)\b")
_MARKUP = (".md", ".rst", ".txt", ".markdown")
_APPENDS = re.compile(
    r"\b(?:to|at) the (?:very )?(?:end|bottom)\b|\bend of (?:the )?file\b|^\W{0,20}append\b"
    r"|\bappend(?:ed|ing|s)?\b[^.\n]{0,200}\b(?:this|these|following|below|lines?|file|code|block)\b",
    re.IGNORECASE | re.MULTILINE,
)
# Each is a reading of the whole block; no recorded block has more lines of `=`.
_MOST_DIVIDERS = 8


def read_blocks(lines: list[str], scope: ReplyScope, closing: str = "REPLACE") -> Iterator[Edit]:
    """Yield the blocks in ``lines``; an unreadable block is an ``Unreadable``.

    ``closing`` is the word of the closing marker that the model was told to write.
    """
    return _Blocks(lines, scope, closing).all()


class _Blocks:
    """Reads the blocks of one reply, from top to bottom."""

    def __init__(self, lines: list[str], scope: ReplyScope, closing: str) -> None:
        self.lines = lines
        self.scope = scope
        self.closing = closing
        self.path: str | None = None
        self.fence = ""
        self.marks = _Marks(lines)

    def all(self) -> Iterator[Edit]:
        done = 0
        count = len(self.lines)
        at = _first(self.marks.openings, 0, count)
        while at < count:
            before = self.lines[done:at]
            self.path = self._path(before)
            self.fence = _last_fence(before) or self.fence
            end, closed = self._closing(at)
            yield self._edit(before, at, end, closed=closed)
            done = min(end + closed, count)
            at = _first(self.marks.openings, max(done, at + 1), count)

    def _path(self, before: Sequence[str]) -> str | None:
        """Return the file of a block: named before it, else that of the previous block.

        Words between two blocks that name another file decide, or leave the file unknown.
        """
        if name := self._name(before):
            return name
        said = paths_in_prose(before, self.scope.known)
        if not said:
            return self.path
        return said[0] if len(said) == 1 else None

    def _name(self, before: Sequence[str]) -> str | None:
        """Return the file that the lines before a block name: inside or above its fence."""
        full = [line for line in before if line.strip()]
        if not full:
            return None
        known = self.scope.known
        if fence := fence_of(full[-1]):
            return path_in_info(fence[1], known) or path_above(full[:-1], known)
        if len(full) > 1 and fence_of(full[-2]):
            # Inside the fence a comment sign may stand before the name.
            bare = re.sub(r"^(#|//|--|/\*|<!--)\s*", "", full[-1].strip())
            return path_in_line(bare, known)
        return path_above(full, known)

    def _closing(self, at: int) -> tuple[int, bool]:
        """Return the last line of the block, and whether a marker or fence closes it there.

        A marker of the same length as the opening one takes precedence: blocks about blocks use
        longer markers. Where another block begins first, or the reply ends, a fence after the
        divider closes the block as well.
        """
        size, marks = self._size(at), self.marks
        end = _first(marks.opening_of.get(size, ()), at + 1, len(self.lines))
        same = _first(marks.closing_of.get(size, ()), at + 1, end)
        other = _first(marks.closings, at + 1, end)
        if same < end or other < end:
            return (same if same < end else other), True
        fence = self._closing_fence(at, end)
        return (end, False) if fence is None else (fence, True)

    def _closing_fence(self, at: int, end: int) -> int | None:
        """Return the fence that closes a block without a marker; the last one ends a reply."""
        lines, fences = self.lines, self.marks.bare_fences
        first = _first(fences, _first(self.marks.dividers, at + 1, end), end)
        if first == end or end < len(lines):
            return None if first == end else first
        return None if any(line.strip() for line in lines[fences[-1] + 1 :]) else fences[-1]

    def _size(self, at: int) -> int:
        match = OPEN.match(self.lines[at])
        return len(match[1]) if match else 0

    def _edit(self, before: Sequence[str], at: int, end: int, *, closed: bool) -> Edit:
        """Return the block between its markers at ``at`` and ``end``."""
        inside = self.lines[at + 1 : end]
        if self.path is None:
            return Unreadable("", _NO_NAME + _shown(self.lines[at : at + 3]))
        dividers = _dividers(inside, self._size(at))
        if not dividers:
            problem = f"the block for {self.path} has no line `=======` between its two parts."
            return Unreadable(self.path, problem + _shown(inside))
        if not closed:
            marker = f">>>>>>> {self.closing}"
            problem = f"the block for {self.path} has no `{marker}` at its end."
            return Unreadable(self.path, problem)
        readings = [self._sections(inside, divider) for divider in dividers]
        (search, replace), *others = dict.fromkeys(r for reading in readings for r in reading)
        appends = bool(_APPENDS.search(_prose(before)))
        exists = appends or any(s.strip() for s, _ in ((search, replace), *others))
        return SearchReplace(
            path=resolve_existing(self.path, self.scope) if exists else self.path,
            search=search,
            replace=replace,
            readings=tuple(others),
            appends=appends,
            blank_end=True,
        )

    def _sections(self, inside: Sequence[str], divider: int) -> list[tuple[str, str]]:
        """Return the ways to read the two parts: whole, and without a wrapping."""
        search, replace = inside[:divider], inside[divider + 1 :]
        if replace and replace[0].strip() == self.path and any(search) and replace[1:] != search:
            replace = replace[1:]
        bare = self._unwrap(search), self._unwrap(replace)
        as_it_stands = (with_ends(search), with_ends(replace))
        if bare[0] == search and not (any(search) or bare[1] == replace):
            # A new file whose content is wrapped: no file of that kind begins and ends so.
            markup = str(self.path).endswith(_MARKUP)
            return [as_it_stands if markup else ("", with_ends(bare[1]))]
        return (
            [as_it_stands]
            if bare[0] == search
            else [as_it_stands, (with_ends(bare[0]), with_ends(bare[1]))]
        )

    def _unwrap(self, lines: Sequence[str]) -> Sequence[str]:
        """Remove a wrapping of a part: the file's name as the first line, a fence.

        A fence shorter than the one around the block is content.
        """
        if lines and lines[0].strip().strip("`*") == self.path:
            lines = lines[1:]
        marks = [fence_of(lines[0]), fence_of(lines[-1])] if len(lines) > 1 else []
        wrapped = all(mark and mark[0].startswith(self.fence) for mark in marks)
        return lines[1:-1] if marks and wrapped else lines


_NO_NAME = (
    "a block has no file name. Put the file's path alone on the line before the opening fence."
)


def _shown(lines: Sequence[str]) -> str:
    return "".join(f"\n    | {line}" for line in lines[:10])


def _last_fence(before: Sequence[str]) -> str:
    marks = [mark[0] for line in before if (mark := fence_of(line))]
    return marks[-1] if marks else ""


def _prose(before: Sequence[str]) -> str:
    """Return the lines before a block that are neither fences nor names."""
    return "\n".join(line for line in before if not fence_of(line) and " " in line.strip())


def _dividers(inside: Sequence[str], size: int) -> list[int]:
    """Return the lines that may divide the block, the likeliest first.

    A line as long as the opening marker comes first, then lines that do not underline the line
    above them, as in headings.
    """
    found = {n: len(m[1]) for n, line in enumerate(inside) if (m := DIVIDER.match(line))}
    same = [n for n, length in found.items() if length == size]
    candidates = same or [n for n, length in found.items() if length <= 9]

    def underlines(n: int) -> bool:
        return n > 0 and len(inside[n - 1].rstrip()) == found[n]

    return sorted(candidates, key=lambda n: (underlines(n), n))[:_MOST_DIVIDERS]


class _Marks:
    """The lines of the markers of a reply, so that each line is read once."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.opening_of = _by_size(OPEN, lines)
        self.closing_of = _by_size(CLOSE, lines)
        self.openings = sorted(n for found in self.opening_of.values() for n in found)
        self.closings = sorted(n for found in self.closing_of.values() for n in found)
        self.dividers = [n for n, line in enumerate(lines) if DIVIDER.match(line)]
        self.bare_fences = [
            n for n, line in enumerate(lines) if (mark := fence_of(line)) and not mark[1]
        ]


def _by_size(marker: re.Pattern[str], lines: Sequence[str]) -> Mapping[int, Sequence[int]]:
    found: dict[int, list[int]] = {}
    for number, line in enumerate(lines):
        if match := marker.match(line):
            found.setdefault(len(match[1]), []).append(number)
    return found


def _first(numbers: Sequence[int], start: int, end: int) -> int:
    """Return the first of the sorted ``numbers`` from ``start`` on and before ``end``, else it."""
    at = bisect_left(numbers, start)
    return min(numbers[at], end) if at < len(numbers) else end
