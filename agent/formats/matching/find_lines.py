"""Find the lines of an edit in a file, from exact to similar lines.

The first step that finds any match decides and returns all its matches; the caller decides whether
several matches are ambiguous. The order, documented in docs/edit-formats.md: exact lines; trailing
white space; a uniform difference in indentation; blank lines; ``...`` elisions; likeness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from itertools import pairwise

from swe_retry.agent.formats.matching.likeness import likest_lines
from swe_retry.agent.formats.matching.lines import (
    FixedLines,
    Lines,
    Numbers,
    PlacingWork,
    has_text,
    lines_at,
    numbers_where,
    starts_of,
)
from swe_retry.agent.formats.matching.reindent import (
    IndentShift,
    counterparts,
    reindent,
    uniform_shift,
)

_DOTS = frozenset({"...", "…", "# ...", "// ...", "/* ... */", "# …", "// …"})
# The search for each piece reads the whole file.
_MAX_PIECES = 50


class MatchStep(StrEnum):
    """The steps of the search, in their order."""

    EXACT = "exact"
    TRAILING_SPACE = "trailing white space"
    INDENTATION = "indentation"
    BLANK_LINES = "blank lines"
    ELISION = "elision"
    LIKENESS = "likeness"


@dataclass
class Match:
    """Lines ``start`` to ``end`` (from 0, end not included); ``make`` returns the new lines.

    It is not frozen because there may be many thousands: a frozen one takes twice the time.
    """

    start: int
    end: int
    make: Callable[[], FixedLines]

    @cached_property
    def lines(self) -> FixedLines:
        """The new lines, made when the match is chosen, as there may be thousands of matches."""
        return self.make()


_LOOKS_PER_MATCH = 4
# For each line, to compare the indentation.
_LOOKS_PER_SHIFT = 3
_Search = Callable[[FixedLines, Lines, Lines, PlacingWork], list[Match]]


def find_matches(
    lines: Lines,
    search: Lines,
    replace: Lines,
    work: PlacingWork,
    path: str,
    *,
    likeness: bool,
) -> tuple[MatchStep | None, list[Match]]:
    """Return the first step that finds matches of ``search`` in ``lines``, and these matches.

    ``path`` gives the language for the last step; without ``likeness`` that step is left out.

    Raises:
        TooMuchWorkError: ``work`` is used up.
    """
    # New lines are made when a match is chosen: they need the lines of now.
    lines = tuple(lines)
    if not has_text(search):
        # Blank lines alone have no match, unless the file has no other lines.
        if lines and tuple(search) == lines:
            match = _fixed_match(0, len(lines), tuple(replace))
            return MatchStep.EXACT, [match]
        return None, []
    for step, find in _SEARCHES.items():
        work.spend_pass(lines)
        matches = find(lines, search, replace, work)
        if matches:
            return step, matches
    if likeness:
        work.spend_pass(lines)
        likest = likest_lines(lines, search, replace, work, path)
        if likest:
            return MatchStep.LIKENESS, [_fixed_match(*likest)]
    return None, []


def _fixed_match(start: int, end: int, lines: FixedLines) -> Match:
    return Match(start, end, lambda: lines)


def _exact_matches(
    lines: FixedLines, search: Lines, replace: Lines, work: PlacingWork
) -> list[Match]:
    size = len(search)
    new_lines = tuple(replace)
    matches = []
    for start in starts_of(lines, search):
        work.spend(_LOOKS_PER_MATCH)
        matches.append(_fixed_match(start, start + size, new_lines))
    return matches


@lru_cache(maxsize=16)
def _bare_lines(
    lines: FixedLines, strip: Callable[[str], str], blanks: bool
) -> tuple[Numbers, FixedLines]:
    """Return the lines stripped, with or without blank ones, after their numbers."""
    # Cached for hundreds of edits of one file.
    numbers: Numbers = range(len(lines))
    if not blanks:
        numbers = numbers_where(lines, str.strip)
    return numbers, tuple(map(strip, lines_at(lines, numbers)))


def _bare_matches(
    lines: FixedLines,
    search: Lines,
    replace: Lines,
    work: PlacingWork,
    strip: Callable[[str], str] = str.strip,
    blanks: bool = True,
) -> list[Match]:
    """Match lines as ``strip`` leaves them, with or without ``blanks``."""
    numbers, bare_lines = _bare_lines(lines, strip, blanks)
    search_numbers, bare_search = _bare_lines(tuple(search), strip, blanks)
    size = len(bare_search)

    def shifted_lines(file_numbers: Numbers, shift: IndentShift) -> FixedLines:
        parts = counterparts(lines, search, file_numbers, search_numbers)
        return reindent(parts, search, replace, [shift] * len(search))

    matches = []
    for start in starts_of(bare_lines, bare_search):
        work.spend(_LOOKS_PER_MATCH)
        file_numbers = numbers[start : start + size]
        shift: IndentShift | None = IndentShift()
        if strip is str.strip:
            work.spend(_LOOKS_PER_SHIFT * size)
            window = lines_at(lines, file_numbers)
            shift = uniform_shift(window, lines_at(search, search_numbers))
        if shift:
            make = partial(shifted_lines, file_numbers, shift)
            matches.append(Match(file_numbers[0], file_numbers[-1] + 1, make))
    return matches


def _elision_matches(
    lines: FixedLines, search: Lines, replace: Lines, work: PlacingWork
) -> list[Match]:
    """Match the pieces between lines of dots in order; the lines in between are kept."""
    old_pieces = _pieces(search)
    new_pieces = _pieces(replace)
    if len(old_pieces) != len(new_pieces):
        return []
    if not 1 < len(old_pieces) <= _MAX_PIECES:
        return []
    matches = []
    end = 0
    for old, new in zip(old_pieces, new_pieces, strict=True):
        if not old and not new:
            continue
        if not old:
            return []
        match = _only_match_from(end, lines, old, new, work)
        if not match:
            return []
        matches.append(match)
        end = match.end
    if not matches:
        return []
    new_lines = list(matches[0].lines)
    for before, after in pairwise(matches):
        new_lines += lines[before.end : after.start]
        new_lines += after.lines
    return [_fixed_match(matches[0].start, end, tuple(new_lines))]


def _only_match_from(
    first: int, lines: FixedLines, search: Lines, replace: Lines, work: PlacingWork
) -> Match | None:
    """Return the only match of a piece from ``first`` on, by the first step that has any."""
    for step in SURE_STEPS:
        work.spend_pass(lines)
        matches = _SEARCHES[step](lines, search, replace, work)
        if matches:
            later = [match for match in matches if match.start >= first]
            return later[0] if len(later) == 1 else None
    return None


_SEARCHES: dict[MatchStep, _Search] = {
    MatchStep.EXACT: _exact_matches,
    MatchStep.TRAILING_SPACE: partial(_bare_matches, strip=str.rstrip),
    MatchStep.INDENTATION: _bare_matches,
    MatchStep.BLANK_LINES: partial(_bare_matches, blanks=False),
    MatchStep.ELISION: _elision_matches,
}
SURE_STEPS = (MatchStep.EXACT, MatchStep.TRAILING_SPACE, MatchStep.INDENTATION)
"""Those that find equal lines, apart from the white space around them."""


def _pieces(lines: Lines) -> list[list[str]]:
    pieces: list[list[str]] = [[]]
    for line in lines:
        if line.strip() in _DOTS:
            pieces.append([])
        else:
            pieces[-1].append(line)
    return pieces
