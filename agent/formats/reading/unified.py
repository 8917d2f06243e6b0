"""Read unified diffs, whose line numbers and counts may be wrong, and V4A patches.

V4A has Begin Patch, Add, Update with Move, Delete, and End Patch; its grammar is that of OpenAI's
prompting guide for GPT-4.1 (April 2025).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from swe_retry.agent.formats.edits import (
    DeleteFile,
    Edit,
    MoveFile,
    Part,
    Replacement,
    SearchReplace,
    Unreadable,
    WholeFile,
)
from swe_retry.agent.formats.matching.lines import (
    Lines,
    full_lines,
    has_text,
    with_ends,
)
from swe_retry.agent.formats.protocol import ReplyScope
from swe_retry.agent.formats.reading.fences import (
    DIFF_WORDS,
    STRAY_MARKER,
    fence_of,
    file_for,
    stray_markers,
)
from swe_retry.agent.formats.reading.names import (
    clean_name,
    resolve_existing,
    without_bogus_folders,
)

_OLD_HEADER = re.compile(r"^--- (.+)$")
_NEW_HEADER = re.compile(r"^\+\+\+ (.+)$")
# Headers of context diffs, which some models write over the hunks of unified ones.
_STAR_HEADER = re.compile(r"^\*\*\* (?!\w+ (?:File|Patch|to|of)\b)(.+?)(?: \*{4})?$")
_CONTEXT_RULE = "*" * 15
# `@@ -1,2 +3,4 @@ hint`: both numbers with their counts, and the hint; also without numbers.
_HUNK = re.compile(
    r"^@@(?: -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))?)?(?:[ .…]*@@)?(.*)$"
)
_RENAME = re.compile(r"^rename (?:from|to) (.+)$")
_GIT = re.compile(r"^(?:diff --git|---|\+\+\+) (\S+)")
# Lines at which a file's part of a diff ends; three stars begin a line of V4A.
_HEADERS = (
    "diff --git ",
    "index ",
    "new file mode",
    "deleted file mode",
    "rename from ",
    "*** ",
)
_ENDINGS = (*_HEADERS, "--- ", "```", "~~~")
# Lines at which one may begin, besides fences.
_BEGINNINGS = ("--- ", "*** ", "@@", "rename ")
_NOWHERE = "/dev/null"
_DIFF_MARKS = ("+", "-", " ")
_NO_NAME = (
    "a diff names no file. Begin it with the lines `--- a/PATH` and `+++ b/PATH`."
)


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


def read_diffs(lines: list[str], scope: ReplyScope) -> Iterator[Part]:
    """Yield an edit for each hunk, in order, and the lines outside of diffs as lists."""
    is_v4a = any(map(_ACTION.match, lines))
    unread = 0
    at = 0
    renamed_to = ""
    path = scope.only_file
    while at < len(lines):
        is_beginning = lines[at].startswith(_BEGINNINGS)
        if not is_beginning and not fence_of(lines[at]):
            at += 1
            continue
        old, new = _paths_at(lines, at, _RENAME, _RENAME)
        if new is not None:
            yield lines[unread:at]
            at += 2
            unread = at
            renamed_to = new
            if not _has_hunks(lines, at):
                yield MoveFile(resolve_existing(old, scope), new)
            continue
        old, new = _header_at(lines, at)
        if old and new:
            yield lines[unread:at]
            hunks, at = _read_hunks(lines, at + 2)
            moved = new == renamed_to
            yield from _file_edits(old, new, hunks, scope, moved=moved)
            unread = at
            path = new
            continue
        if is_v4a:
            at += 1
            continue
        hunks, end = _hunks_without_header(lines, at)
        if hunks:
            above = lines[unread:at]
            yield list(above)
            if not lines[at].startswith("@@"):
                above.append(lines[at])
            path = _path_before(above, scope, path)
            if path is None:
                yield Unreadable("", _NO_NAME)
            else:
                existing = _existing_path(path, hunks, scope)
                yield from _hunk_edits(existing, hunks, scope)
            unread = end
        at = end
    yield lines[unread:]


def _header_at(lines: Lines, at: int) -> tuple[str, str | None]:
    """Return the paths of a header over hunks, whichever marks it has."""
    below = lines[at + 2 : at + 3]
    if below and below[0].startswith("@@"):
        paths = _paths_at(lines, at, _STAR_HEADER, _OLD_HEADER)
        if paths[1]:
            return paths
    return _paths_at(lines, at, _OLD_HEADER, _NEW_HEADER)


def context_diff_paths(lines: Lines) -> Iterator[str]:
    """Yield the files of context diffs."""
    for number, line in enumerate(lines):
        if not line.startswith(_CONTEXT_RULE) or number < 2:
            continue
        path = _paths_at(lines, number - 2, _STAR_HEADER, _OLD_HEADER)[1]
        if path:
            yield path


def _paths_at(
    lines: Lines,
    at: int,
    first: re.Pattern[str],
    second: re.Pattern[str],
) -> tuple[str, str | None]:
    """Return the paths of a header's two lines; the second is None where there is no header."""
    below = at + 1
    old = first.match(lines[at])
    if not old or below == len(lines):
        return "", None
    new = second.match(lines[below])
    if not new:
        return "", None
    return _header_path(old[1]), _header_path(new[1])


def _path_before(above: Lines, scope: ReplyScope, previous: str | None) -> str | None:
    """Return the path of a diff without a header: half a header may be there."""
    for line in reversed(above):
        if line.strip():
            half = _GIT.match(line)
            if half:
                return _header_path(half[1])
            break
    return file_for(above, scope.files, previous)


def _hunks_without_header(lines: Lines, at: int) -> tuple[list[Hunk], int]:
    """Return the hunks that begin at ``at``, if they change anything, and where to read on."""
    start = at
    is_diff = lines[at].startswith("@@")
    fence = fence_of(lines[at])
    if fence:
        start += 1
        is_diff = fence[1].split(" ")[0] in DIFF_WORDS
    if not is_diff:
        return [], at + 1
    if start == len(lines) or _GIT.match(lines[start]):
        return [], start
    hunks, end = _read_hunks(lines, start)
    end = max(end, at + 1)
    for hunk in hunks:
        if _has_changes(hunk.lines):
            return hunks, end
    return [], end


def _has_changes(lines: Lines) -> bool:
    return any(line[:1] in ("+", "-") for line in lines)


def _has_hunks(lines: Lines, start: int) -> bool:
    for at in range(start, len(lines)):
        if _paths_at(lines, at, _OLD_HEADER, _NEW_HEADER)[0]:
            return True
        if not lines[at].startswith("index "):
            return False
    return False


def _file_edits(
    old: str,
    new: str,
    hunks: Hunks,
    scope: ReplyScope,
    *,
    moved: bool,
) -> Iterator[Edit]:
    content = _content(hunks)
    if new == _NOWHERE:
        removed = with_ends(_side(content, "-"))
        yield DeleteFile(without_bogus_folders(old, scope), removed or None)
        return
    if old == _NOWHERE:
        unmarked = [line for line in content if line[:1] not in _DIFF_MARKS]
        if stray_markers(unmarked):
            yield Unreadable(new, STRAY_MARKER.format(new))
        else:
            added = _side(content, "+")
            yield SearchReplace(new, "", with_ends(added))
        return
    path = old
    if old not in scope.files:
        path = _existing_path(new, hunks, scope)
    yield from _hunk_edits(path, hunks, scope)
    # A name within the other is the same file.
    is_within = new.startswith(old) or new.endswith(f"/{old}")
    is_same = is_within or old.endswith(f"/{new}")
    is_renamed = path == old and not is_same
    if moved or (is_renamed and new not in scope.files):
        yield MoveFile(path, new)


def _existing_path(name: str, hunks: Hunks, scope: ReplyScope) -> str:
    """Return the file that ``name`` means; a new one is not searched by its base name."""
    if name in scope.files:
        return name
    old_lines = _side(_content(hunks), "-")
    if has_text(old_lines):
        return resolve_existing(name, scope)
    return without_bogus_folders(name, scope)


def _header_path(name: str) -> str:
    """Return a header's path: without its time stamp and the ``a/`` or ``b/`` before it."""
    path = name.split("\t", 1)[0].strip()
    if path.endswith("dev/null"):
        return _NOWHERE
    return re.sub(r"^[ab]/", "", clean_name(path))


def _read_hunks(lines: Lines, start: int) -> tuple[list[Hunk], int]:
    hunks = []
    at = start
    while at < len(lines) and not _ends(lines, at):
        head = _HUNK.match(lines[at])
        if head:
            hunk = Hunk.of(head)
            first = at + 1
            at = first + _counted_length(lines, first, head)
            hunk.lines += lines[first:at]
            hunks.append(hunk)
            continue
        if not hunks:
            hunks.append(Hunk())
        hunks[-1].lines.append(lines[at])
        at += 1
    return hunks, at


def _ends(lines: Lines, at: int) -> bool:
    """Return whether the diff of a file ends before the line ``at``."""
    line = lines[at]
    if not line.startswith(_ENDINGS):
        return False
    if line.startswith("--- "):
        new = _paths_at(lines, at, _OLD_HEADER, _NEW_HEADER)[1]
        return new is not None
    return line.startswith(_HEADERS) or bool(fence_of(line))


def _counted_length(lines: Lines, start: int, head: re.Match[str]) -> int:
    """Return how many lines the counts of ``head`` cover; 0 where the counts are wrong."""
    if not head[1]:
        return 0
    old = int(head[2] or 1)
    new = int(head[4] or 1)
    at = start
    while (old > 0 or new > 0) and at < len(lines):
        mark = lines[at][:1]
        if mark not in (" ", "-", "+", "\\", ""):
            return 0
        if mark in (" ", "-", ""):
            old -= 1
        if mark in (" ", "+", ""):
            new -= 1
        at += 1
    if old != 0 or new != 0:
        return 0
    is_end = at == len(lines) or not lines[at].strip()
    if is_end or _ends(lines, at) or _HUNK.match(lines[at]):
        return at - start
    return 0


def _hunk_edits(path: str, hunks: Hunks, scope: ReplyScope) -> Iterator[Edit]:
    for hunk in hunks:
        content = _content([hunk])
        if _has_changes(content):
            yield hunk_edit(path, hunk, content, exists=path in scope.files)


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
    appends = exists and hunk.line is None and _is_definition(replace)
    return SearchReplace(path, search, replace, appends=appends)


def _is_definition(text: str) -> bool:
    """Return whether ``text`` begins without indentation and has lines with some."""
    full = full_lines(text.split("\n"))
    is_indented = [line[:1].isspace() for line in full]
    return any(is_indented) and not is_indented[0]


def _readings(content: Lines) -> tuple[Replacement, ...]:
    """Return other readings: without unmarked lines at the end, and with unmarked kept lines."""
    readings = []
    end = len(content)
    while end > 0:
        last = content[end - 1]
        if last[:1] in _DIFF_MARKS:
            break
        end -= 1
    if end < len(content):
        readings.append(_sides(content[:end]))
    if any(line[:1] == " " for line in content):
        readings.append(_sides(content, "+-"))
    return tuple(readings)


def _content(hunks: Hunks) -> list[str]:
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
    old = _side(lines, "-", marks)
    new = _side(lines, "+", marks)
    return with_ends(old), with_ends(new)


def _side(lines: Lines, sign: str, marks: str = " +-") -> list[str]:
    """Return the old (``-``) or new (``+``) lines; lines without a mark are kept lines."""
    other = "+" if sign == "-" else "-"
    side = []
    for line in lines:
        mark = line[:1]
        if mark == other:
            continue
        side.append(line[1:] if mark in marks else line)
    return side


_ACTION = re.compile(
    r"^\*\*\* ?(?:(Add|Create|New)|(Update|Modify|Edit)|(?:Delete|Remove)) File:? ?(.+)$",
    re.IGNORECASE,
)
_MOVE = re.compile(r"^\*\*\* ?(?:Move|Rename)(?: File)? to:? ?(.+)$", re.IGNORECASE)
BEGIN = "*** Begin Patch"
END = "*** End Patch"
_END_OF_FILE = "*** end of file"
_EDGES = (BEGIN.lower(), END.lower())


def read_patches(lines: list[str], scope: ReplyScope) -> Iterator[Part]:
    """Yield the edits of each action, in order, and the lines outside of patches as lists."""
    section: _Section | None = None
    outside: list[str] = []
    closing = _closing_fences(lines)
    for number, line in enumerate(lines):
        action = _ACTION.match(line)
        is_edge = line.rstrip().lower() in _EDGES
        if section and (action or is_edge or number in closing):
            yield from section.edits(scope)
            section = None
        if action:
            yield outside
            outside = []
            section = _Section(
                name=action[3],
                adds=bool(action[1]),
                updates=bool(action[2]),
            )
        elif section:
            section.add_line(line)
        elif not is_edge:
            outside.append(line)
    if section:
        yield from section.edits(scope)
    yield outside


def _closing_fences(lines: Lines) -> set[int]:
    """Return the fences that no later line of the same patch with stars follows."""
    numbers = set()
    inside = False
    for number in reversed(range(len(lines))):
        line = lines[number]
        is_fence = line.startswith(("`", "~")) and fence_of(line)
        if line.startswith("***"):
            inside = line.strip().lower() != _EDGES[0]
        elif is_fence and not inside:
            numbers.add(number)
    return numbers


@dataclass
class _Section:
    """The lines of an action; it removes its file where it neither adds nor updates it."""

    name: str
    adds: bool
    updates: bool
    lines: list[str] = field(default_factory=list)
    target: str = ""

    def add_line(self, line: str) -> None:
        move = _MOVE.match(line)
        if move:
            self.target = move[1]
        else:
            self.lines.append(line)

    def edits(self, scope: ReplyScope) -> Iterator[Edit]:
        path = clean_name(self.name)
        if self.adds:
            yield self._new_file(path)
            return
        if not self.updates:
            yield DeleteFile(without_bogus_folders(path, scope))
            return
        path = resolve_existing(path, scope)
        yield from _chunk_edits(path, self.lines)
        if self.target:
            yield MoveFile(path, clean_name(self.target))

    def _new_file(self, path: str) -> Edit:
        unmarked = [line for line in self.lines if not line.startswith("+")]
        if stray_markers(unmarked):
            return Unreadable(path, STRAY_MARKER.format(path))
        while self.lines and not self.lines[-1].strip():
            self.lines.pop()
        content = [line.removeprefix("+") for line in self.lines]
        return WholeFile(path, with_ends(content), new=True)


def _chunk_edits(path: str, lines: Lines) -> Iterator[Edit]:
    headers: list[str] = []
    hunk = Hunk()
    for line in [*lines, "@@"]:
        if not line.startswith("@@"):
            hunk.lines.append(line)
            continue
        if any(hunk.lines):
            yield _chunk_edit(path, hunk, headers)
            headers = []
        head = _HUNK.match(line)
        hunk = Hunk.of(head) if head else Hunk()
        header = hunk.hint
        hunk.hint = ""
        if not hunk.line:
            header = line[2:].strip("@ \t.…")
        if header.strip():
            headers.append(header)


def _chunk_edit(path: str, hunk: Hunk, headers: Lines) -> Edit:
    content = []
    for line in hunk.lines:
        if line.rstrip().lower() != _END_OF_FILE:
            content.append(line)
    at_end = len(content) < len(hunk.lines)
    while content and not content[-1]:
        content.pop()
    if not _has_changes(content):
        return Unreadable(path, f"a part of the patch for {path} changes nothing.")
    edit = hunk_edit(path, hunk, content, exists=True)
    return replace(
        edit,
        headers=tuple(headers),
        at_end=at_end,
        appends=at_end or edit.appends,
    )
