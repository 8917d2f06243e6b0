"""Read SEARCH/REPLACE blocks in the variants that models write."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from agent.formats.base import Edit, ReplyScope, SearchReplace, Unreadable
from agent.formats.matching.lines import with_ends
from agent.formats.reading.fences import (
    CLOSE,
    DIVIDER,
    GLUED_CLOSE,
    GLUED_DIVIDER,
    MARKUP,
    OPEN,
    OTHER_CLOSE,
    OTHER_OPEN,
    STRAY,
    USUAL,
    fence_of,
    file_for,
    marker_size,
    strays,
)
from agent.formats.reading.names import path_in_line, resolve_existing

_GLUED_OPEN = re.compile(
    r"^(\s{0,3}<{5,} ?(?:SEARCH|ORIGINAL))(?!\s*[>:]?\s*$|\s+(?:[A-Za-z]+\s*$|\())( *\S.*)$"
)
_LONGEST = 10_000
_APPENDS = re.compile(
    r"\b(?:to|at) the (?:very )?(?:end|bottom)\b|\bend of (?:the )?file\b|^\W{0,20}append\b"
    r"|\bappend(?:ed|ing|s)?\b[^.\n]{0,200}\b(?:this|these|following|below|lines?|file|code|block)\b",
    re.IGNORECASE | re.MULTILINE,
)
# Each is a reading of the whole block; no recorded block has more lines of `=`.
_MOST_DIVIDERS = 8


def read_blocks(
    lines: list[str], scope: ReplyScope, closing: str = "REPLACE"
) -> Iterator[Edit | list[str]]:
    """Yield the blocks in ``lines``, and the lines before, between and after them as lists.

    An unreadable block is an ``Unreadable``. ``closing`` is the word of the closing marker that
    the model was told to write.
    """
    # What stands behind an opening marker gets its own line: a path before it, code after.
    found: list[str] = []
    for line in lines:
        glued = (
            _GLUED_OPEN.match(line) if "<<<" in line and len(line) < _LONGEST else None
        )
        if not glued:
            found.append(line)
        elif path_in_line(glued[2], ()):
            found += [glued[2], glued[1]]
        else:
            one = glued[2].startswith(" ") and not glued[2].startswith("  ")
            found += [glued[1], glued[2][one:]]
    return _Blocks(found, scope, closing).all()


class _Blocks:
    def __init__(self, lines: list[str], scope: ReplyScope, closing: str) -> None:
        self.lines = lines
        self.scope = scope
        self.closing = closing
        self.path: str | None = None
        self.fence = ""
        self.marks = _Marks(lines)

    def all(self) -> Iterator[Edit | list[str]]:
        done = 0
        count = len(self.lines)
        at = _first(self.marks.openings, 0, count)
        while at < count:
            before = self.lines[done:at]
            yield before
            creates = at + 1 < count and bool(DIVIDER.match(self.lines[at + 1]))
            self.path = file_for(before, self.scope.known, self.path, new=creates)
            marks = [mark[0] for line in before if (mark := fence_of(line))]
            self.fence = marks[-1] if marks else self.fence
            end, closed = self._closing(at)
            yield self._edit(before, at, end, closed=closed)
            done = min(end + closed, count)
            at = _first(self.marks.openings, max(done, at + 1), count)
        yield self.lines[done:]

    def _closing(self, at: int) -> tuple[int, bool]:
        """Return the last line of the block, and whether a marker or fence closes it there.

        A marker of the same length as the opening one takes precedence: blocks about blocks use
        longer markers. Where another block begins first, or the reply ends, a marker behind code
        or with another word closes the block as well, or a fence after the divider.
        """
        size, marks = marker_size(self.lines[at]), self.marks
        end = _first(marks.opening_of.get(size, ()), at + 1, len(self.lines))
        same = _first(marks.closing_of.get(size, ()), at + 1, end)
        other = _first(marks.closings, at + 1, end)
        if same < end or other < end:
            return (same if same < end else other), True
        last = bisect_left(marks.loose_closings, end) - 1
        if last >= 0 and marks.loose_closings[last] > at:
            return marks.loose_closings[last], True
        fence = self._closing_fence(at, end)
        return (end, False) if fence is None else (fence, True)

    def _closing_fence(self, at: int, end: int) -> int | None:
        """Return the fence that closes a block without a marker; the last one ends a reply."""
        lines, fences = self.lines, self.marks.bare_fences
        first = _first(fences, _first(self.marks.dividers, at + 1, end), end)
        only = first < end and fences[-1] == first
        if first == end or end < len(lines) or only:
            return None if first == end else first
        return (
            None
            if any(line.strip() for line in lines[fences[-1] + 1 :])
            else fences[-1]
        )

    def _edit(self, before: Sequence[str], at: int, end: int, *, closed: bool) -> Edit:
        inside = self.lines[at + 1 : end]
        if closed and (glued := GLUED_CLOSE.match(self.lines[end])):
            inside.append(glued[1])
        if self.path is None:
            return Unreadable("", _NO_NAME + _shown(self.lines[at : at + 3]))
        size = marker_size(self.lines[at])
        markup = self.path.endswith(MARKUP)
        dividers = _dividers(inside, size, markup=markup)
        if not dividers:
            inside = _divided(inside)
            dividers = _dividers(inside, USUAL, markup=markup)
        if not dividers:
            problem = f"the block for {self.path} has no line `=======` between its two parts."
            return Unreadable(self.path, problem + _shown(inside))
        if not closed:
            marker = f">>>>>>> {self.closing}"
            problem = f"the block for {self.path} has no `{marker}` at its end."
            return Unreadable(self.path, problem)
        readings = [self._sections(inside, divider, size) for divider in dividers]
        sections = list(dict.fromkeys(r for reading in readings for r in reading))
        if not sections:
            return Unreadable(self.path, STRAY.format(self.path))
        (search, replace), *others = sections
        prose = [line for line in before if not fence_of(line) and " " in line.strip()]
        appends = bool(_APPENDS.search("\n".join(prose)))
        exists = appends or any(s.strip() for s, _ in sections)
        return SearchReplace(
            path=resolve_existing(self.path, self.scope) if exists else self.path,
            search=search,
            replace=replace,
            readings=tuple(others),
            appends=appends,
            blank_end=True,
        )

    def _sections(
        self, inside: Sequence[str], divider: int, size: int
    ) -> list[tuple[str, str]]:
        """Return the ways to read the two parts: whole, without a wrapping, without marks.

        None of them writes a marker into the file.
        """
        search, replace = inside[:divider], self._trimmed(inside, divider, size)
        if (
            replace
            and replace[0].strip() == self.path
            and any(search)
            and replace[1:] != search
        ):
            replace = replace[1:]
        if strays(replace, search, size):
            return []
        bare = self._unwrap(search), self._unwrap(replace)
        as_it_stands = (with_ends(search), with_ends(replace))
        if bare[0] == search and not (any(search) or bare[1] == replace):
            # A new file whose content is wrapped: no file of that kind begins and ends so.
            markup = str(self.path).endswith(MARKUP)
            return [as_it_stands if markup else ("", with_ends(bare[1]))]
        found = [as_it_stands, (with_ends(bare[0]), with_ends(bare[1]))]
        if _all_marked(search, "-") and _all_marked(replace, "+"):
            plain = ([line[1:] for line in part] for part in (search, replace))
            found.append((with_ends(next(plain)), with_ends(next(plain))))
        return found if bare[0] != search else [found[0], *found[2:]]

    def _trimmed(self, inside: Sequence[str], divider: int, size: int) -> Sequence[str]:
        search, new = inside[:divider], inside[divider + 1 :]
        found = strays(new, search, size)
        first = next((n for n in range(len(new)) if n not in found), len(new))
        last = next(
            (n for n in range(len(new), first, -1) if n - 1 not in found), first
        )
        new = new[first:last]
        fences = [fence_of(line) for line in new]
        odd = [
            sum(map(bool, marks)) % 2
            for marks in (fences, [fence_of(x) for x in search])
        ]
        own = new and self.fence and fences[-1] == (self.fence, "")
        return new[:-1] if own and odd == [1, 0] else new

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
    "a block has no file name. Put the file's path alone on the line before the "
    "opening fence."
)


def _all_marked(lines: Sequence[str], mark: str) -> bool:
    full = [line[:1] for line in lines if line]
    return mark in full and set(full) <= {mark, " "}


def _divided(inside: Sequence[str]) -> list[str]:
    for number, line in enumerate(inside):
        if glued := GLUED_DIVIDER.match(line):
            parts = [glued[1], "=" * USUAL, glued[2]]
            between = [part for part in parts if part is not None]
            return [*inside[:number], *between, *inside[number + 1 :]]
    return list(inside)


def _shown(lines: Sequence[str]) -> str:
    return "".join(f"\n    | {line}" for line in lines[:10])


def _dividers(inside: Sequence[str], size: int, *, markup: bool) -> list[int]:
    """Return the lines that may divide the block, the likeliest first.

    A line as long as the opening marker comes first, then lines that do not underline the line
    above them, as in headings; in ``markup`` an underline may be longer than its heading.
    """
    found = {
        n: len(m[1]) for n, line in enumerate(inside) if (m := DIVIDER.match(line))
    }
    same = [n for n, length in found.items() if length == size]
    candidates = same or [n for n, length in found.items() if 5 <= length <= 9]

    def underlines(n: int) -> bool:
        title = inside[n - 1].rstrip() if n else ""
        equal = len(title) == found[n]
        return bool(title) and (
            equal or (markup and len(title) < found[n] and n - 1 not in found)
        )

    return sorted(candidates, key=lambda n: (underlines(n), n))[:_MOST_DIVIDERS]


class _Marks:
    """The lines of the markers of a reply, so that each line is read once.

    Where no marker has one of the usual words, those of a conflict of git are the markers.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        marked = [n for n, line in enumerate(lines) if marker_size(line)]

        def those(marker: re.Pattern[str]) -> list[int]:
            return [n for n in marked if marker.match(lines[n])]

        self.openings = those(OPEN)
        self.closings = those(CLOSE if self.openings else OTHER_CLOSE)
        self.openings = self.openings or those(OTHER_OPEN)
        self.opening_of = _by_size(self.openings, lines)
        self.closing_of = _by_size(self.closings, lines)
        self.loose_closings = sorted({*those(OTHER_CLOSE), *those(GLUED_CLOSE)})
        self.dividers = those(DIVIDER)
        self.bare_fences = [
            n
            for n, line in enumerate(lines)
            if (mark := fence_of(line)) and not mark[1]
        ]


def _by_size(
    numbers: Sequence[int], lines: Sequence[str]
) -> Mapping[int, Sequence[int]]:
    found: dict[int, list[int]] = {}
    for number in numbers:
        found.setdefault(marker_size(lines[number]), []).append(number)
    return found


def _first(numbers: Sequence[int], start: int, end: int) -> int:
    at = bisect_left(numbers, start)
    return min(numbers[at], end) if at < len(numbers) else end
