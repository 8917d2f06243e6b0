"""Find the places of one edit, by its readings, its line number and the headers above it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right

from swe_retry.agent.formats.edits import SearchReplace
from swe_retry.agent.formats.matching.find_lines import Match, MatchStep, find_matches
from swe_retry.agent.formats.matching.lines import (
    Lines,
    PlacingWork,
    end_of_block,
    has_text,
    indent_of,
    numbers_where,
    starts_of,
    strip_lines,
    to_lines,
    width_at,
)

# Of a place that a header names, besides its block.
_LOOKS_PER_MATCH = 4
# The search for each reads the whole file; definitions do not nest deeper.
_MAX_HEADERS = 20


def edit_matches(
    lines: Lines, edit: SearchReplace, work: PlacingWork, *, likeness: bool = True
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
    lines: Lines, edit: SearchReplace, work: PlacingWork
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
        is_exact = list(search) == list(lines)
        if not is_exact and has_text(search):
            is_exact = next(starts_of(lines, search), None) is not None
        return len(search) if is_exact else 0

    return sorted(readings, key=exact_size, reverse=True)


def _without_blank_end(lines: Lines) -> Lines:
    if len(lines) > 1 and not lines[-1].strip():
        return lines[:-1]
    return lines


def _after_headers(
    lines: Lines, edit: SearchReplace, matches: list[Match], work: PlacingWork
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
