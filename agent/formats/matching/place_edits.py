"""Place the edits that one reply has for one file, and apply them.

Edits are applied in the order of the reply, each to the text after those before it. An edit that
fits several places waits: the places of its neighbours may decide between them.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from swe_retry.agent.formats.edits import SearchReplace
from swe_retry.agent.formats.matching.find_lines import (
    SURE_STEPS,
    Match,
    MatchStep,
    find_matches,
)
from swe_retry.agent.formats.matching.lines import (
    Lines,
    PlacingWork,
    TooMuchWorkError,
    end_of_block,
    full_lines,
    has_text,
    indent_of,
    numbers_where,
    scope_of,
    starts_of,
    strip_lines,
    to_lines,
    width_at,
)

# The search for likeness takes time, and a model that errs this often does not copy at all.
_MAX_LIKENED = 20
# Of a place that a header names, besides its block.
_LOOKS_PER_MATCH = 4
# The search for each reads the whole file; definitions do not nest deeper.
_MAX_HEADERS = 20
# No recorded reply has so many equal edits.
_MAX_EQUAL = 2_000


_Span = tuple[int, int]
"""The first line, and the line behind the last one."""


@dataclass
class Placement:
    """One edit and its place.

    Attributes:
        matches: the places of the last search, in the text at that time, which ``step`` found.
        span: the new lines as (first, end), once the edit is applied.
        given_up: the work was used up before the edit had a place.
    """

    edit: SearchReplace
    matches: list[Match]
    step: MatchStep | None = None
    span: _Span | None = None
    given_up: bool = False


def place_edits(
    lines: list[str],
    edits: Sequence[SearchReplace],
    work: PlacingWork,
) -> list[Placement]:
    """Apply ``edits`` to ``lines``, in place, and return the placement of each.

    Those that are left when ``work`` is used up have no place.
    """
    blocks = [Placement(edit, []) for edit in edits]
    placer = _Placer(lines, blocks, work)
    try:
        placer.place_all()
    except TooMuchWorkError:
        for block in blocks:
            block.given_up = not block.span
    return blocks


@dataclass
class _Placer:
    """Places the edits of one reply in the lines of one file.

    Attributes:
        missed: how many searches had no match.
    """

    lines: list[str]
    blocks: list[Placement]
    work: PlacingWork
    missed: int = 0

    def place_all(self) -> None:
        """Place the edits, in their order, and again while that places one that waited."""
        self.try_edits(deciding=False)
        while any(not block.span for block in self.blocks):
            if not self.try_edits(deciding=True):
                break
        for block in self.blocks:
            if not block.span and not block.matches:
                block.span = self._repeated_span(block) or self._standing_span(block)

    def try_edits(self, *, deciding: bool) -> bool:
        """Try each edit without a place; return whether one of them was placed.

        An edit that matched nothing is tried again only after an edit that waited, as its lines may
        be those of that edit.
        """
        waited = False
        for block in self.blocks:
            if block.span:
                continue
            if deciding and not block.matches and not waited:
                continue
            if block.edit.again:
                block.span = self._standing_span(block)
            if not block.span:
                self._search(block)
            if block.span or self._share_span(block):
                continue
            if deciding:
                pairs = self._among_equals(block)
                for equal, own_match in reversed(pairs):
                    self._apply(equal, own_match)
                if pairs:
                    return True
            match = self._choose(block, deciding=deciding)
            if match:
                self._apply(block, match)
                if deciding:
                    return True
            waited = waited or bool(block.matches)
        return False

    def _search(self, block: Placement) -> None:
        self.work.spend(len(self.blocks) // 4)
        likeness = self.missed < _MAX_LIKENED
        block.step, block.matches = edit_matches(
            self.lines, block.edit, self.work, likeness=likeness
        )
        if not block.matches:
            self.missed += 1

    def _repeated_span(self, block: Placement) -> _Span | None:
        """Return the place of an applied edit that ``block`` repeats word for word."""
        for twin in self.blocks:
            if twin.span and twin.edit == block.edit:
                return twin.span
        return None

    def _standing_span(self, block: Placement) -> _Span | None:
        """Return where the new lines of ``block`` stand already, if they show that it was made.

        A line alone may stand there by chance, and lines that were there before show nothing.
        """
        edit = block.edit
        new = to_lines(edit.replace)
        full = set(full_lines(new))
        old = set(to_lines(edit.search))
        if len(full) < 2 or full <= old:
            return None
        step, matches = find_matches(
            self.lines, new, new, self.work, edit.path, likeness=False
        )
        if step not in SURE_STEPS:
            return None
        if not matches or (len(matches) > 1 and not edit.again):
            return None
        block.step = step
        match = matches[0]
        return match.start, match.end

    def _share_span(self, block: Placement) -> bool:
        """Give a block that repeats another in its new lines the place of that."""
        if not block.matches:
            return False
        first_start = block.matches[0].start
        last_start = block.matches[-1].start
        for twin in self.blocks:
            if not twin.span or twin.edit != block.edit:
                continue
            first, end = twin.span
            if first <= first_start and last_start < end:
                block.span = twin.span
                block.step = twin.step
                return True
        return False

    def _among_equals(self, block: Placement) -> list[tuple[Placement, Match]]:
        """Return all blocks with these old lines and a match each, if there are as many matches."""
        if block.step not in SURE_STEPS:
            return []
        if len(block.matches) > _MAX_EQUAL:
            return []
        self.work.spend(len(self.blocks) // 4)
        spans = []
        waiting = []
        for other in self.blocks:
            if other.edit.search != block.edit.search:
                continue
            if other.span:
                spans.append(other.span)
            else:
                waiting.append(other)
        free = []
        for index, match in enumerate(block.matches):
            self.work.spend(1 + len(spans))
            inside = [first <= match.start < end for first, end in spans]
            if not any(inside):
                free.append(index)
        if len(free) < 2 or len(waiting) != len(free):
            return []
        pairs = []
        for other, index in zip(waiting, free, strict=True):
            matches = block.matches
            if other.edit != block.edit:
                # Their new lines may differ, so each has its own search; the places are the same.
                matches = edit_matches(self.lines, other.edit, self.work)[1]
            pairs.append((other, matches[index]))
        return pairs

    def _choose(self, block: Placement, *, deciding: bool) -> Match | None:
        if len(block.matches) == 1:
            return block.matches[0]
        if block.edit.line is not None:
            for match in block.matches:
                if match.start == block.edit.line - 1:
                    return match
        if not block.matches or not deciding:
            return None
        return self._among_neighbours(block)

    def _among_neighbours(self, block: Placement) -> Match | None:
        """Return the only match between the placed blocks around it, or in the scope of one."""
        before: _Span | None = None
        after: _Span | None = None
        is_behind = False
        for other in self.blocks:
            if other is block:
                is_behind = True
            elif other.span and not is_behind:
                before = other.span
            elif other.span:
                after = other.span
                break
        if before and after and before[1] <= after[0]:
            match = _only_match_inside(block.matches, before[1], after[0])
            if match:
                return match
        for span in (before, after):
            if span:
                self.work.spend(len(self.lines))
                first, end = scope_of(self.lines, span[0])
                match = _only_match_inside(block.matches, first, end)
                if match:
                    return match
        return None

    def _apply(self, block: Placement, match: Match) -> None:
        self.work.spend_pass(self.lines)
        self.work.spend(len(self.blocks) // 4)
        self.lines[match.start : match.end] = match.lines
        size = len(match.lines)
        growth = size - (match.end - match.start)
        for other in self.blocks:
            if other.span and other.span[0] >= match.end:
                first, end = other.span
                other.span = (first + growth, end + growth)
        block.span = (match.start, match.start + size)


def _only_match_inside(matches: Sequence[Match], first: int, end: int) -> Match | None:
    inside = []
    for match in matches:
        if first <= match.start and match.end <= end:
            inside.append(match)
    if len(inside) == 1:
        return inside[0]
    return None


def edit_matches(
    lines: Lines,
    edit: SearchReplace,
    work: PlacingWork,
    *,
    likeness: bool = True,
) -> tuple[MatchStep | None, list[Match]]:
    """Return the matches of ``edit`` by the first of its readings that has any."""
    has_place = edit.headers or edit.line is not None
    if has_place and not edit.search:
        return MatchStep.EXACT, _insertions(lines, edit, work)
    for search, replace in _readings(lines, edit, work):
        step, matches = find_matches(
            lines, search, replace, work, edit.path, likeness=likeness
        )
        matches = _after_headers(lines, edit, matches, work)
        if edit.at_end:
            last = [match for match in matches if match.end == len(lines)]
            matches = last or matches
        if matches:
            return step, matches
    return None, []


def _readings(
    lines: Lines,
    edit: SearchReplace,
    work: PlacingWork,
) -> list[tuple[Lines, Lines]]:
    readings = []
    first = (edit.search, edit.replace)
    for search, replace in (first, *edit.readings):
        old: Lines = to_lines(search)
        new: Lines = to_lines(replace)
        if edit.blank_end and old != list(lines):
            bare_old = _without_blank_end(old)
            bare_new = _without_blank_end(new)
            # Where only blank lines differ, the edit is about them.
            if bare_old != bare_new:
                old = bare_old
                new = bare_new
        readings.append((old, new))
    # The longest exact one takes precedence: what divides a shorter one may be its heading's rule.
    if len(readings) == 1:
        return readings

    def exact_size(reading: tuple[Lines, Lines]) -> int:
        work.spend_pass(lines)
        search = reading[0]
        return len(search) if _is_exact(lines, search) else 0

    return sorted(readings, key=exact_size, reverse=True)


def _is_exact(lines: Lines, search: Lines) -> bool:
    if list(search) == list(lines):
        return True
    if not has_text(search):
        return False
    return next(starts_of(lines, search), None) is not None


def _without_blank_end(lines: Lines) -> Lines:
    if len(lines) > 1 and not lines[-1].strip():
        return lines[:-1]
    return lines


def _after_headers(
    lines: Lines,
    edit: SearchReplace,
    matches: list[Match],
    work: PlacingWork,
) -> list[Match]:
    """Return the first match behind each place of the headers; all matches without any."""
    starts = [match.start for match in matches]
    if edit.line is not None and edit.line - 1 in starts:
        return matches
    behind: dict[int, Match] = {}
    for header in _last_headers(lines, edit.headers, work):
        index = bisect_left(starts, header)
        if index < len(starts):
            behind[starts[index]] = matches[index]
    return list(behind.values()) or matches


def _insertions(lines: Lines, edit: SearchReplace, work: PlacingWork) -> list[Match]:
    """Return the places of new lines: at their line, or right behind their header.

    Lines that are not indented more than the header stand behind the block that it opens.
    """
    new_lines = tuple(to_lines(edit.replace))
    starts = []
    if edit.line is not None:
        starts.append(max(0, edit.line - 1))
    else:
        depth = width_at(new_lines, 0)
        for header in _last_headers(lines, edit.headers, work):
            work.spend(_LOOKS_PER_MATCH)
            if depth > len(indent_of(lines[header])):
                starts.append(header + 1)
            else:
                end = end_of_block(lines, header)
                work.spend(end - header)
                starts.append(end)
    matches = []
    for start in starts:
        if start <= len(lines):
            matches.append(Match(start, start, lambda: new_lines))
    return matches


def _last_headers(lines: Lines, headers: Lines, work: PlacingWork) -> list[int]:
    """Return the lines of the last header, each behind one of those before it."""
    numbers: list[int] | None = None
    if not headers:
        return []
    work.spend(len(lines) // 4)
    bare_lines = strip_lines(lines)
    for header in map(str.strip, headers[-_MAX_HEADERS:]):
        work.spend(len(lines) // 8)
        hits = [number for number, line in enumerate(bare_lines) if line == header]
        if not hits:
            work.spend(len(lines))
            begins = re.compile(rf"{re.escape(header)}(?!\w)").match
            hits = numbers_where(bare_lines, begins)
        if numbers is None:
            numbers = hits
            continue
        behind = []
        work.spend(len(numbers))
        for number in numbers:
            index = bisect_right(hits, number)
            if index < len(hits):
                behind.append(hits[index])
        numbers = behind
    return numbers or []
