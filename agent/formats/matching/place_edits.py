"""Place the edits that one reply has for one file, and apply them.

Edits are applied in the order of the reply, each to the text after those before it. An edit that
fits several places waits: the places of its neighbours may decide between them.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from agent.formats.base import SearchReplace
from agent.formats.matching.find_lines import MatchStep, Place, find_places
from agent.formats.matching.lines import (
    end_of_block,
    indent_of,
    scope_of,
    starts_of,
    to_lines,
    width_at,
    with_ends,
)

# The search for likeness takes time, and a model that errs this often does not copy at all.
_MOST_LIKENED = 20
# Lines to compare for the edits of one reply to one file; a place counts as several lines.
_MOST_COMPARED = 5_000_000
_PLACE = 40
# The search for each reads the whole file; definitions do not nest deeper.
_MOST_HEADERS = 20
# No recorded reply has so many equal edits.
_MOST_EQUAL = 2_000
# Steps that find equal lines, apart from the white space around them.
_SURE = (MatchStep.EXACT, MatchStep.TRAILING_SPACE, MatchStep.INDENTATION)


@dataclass
class Placement:
    """One edit and its place.

    Attributes:
        found: the places of the last search, in the text at that time, which ``step`` found.
        span: the new lines as (first, end), once the edit is applied.
        looked: a search was made; False when the edits before it took too much time.
    """

    edit: SearchReplace
    found: list[Place]
    step: MatchStep | None = None
    span: tuple[int, int] | None = None
    looked: bool = False


def place_edits(lines: list[str], edits: Sequence[SearchReplace]) -> list[Placement]:
    """Apply ``edits`` to ``lines``, in place, and return the placement of each."""
    blocks = [Placement(edit, []) for edit in edits]
    effort = _Effort()
    _round(lines, blocks, effort, deciding=False)
    while any(block.span is None for block in blocks):
        if not _round(lines, blocks, effort, deciding=True):
            break
    return blocks


@dataclass
class _Effort:
    compared: int = 0
    missed: int = 0

    def look(
        self, lines: Sequence[str], edit: SearchReplace
    ) -> tuple[MatchStep | None, list[Place]] | None:
        if self.compared > _MOST_COMPARED:
            return None
        readings = 1 + len(edit.readings)
        self.compared += (len(lines) + edit.search.count("\n")) * readings
        step, found = look(lines, edit, likeness=self.missed < _MOST_LIKENED)
        self.missed += not found
        self.compared += _PLACE * len(found)
        return step, found


def _round(
    lines: list[str], blocks: Sequence[Placement], effort: _Effort, *, deciding: bool
) -> bool:
    """Try each edit without a place; return whether one of them was placed.

    An edit that matched nothing is tried again only after an edit that waited, as its lines may be
    those of that edit.
    """
    waited = False
    for block in blocks:
        if block.span is not None:
            continue
        if deciding and not block.found and not waited:
            continue
        looked = effort.look(lines, block.edit)
        if looked is None:
            return False
        block.looked = True
        block.step, block.found = looked
        if _is_repeated(block, blocks):
            continue
        if deciding and (pairs := _among_equals(lines, block, blocks)):
            for equal, own in reversed(pairs):
                _apply(lines, equal, own, blocks)
            return True
        place = _choose(lines, block, blocks, deciding=deciding)
        if place is not None:
            _apply(lines, block, place, blocks)
            if deciding:
                return True
        waited = waited or bool(block.found)
    return False


def look(
    lines: Sequence[str], edit: SearchReplace, *, likeness: bool = True
) -> tuple[MatchStep | None, list[Place]]:
    """Return the places of ``edit`` by the first of its readings that has any."""
    if not edit.search and (edit.headers or edit.line is not None):
        return MatchStep.EXACT, _insertions(lines, edit)
    for search, replace in _readings(lines, edit):
        step, found = find_places(lines, search, replace, edit.path, likeness=likeness)
        found = _after_headers(lines, edit, found)
        if edit.at_end:
            found = [place for place in found if place.end == len(lines)] or found
        if found:
            return step, found
    return None, []


def _readings(
    lines: Sequence[str], edit: SearchReplace
) -> list[tuple[list[str], list[str]]]:
    readings = []
    for search, replace in ((edit.search, edit.replace), *edit.readings):
        wanted, new = to_lines(search), to_lines(replace)
        if edit.blank_end and wanted != list(lines):
            bare = _without_blank_end(wanted), _without_blank_end(new)
            # Where only blank lines differ, the edit is about them.
            wanted, new = bare if bare[0] != bare[1] else (wanted, new)
        readings.append((wanted, new))
    # The longest exact one takes precedence: what divides a shorter one may be its heading's rule.
    if len(readings) > 1:
        readings.sort(key=lambda r: -len(r[0]) if _stands_exactly(lines, r[0]) else 0)
    return readings


def _stands_exactly(lines: Sequence[str], search: Sequence[str]) -> bool:
    if list(search) == list(lines):
        return True
    return (
        any(map(str.strip, search)) and next(starts_of(lines, search), None) is not None
    )


def _without_blank_end(lines: list[str]) -> list[str]:
    return lines[:-1] if len(lines) > 1 and not lines[-1].strip() else lines


def _after_headers(
    lines: Sequence[str], edit: SearchReplace, found: list[Place]
) -> list[Place]:
    starts = [place.start for place in found]
    if edit.line is not None and edit.line - 1 in starts:
        return found
    heads = _last_headers(lines, edit.headers)
    first = (bisect_left(starts, head) for head in heads)
    behind = {starts[n]: found[n] for n in first if n < len(found)}
    return list(behind.values()) or found


def _insertions(lines: Sequence[str], edit: SearchReplace) -> list[Place]:
    """Return the places of new lines: at their line, or right behind their header.

    Lines that are not indented more than the header stand behind the block that it opens.
    """
    new = tuple(to_lines(edit.replace))
    if edit.line is not None:
        places = [max(0, edit.line - 1)]
    else:
        depth = width_at(new, 0)
        heads = _last_headers(lines, edit.headers)
        places = [
            at + 1 if depth > len(indent_of(lines[at])) else end_of_block(lines, at)
            for at in heads
        ]
    return [Place(at, at, lambda: new) for at in places if at <= len(lines)]


def _last_headers(lines: Sequence[str], headers: Sequence[str]) -> list[int]:
    heads: list[int] | None = None
    bare = [line.strip() for line in lines] if headers else []
    for header in map(str.strip, headers[-_MOST_HEADERS:]):
        hits = [n for n, line in enumerate(bare) if line == header]
        if not hits:
            begins = re.compile(rf"{re.escape(header)}(?!\w)")
            hits = [n for n, line in enumerate(bare) if begins.match(line)]
        if heads is not None:
            behind = (bisect_right(hits, head) for head in heads)
            hits = [hits[n] for n in behind if n < len(hits)]
        heads = hits
    return heads or []


def _choose(
    lines: Sequence[str],
    block: Placement,
    blocks: Sequence[Placement],
    *,
    deciding: bool,
) -> Place | None:
    found = block.found
    if len(found) == 1:
        return found[0]
    if not found:
        return None
    if block.edit.line is not None:
        named = [place for place in found if place.start == block.edit.line - 1]
        if named:
            return named[0]
    if not deciding:
        return None
    return _among_neighbours(lines, block, blocks)


def _is_repeated(block: Placement, blocks: Sequence[Placement]) -> bool:
    twins = [b for b in blocks if b.span and b.edit == block.edit]
    places = block.found
    for twin in twins:
        first, end = twin.span or (0, 0)
        if places and first <= places[0].start and places[-1].start < end:
            block.span, block.step = twin.span, twin.step
            return True
    return False


def _among_equals(
    lines: Sequence[str], block: Placement, blocks: Sequence[Placement]
) -> list[tuple[Placement, Place]]:
    if len(block.found) > _MOST_EQUAL:
        return []
    equal = [b for b in blocks if b.edit.search == block.edit.search]
    taken = [b.span for b in equal if b.span]
    waiting = [b for b in equal if b.span is None]
    free = [
        n
        for n, place in enumerate(block.found)
        if not any(first <= place.start < end for first, end in taken)
    ]
    if len(free) < 2 or len(waiting) != len(free) or block.step not in _SURE:
        return []
    # Their new lines may differ, so each has its own search; the places are the same.
    found = [
        block.found if b.edit == block.edit else look(lines, b.edit)[1] for b in waiting
    ]
    return [(b, f[n]) for b, f, n in zip(waiting, found, free, strict=True)]


def _among_neighbours(
    lines: Sequence[str], block: Placement, blocks: Sequence[Placement]
) -> Place | None:
    index = next(n for n, other in enumerate(blocks) if other is block)
    before = next((b.span for b in reversed(blocks[:index]) if b.span), None)
    after = next((b.span for b in blocks[index + 1 :] if b.span), None)
    if before and after and before[1] <= after[0]:
        inside = [p for p in block.found if before[1] <= p.start and p.end <= after[0]]
        if len(inside) == 1:
            return inside[0]
    for span in (before, after):
        if span:
            first, end = scope_of(lines, span[0])
            inside = [p for p in block.found if first <= p.start and p.end <= end]
            if len(inside) == 1:
                return inside[0]
    return None


def _apply(
    lines: list[str], block: Placement, place: Place, blocks: Sequence[Placement]
) -> None:
    lines[place.start : place.end] = place.lines
    grown = len(place.lines) - (place.end - place.start)
    for other in blocks:
        if other.span and other.span[0] >= place.end:
            other.span = (other.span[0] + grown, other.span[1] + grown)
    block.span = (place.start, place.start + len(place.lines))


_CONTEXT = 3


def hunks(before: str, after: str) -> list[tuple[str, str]]:
    """Return (search, replace) for each change, with enough lines around to be unique.

    Applied in order they turn ``before`` into ``after``; where no lines around make a change
    unique, one hunk holds the whole text.
    """
    old, new = to_lines(before), to_lines(after)
    if old == new:
        return []
    if old:
        for context in (_CONTEXT, 4 * _CONTEXT):
            matcher = SequenceMatcher(None, old, new, autojunk=False)
            found = []
            for group in matcher.get_grouped_opcodes(context):
                (_, first, _, start, _), (_, _, last, _, end) = group[0], group[-1]
                found.append((with_ends(old[first:last]), with_ends(new[start:end])))
            lines = list(old)
            edits = [
                SearchReplace("", search, replace, blank_end=True)
                for search, replace in found
            ]
            blocks = place_edits(lines, edits)
            if lines == list(new) and all(block.span is not None for block in blocks):
                return found
    return [(with_ends(old), with_ends(new))]


def marked(search: str, replace: str) -> list[str]:
    """Return the lines of a hunk as a diff has them: `` `` kept, ``-`` old, ``+`` new."""
    old, new = to_lines(search), to_lines(replace)
    out: list[str] = []
    for kind, i1, i2, j1, j2 in SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        if kind == "equal":
            out += [f" {line}" for line in old[i1:i2]]
        else:
            out += [f"-{line}" for line in old[i1:i2]] + [
                f"+{line}" for line in new[j1:j2]
            ]
    return out
