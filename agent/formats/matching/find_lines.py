"""Find the lines of an edit in a file, from exact to similar lines.

The first step that finds any place decides and returns all its places; the caller decides whether
several places are ambiguous. The order, documented in docs/edit-formats.md: exact lines; trailing
white space; a uniform difference in indentation; blank lines; ``...`` elisions; likeness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial
from itertools import pairwise

from agent.formats.matching.lines import indent_of, starts_of
from agent.formats.matching.reindent import IndentShift, carry_over, counterparts
from agent.formats.matching.similar import similar_places

_DOTS = frozenset({"...", "…", "# ...", "// ...", "/* ... */", "# …", "// …"})
# The search for each piece reads the whole file.
_MOST_PIECES = 50


class MatchStep(str, Enum):
    """The steps of the search, in their order."""

    EXACT = "exact"
    TRAILING_SPACE = "trailing white space"
    INDENTATION = "indentation"
    BLANK_LINES = "blank lines"
    ELISION = "elision"
    LIKENESS = "likeness"


@dataclass(frozen=True)
class Place:
    """Lines ``start`` to ``end`` (from 0, end not included); ``make`` returns the new lines."""

    start: int
    end: int
    make: Callable[[], tuple[str, ...]]

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The new lines, made when the place is chosen, as there may be thousands of places."""
        return self.make()


Lines = Sequence[str]
_Search = Callable[[Lines, Lines, Lines], list[Place]]


def find_places(
    have: Lines, search: Lines, replace: Lines, path: str = "", *, likeness: bool = True
) -> tuple[MatchStep | None, list[Place]]:
    """Return the first step that finds places for ``search`` in ``have``, and these places.

    ``path`` gives the language for the last step; without ``likeness`` that step is left out.
    """
    if not any(line.strip() for line in search):
        # Blank lines alone have no place, unless the file has no other lines.
        whole = list(search) == list(have) and bool(have)
        return (MatchStep.EXACT, [_place(0, len(have), tuple(replace))]) if whole else (None, [])
    steps: tuple[tuple[MatchStep, _Search], ...] = (
        (MatchStep.EXACT, _exact),
        (MatchStep.TRAILING_SPACE, _trailing),
        (MatchStep.INDENTATION, _indented),
        (MatchStep.BLANK_LINES, _without_blanks),
        (MatchStep.ELISION, _elided),
        (MatchStep.LIKENESS, lambda h, s, r: _similar(h, s, r, path)),
    )
    # New lines are made when a place is chosen: they need the lines of now.
    have = tuple(have)
    for step, find in steps if likeness else steps[:-1]:
        if places := find(have, search, replace):
            return step, places
    return None, []


def _place(start: int, end: int, lines: tuple[str, ...]) -> Place:
    return Place(start, end, lambda: lines)


def _exact(have: Lines, search: Lines, replace: Lines) -> list[Place]:
    size, new = len(search), tuple(replace)
    return [_place(s, s + size, new) for s in starts_of(have, search)]


def stands_exactly(have: Lines, search: Lines) -> bool:
    """Return whether the first step finds a place."""
    return next(starts_of(have, search), None) is not None


def _trailing(have: Lines, search: Lines, replace: Lines) -> list[Place]:
    bare = [line.rstrip() for line in have]
    return [
        _one_to_one(have, start, search, replace, IndentShift())
        for start in starts_of(bare, [line.rstrip() for line in search])
    ]


def _one_to_one(
    have: Lines, start: int, search: Lines, replace: Lines, shift: IndentShift
) -> Place:
    end = start + len(search)

    def make() -> tuple[str, ...]:
        parts = [[line] for line in have[start:end]]
        return carry_over(parts, search, replace, [shift] * len(search))

    return Place(start, end, make)


def _indented(have: Lines, search: Lines, replace: Lines) -> list[Place]:
    bare = [line.strip() for line in have]
    found = []
    for start in starts_of(bare, [line.strip() for line in search]):
        shift = uniform_shift(have[start : start + len(search)], search)
        if shift is not None:
            found.append(_one_to_one(have, start, search, replace, shift))
    return found


def uniform_shift(window: Lines, search: Lines) -> IndentShift | None:
    """Return the shift from the indentation of ``search`` to that of ``window``, if it is uniform.

    Lines correspond one to one; blank ones do not count.
    """
    pairs = zip(window, search, strict=True)
    shifts = {IndentShift.between(indent_of(h), indent_of(s)) for h, s in pairs if h.strip()}
    return shifts.pop() if len(shifts) == 1 else None


def _without_blanks(have: Lines, search: Lines, replace: Lines) -> list[Place]:
    """Match lines that differ only by blank lines before, after or between them."""
    numbers = [n for n, line in enumerate(have) if line.strip()]
    wanted = [n for n, line in enumerate(search) if line.strip()]
    full = [have[n] for n in numbers]
    core = [search[n] for n in wanted]
    found = []
    for at in starts_of([line.strip() for line in full], [line.strip() for line in core]):
        shift = uniform_shift(full[at : at + len(core)], core)
        if shift is None:
            continue
        taken = numbers[at : at + len(core)]
        make = partial(_around_blanks, have, search, replace, taken, wanted, shift)
        found.append(Place(taken[0], taken[-1] + 1, make))
    return found


def _around_blanks(
    have: Lines,
    search: Lines,
    replace: Lines,
    taken: Sequence[int],
    wanted: Sequence[int],
    shift: IndentShift,
) -> tuple[str, ...]:
    parts = counterparts(have, search, taken, wanted)
    return carry_over(parts, search, replace, [shift] * len(search))


def _elided(have: Lines, search: Lines, replace: Lines) -> list[Place]:
    """Match the pieces between lines of dots in order; the lines in between are kept."""
    wanted, new = _pieces(search), _pieces(replace)
    if len(wanted) == 1 or len(wanted) != len(new) or len(wanted) > _MOST_PIECES:
        return []
    pairs = [(w, n) for w, n in zip(wanted, new, strict=True) if w or n]
    if any(not piece for piece, _ in pairs):
        return []
    places: list[Place] = []
    for piece, substitute in pairs:
        end = places[-1].end if places else 0
        later = [p for p in _near_exact(have, piece, substitute) if p.start >= end]
        if len(later) != 1:
            return []
        places += later
    lines = list(places[0].lines)
    for before, after in pairwise(places):
        lines += [*have[before.end : after.start], *after.lines]
    return [_place(places[0].start, places[-1].end, tuple(lines))]


def _near_exact(have: Lines, search: Lines, replace: Lines) -> list[Place]:
    steps: tuple[_Search, ...] = (_exact, _trailing, _indented)
    return next((found for step in steps if (found := step(have, search, replace))), [])


def _pieces(lines: Lines) -> list[list[str]]:
    pieces: list[list[str]] = [[]]
    for line in lines:
        if line.strip() in _DOTS:
            pieces.append([])
        else:
            pieces[-1].append(line)
    return pieces


def _similar(have: Lines, search: Lines, replace: Lines, path: str) -> list[Place]:
    found = similar_places(have, search, path)
    places = []
    for start, size, parts in found:
        shifts = [
            IndentShift.between(indent_of(part[0]), indent_of(line)) if part else IndentShift()
            for part, line in zip(parts, search, strict=True)
        ]
        lines = carry_over(parts, search, replace, shifts)
        places.append(_place(start, start + size, lines))
    return places
