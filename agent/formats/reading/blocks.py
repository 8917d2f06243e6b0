"""Read SEARCH/REPLACE blocks in the variants that models write."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping

from swe_retry.agent.formats.edits import (
    Edit,
    Part,
    Replacement,
    SearchReplace,
    Unreadable,
)
from swe_retry.agent.formats.matching.lines import (
    Lines,
    Numbers,
    has_text,
    numbers_where,
    with_ends,
)
from swe_retry.agent.formats.protocol import ReplyScope
from swe_retry.agent.formats.reading.fences import (
    CLOSE,
    DIVIDER,
    GLUED_CLOSE,
    GLUED_DIVIDER,
    MARKUP_SUFFIXES,
    OPEN,
    OTHER_CLOSE,
    OTHER_OPEN,
    STRAY_MARKER,
    USUAL_SIZE,
    fence_of,
    file_for,
    has_open_fence,
    marker_size,
    stray_markers,
)
from swe_retry.agent.formats.reading.names import path_in_line, resolve_existing

# An opening marker, and what follows it on its line: not just a mark, a word or a remark.
_GLUED_OPEN = re.compile(
    r"^(\s{0,3}<{5,} ?(?:SEARCH|ORIGINAL))(?!\s*[>:]?\s*$|\s+(?:[A-Za-z]+\s*$|\())( *\S.*)$"
)
_MAX_LINE_LENGTH = 10_000
# Words that announce lines for the end of a file.
_APPENDS = re.compile(
    r"\b(?:to|at) the (?:very )?(?:end|bottom)\b|\bend of (?:the )?file\b|^\W{0,20}append\b"
    r"|\bappend(?:ed|ing|s)?\b[^.\n]{0,200}\b(?:this|these|following|below|lines?|file|code|block)\b",
    re.IGNORECASE | re.MULTILINE,
)
# Each is a reading of the whole block; no recorded block has more lines of `=`.
_MAX_DIVIDERS = 8
_NO_NAME = (
    "a block has no file name. Put the file's path alone on the line before the "
    "opening fence."
)


def read_blocks(
    lines: list[str], scope: ReplyScope, closing: str = "REPLACE"
) -> Iterator[Part]:
    """Yield the blocks in ``lines``, and the lines before, between and after them as lists.

    An unreadable block is an ``Unreadable``. ``closing`` is the word of the closing marker that
    the model was told to write.
    """
    separated: list[str] = []
    for line in lines:
        separated += _split_opening(line)
    return _BlockReader(separated, scope, closing).read()


def _split_opening(line: str) -> Lines:
    """Give what stands behind an opening marker its own line: a path before it, code after."""
    if "<<<" not in line or len(line) >= _MAX_LINE_LENGTH:
        return [line]
    glued = _GLUED_OPEN.match(line)
    if not glued:
        return [line]
    marker, rest = glued.groups()
    if path_in_line(rest, ()):
        return [rest, marker]
    if rest.startswith(" ") and not rest.startswith("  "):
        rest = rest[1:]
    return [marker, rest]


class _BlockReader:
    def __init__(self, lines: list[str], scope: ReplyScope, closing: str) -> None:
        self.lines = lines
        self.scope = scope
        self.closing = closing
        self.path = scope.only_file
        self.fence = ""
        self._find_markers(numbers_where(lines, marker_size))

    def _find_markers(self, markers: Numbers) -> None:
        """Keep the lines of the markers of the reply, so that each line is read once.

        Where no marker has one of the usual words, those of a conflict of git are the markers.
        """
        lines = self.lines

        def matching(marker: re.Pattern[str]) -> list[int]:
            return [number for number in markers if marker.match(lines[number])]

        self.openings = matching(OPEN)
        self.closings = matching(CLOSE)
        if not self.openings:
            self.openings = matching(OTHER_OPEN)
            self.closings = matching(OTHER_CLOSE)
        self.opening_of = _by_size(self.openings, lines)
        self.closing_of = _by_size(self.closings, lines)
        loose = {*matching(OTHER_CLOSE), *matching(GLUED_CLOSE)}
        self.loose_closings = sorted(loose)
        self.dividers = matching(DIVIDER)
        self.bare_fences: list[int] = []
        for number, line in enumerate(lines):
            fence = fence_of(line)
            if fence and not fence[1]:
                self.bare_fences.append(number)

    def read(self) -> Iterator[Part]:
        unread = 0
        count = len(self.lines)
        opening = _first_from(self.openings, 0, count)
        while opening < count:
            before = self.lines[unread:opening]
            yield before
            below = self.lines[opening + 1 : opening + 2]
            creates = any(map(DIVIDER.match, below))
            self.path = file_for(
                before, self.scope.files, previous=self.path, new=creates
            )
            for line in before:
                mark = fence_of(line)
                if mark:
                    self.fence = mark[0]
            end, closed = self._find_end(opening)
            yield self._make_edit(before, opening, end, closed=closed)
            # A fence that closes a block belongs to the lines behind it, as for any edit.
            is_marker = closed and not fence_of(self.lines[end])
            unread = min(end + is_marker, count)
            next_line = max(unread, opening + 1)
            opening = _first_from(self.openings, next_line, count)
        yield self.lines[unread:]

    def _find_end(self, opening: int) -> tuple[int, bool]:
        """Return the last line of the block, and whether a marker or fence closes it there.

        A marker of the same length as the opening one takes precedence: blocks about blocks use
        longer markers. Where another block begins first, or the reply ends, a marker behind code
        or with another word closes the block as well, or a fence after the divider.
        """
        size = marker_size(self.lines[opening])
        start = opening + 1
        openings = self.opening_of.get(size, ())
        same_closings = self.closing_of.get(size, ())
        end = _first_from(openings, start, len(self.lines))
        for closings in (same_closings, self.closings):
            closing = _first_from(closings, start, end)
            if closing < end:
                return closing, True
        last = bisect_left(self.loose_closings, end) - 1
        if last >= 0 and self.loose_closings[last] > opening:
            return self.loose_closings[last], True
        fence = self._closing_fence(opening, end)
        if fence is None:
            return end, False
        return fence, True

    def _closing_fence(self, opening: int, end: int) -> int | None:
        """Return the fence that closes a block without a marker; the last one ends a reply."""
        fences = self.bare_fences
        divider = _first_from(self.dividers, opening + 1, end)
        first = _first_from(fences, divider, end)
        if first == end:
            return None
        last = fences[-1]
        if end < len(self.lines) or first == last:
            return first
        below = self.lines[last + 1 :]
        if has_text(below):
            return None
        return last

    def _make_edit(
        self, before: Lines, opening: int, end: int, *, closed: bool
    ) -> Edit:
        if self.path is None:
            quotation = _quotation(self.lines[opening : opening + 3])
            return Unreadable("", _NO_NAME + quotation)
        inside = self.lines[opening + 1 : end]
        if closed:
            glued = GLUED_CLOSE.match(self.lines[end])
            if glued:
                inside.append(glued[1])
        size = marker_size(self.lines[opening])
        is_markup = self.path.endswith(MARKUP_SUFFIXES)
        dividers = _dividers(inside, size, markup=is_markup)
        if not dividers:
            inside = _split_divider(inside)
            dividers = _dividers(inside, USUAL_SIZE, markup=is_markup)
        if not dividers:
            problem = f"the block for {self.path} has no line `=======` between its two parts."
            return Unreadable(self.path, problem + _quotation(inside))
        if not closed:
            marker = f">>>>>>> {self.closing}"
            problem = f"the block for {self.path} has no `{marker}` at its end."
            return Unreadable(self.path, problem)
        sections: dict[Replacement, None] = {}
        for divider in dividers:
            for section in self._sections(inside, divider, size):
                sections[section] = None
        if not sections:
            return Unreadable(self.path, STRAY_MARKER.format(self.path))
        (search, replace), *others = sections
        prose = [line for line in before if " " in line.strip() and not fence_of(line)]
        appends = bool(_APPENDS.search("\n".join(prose)))
        path = self.path
        old_parts = [old for old, _ in sections]
        if appends or has_text(old_parts):
            path = resolve_existing(path, self.scope)
        return SearchReplace(
            path=path,
            search=search,
            replace=replace,
            readings=tuple(others),
            appends=appends,
            blank_end=True,
        )

    def _sections(self, inside: Lines, divider: int, size: int) -> list[Replacement]:
        """Return the ways to read the two parts: whole, without a wrapping, without marks.

        None of them writes a marker into the file.
        """
        search = inside[:divider]
        new = inside[divider + 1 :]
        replace = self._trim(search, new, size)
        names_file = bool(replace) and replace[0].strip() == self.path
        if names_file and any(search) and replace[1:] != search:
            replace = replace[1:]
        if stray_markers(replace, search, size):
            return []
        bare_search = self._unwrap(search)
        bare_replace = self._unwrap(replace)
        bare = (with_ends(bare_search), with_ends(bare_replace))
        as_it_stands = (with_ends(search), with_ends(replace))
        is_search_wrapped = bare_search != search
        if not is_search_wrapped and not any(search) and bare_replace != replace:
            # A new file whose content is wrapped: no file of that kind begins and ends so.
            is_markup = str(self.path).endswith(MARKUP_SUFFIXES)
            return [as_it_stands if is_markup else ("", bare[1])]
        sections = [as_it_stands]
        if is_search_wrapped:
            sections.append(bare)
        if _are_marked(search, "-") and _are_marked(replace, "+"):
            old = _without_marks(search)
            new = _without_marks(replace)
            sections.append((old, new))
        return sections

    def _trim(self, search: Lines, replace: Lines, size: int) -> Lines:
        """Remove stray markers around the new lines, and the block's own fence at their end."""
        strays = stray_markers(replace, search, size)
        first = 0
        end = len(replace)
        while first < end and first in strays:
            first += 1
        while end > first and end - 1 in strays:
            end -= 1
        replace = replace[first:end]
        if not replace or not self.fence:
            return replace
        if fence_of(replace[-1]) != (self.fence, ""):
            return replace
        if has_open_fence(replace) and not has_open_fence(search):
            return replace[:-1]
        return replace

    def _unwrap(self, lines: Lines) -> Lines:
        """Remove a wrapping of a part: the file's name as the first line, a fence.

        A fence shorter than the one around the block is content.
        """
        if lines:
            first = lines[0].strip().strip("`*")
            if first == self.path:
                lines = lines[1:]
        if len(lines) < 2:
            return lines
        for line in (lines[0], lines[-1]):
            mark = fence_of(line)
            if not mark or not mark[0].startswith(self.fence):
                return lines
        return lines[1:-1]


def _are_marked(lines: Lines, mark: str) -> bool:
    """Return whether each line begins with ``mark`` or is a kept one of a diff."""
    marks = {line[:1] for line in lines if line}
    return mark in marks and marks <= {mark, " "}


def _without_marks(lines: Lines) -> str:
    return with_ends([line[1:] for line in lines])


def _split_divider(inside: Lines) -> list[str]:
    """Give the first divider that stands at code its own line."""
    lines = list(inside)
    for number, line in enumerate(inside):
        glued = GLUED_DIVIDER.match(line)
        if glued:
            parts = [glued[1], "=" * USUAL_SIZE, glued[2]]
            between = [part for part in parts if part is not None]
            lines[number : number + 1] = between
            break
    return lines


def _quotation(lines: Lines) -> str:
    return "".join(f"\n    | {line}" for line in lines[:10])


def _dividers(inside: Lines, size: int, *, markup: bool) -> list[int]:
    """Return the lines that may divide the block, the likeliest first.

    A line as long as the opening marker comes first, then lines that do not underline the line
    above them, as in headings; in ``markup`` an underline may be longer than its heading.
    """
    lengths = {}
    for number, line in enumerate(inside):
        match = DIVIDER.match(line)
        if match:
            lengths[number] = len(match[1])
    same = []
    usual = []
    for number, length in lengths.items():
        if length == size:
            same.append(number)
        if 5 <= length <= 9:
            usual.append(number)

    def underlines(number: int) -> bool:
        title = inside[number - 1].rstrip() if number else ""
        if not title or len(title) == lengths[number]:
            return bool(title)
        if not markup or number - 1 in lengths:
            return False
        return len(title) < lengths[number]

    # Sorting is stable: otherwise the order of the lines decides.
    candidates = sorted(same or usual, key=underlines)
    return candidates[:_MAX_DIVIDERS]


def _by_size(numbers: Numbers, lines: Lines) -> Mapping[int, Numbers]:
    groups = defaultdict(list)
    for number in numbers:
        groups[marker_size(lines[number])].append(number)
    return groups


def _first_from(numbers: Numbers, start: int, end: int) -> int:
    """Return the first of the sorted ``numbers`` from ``start`` on, at most ``end``."""
    index = bisect_left(numbers, start)
    if index == len(numbers):
        return end
    return min(numbers[index], end)
