"""The hunks of a diff or a V4A patch, and the edits that they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from swe_retry.agent.formats.edits import Replacement, SearchReplace
from swe_retry.agent.formats.matching.lines import Lines, full_lines, with_ends

# `@@ -1,2 +3,4 @@ hint`: both numbers with their counts, and the hint; also without numbers.
HUNK_HEAD = re.compile(
    r"^@@(?: -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))?)?(?:[ .…]*@@)?(.*)$"
)
DIFF_MARKS = ("+", "-", " ")


@dataclass
class Hunk:
    """The lines of a hunk as they stand in the diff.

    Attributes:
        line: where the hunk begins, if its header says so.
        inserts: the header says that no old line is in the hunk, and ``line`` is the new number.
        hint: the words behind the second ``@@``.
    """

    line: int | None = None
    inserts: bool = False
    hint: str = ""
    lines: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, head: re.Match[str]) -> Hunk:
        inserts = head[2] == "0"
        number = head[3] if inserts else head[1]
        return cls(
            line=int(number) if number else None,
            inserts=inserts,
            hint=head[5].strip(" @"),
        )


Hunks = Sequence[Hunk]


def has_changes(lines: Lines) -> bool:
    return any(line[:1] in ("+", "-") for line in lines)


def hunk_edit(path: str, hunk: Hunk, content: Lines, *, exists: bool) -> SearchReplace:
    """Return the edit for the lines ``content`` of ``hunk``.

    New lines alone have their place from the header: a number, or the line that its hint names.
    Without either, definitions go to the end of a known file.
    """
    search, replace = _sides(content)
    headers = (hunk.hint,) if hunk.hint else ()
    if search.strip() or not replace.strip():
        return SearchReplace(
            path=path,
            search=search,
            replace=replace,
            readings=_readings(content),
            line=None if hunk.inserts else hunk.line,
            headers=headers,
        )
    if exists and hunk.inserts:
        return SearchReplace(path, "", replace, line=hunk.line)
    if exists and headers:
        return SearchReplace(path, "", replace, headers=headers)
    # A definition begins without indentation and has lines with some.
    indented = [line[:1].isspace() for line in full_lines(replace.split("\n"))]
    is_definition = any(indented) and not indented[0]
    appends = exists and hunk.line is None and is_definition
    return SearchReplace(path, search, replace, appends=appends)


def _readings(content: Lines) -> tuple[Replacement, ...]:
    """Return other readings: without unmarked lines at the end, and with unmarked kept lines."""
    readings = []
    end = len(content)
    while end > 0:
        last = content[end - 1]
        if last[:1] in DIFF_MARKS:
            break
        end -= 1
    if end < len(content):
        readings.append(_sides(content[:end]))
    if any(line[:1] == " " for line in content):
        readings.append(_sides(content, "+-"))
    return tuple(readings)


def content_of(hunks: Hunks) -> list[str]:
    lines = []
    for hunk in hunks:
        for line in hunk.lines:
            # `\\ No newline at end of file`
            if not line.startswith("\\ "):
                lines.append(line)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _sides(lines: Lines, marks: str = " +-") -> Replacement:
    old = one_side(lines, "-", marks)
    new = one_side(lines, "+", marks)
    return with_ends(old), with_ends(new)


def one_side(lines: Lines, sign: str, marks: str = " +-") -> list[str]:
    """Return the old (``-``) or new (``+``) lines; lines without a mark are kept lines."""
    other = "+" if sign == "-" else "-"
    side = []
    for line in lines:
        mark = line[:1]
        if mark == other:
            continue
        side.append(line[1:] if mark in marks else line)
    return side
