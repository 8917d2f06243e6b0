"""Place the edits that one reply has for one file, and apply them.

Edits are applied in the order of the reply, each to the text after those before it. An edit that
fits several places waits: the places of its neighbours may decide between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swe_retry.agent.formats.edits import SearchReplace
from swe_retry.agent.formats.matching.find_edit import edit_matches
from swe_retry.agent.formats.matching.find_lines import (
    SURE_STEPS,
    Match,
    MatchStep,
    find_matches,
)
from swe_retry.agent.formats.matching.lines import (
    PlacingWork,
    TooMuchWorkError,
    full_lines,
    scope_of,
    to_lines,
)

# The search for likeness takes time, and a model that errs this often does not copy at all.
_MAX_LIKENED = 20
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
    lines: list[str], edits: Sequence[SearchReplace], work: PlacingWork
) -> list[Placement]:
    """Apply ``edits`` to ``lines``, in place, and return the placement of each.

    Those that are left when ``work`` is used up have no place.
    """
    blocks = [Placement(edit, []) for edit in edits]
    try:
        _Placer(lines, blocks, work).place_all()
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
                self.work.spend(len(self.blocks) // 4)
                likeness = self.missed < _MAX_LIKENED
                block.step, block.matches = edit_matches(
                    self.lines, block.edit, self.work, likeness=likeness
                )
                self.missed += not block.matches
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
