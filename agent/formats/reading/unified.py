"""Read unified diffs, whose line numbers and counts may be wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator

from swe_retry.agent.formats.edits import (
    DeleteFile,
    Edit,
    MoveFile,
    Part,
    SearchReplace,
    Unreadable,
)
from swe_retry.agent.formats.matching.lines import Lines, has_text, with_ends
from swe_retry.agent.formats.protocol import ReplyScope
from swe_retry.agent.formats.reading.fences import (
    DIFF_WORDS,
    STRAY_MARKER,
    fence_of,
    file_for,
    stray_markers,
)
from swe_retry.agent.formats.reading.hunks import (
    DIFF_MARKS,
    HUNK_HEAD,
    Hunk,
    Hunks,
    content_of,
    has_changes,
    hunk_edit,
    one_side,
)
from swe_retry.agent.formats.reading.names import (
    clean_name,
    resolve_existing,
    without_bogus_folders,
)
from swe_retry.agent.formats.reading.v4a import ACTION

_OLD_HEADER = re.compile(r"^--- (.+)$")
_NEW_HEADER = re.compile(r"^\+\+\+ (.+)$")
# Headers of context diffs, which some models write over the hunks of unified ones.
_STAR_HEADER = re.compile(r"^\*\*\* (?!\w+ (?:File|Patch|to|of)\b)(.+?)(?: \*{4})?$")
_CONTEXT_RULE = "*" * 15
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
_NO_NAME = (
    "a diff names no file. Begin it with the lines `--- a/PATH` and `+++ b/PATH`."
)


def read_diffs(lines: list[str], scope: ReplyScope) -> Iterator[Part]:
    """Yield an edit for each hunk, in order, and the lines outside of diffs as lists."""
    is_v4a = any(map(ACTION.match, lines))
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
    lines: Lines, at: int, first: re.Pattern[str], second: re.Pattern[str]
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
        if has_changes(hunk.lines):
            return hunks, end
    return [], end


def _has_hunks(lines: Lines, start: int) -> bool:
    for at in range(start, len(lines)):
        if _paths_at(lines, at, _OLD_HEADER, _NEW_HEADER)[0]:
            return True
        if not lines[at].startswith("index "):
            return False
    return False


def _file_edits(
    old: str, new: str, hunks: Hunks, scope: ReplyScope, *, moved: bool
) -> Iterator[Edit]:
    content = content_of(hunks)
    if new == _NOWHERE:
        removed = with_ends(one_side(content, "-"))
        yield DeleteFile(without_bogus_folders(old, scope), removed or None)
        return
    if old == _NOWHERE:
        unmarked = [line for line in content if line[:1] not in DIFF_MARKS]
        if stray_markers(unmarked):
            yield Unreadable(new, STRAY_MARKER.format(new))
        else:
            added = one_side(content, "+")
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
    old_lines = one_side(content_of(hunks), "-")
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
        head = HUNK_HEAD.match(lines[at])
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
    if is_end or _ends(lines, at) or HUNK_HEAD.match(lines[at]):
        return at - start
    return 0


def _hunk_edits(path: str, hunks: Hunks, scope: ReplyScope) -> Iterator[Edit]:
    for hunk in hunks:
        content = content_of([hunk])
        if has_changes(content):
            yield hunk_edit(path, hunk, content, exists=path in scope.files)
