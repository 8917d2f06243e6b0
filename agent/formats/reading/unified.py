"""Read unified diffs, whose line numbers and counts may be wrong, and V4A patches.

V4A has Begin Patch, Add, Update with Move, Delete, and End Patch; its grammar is that of OpenAI's
prompting guide for GPT-4.1 (April 2025).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from agent.formats.base import (
    DeleteFile,
    Edit,
    MoveFile,
    ReplyScope,
    SearchReplace,
    Unreadable,
    WholeFile,
)
from agent.formats.matching.lines import with_ends
from agent.formats.reading.fences import KINDS, STRAY, fence_of, file_for, strays
from agent.formats.reading.names import (
    clean_name,
    resolve_existing,
    without_bogus_folders,
)

_OLD, _NEW = re.compile(r"^--- (.+)$"), re.compile(r"^\+\+\+ (.+)$")
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
_BEGINNINGS = ("--- ", "@@", "rename ")
_NOWHERE = "/dev/null"


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
        return cls(int(number) if number else None, inserts, head[5].strip(" @"))


def read_diffs(lines: list[str], scope: ReplyScope) -> Iterator[Edit | list[str]]:
    """Yield an edit for each hunk, in order, and the lines outside of diffs as lists."""
    at = done = 0
    renamed: tuple[str, str] | None = None
    path: str | None = None
    v4a = any(line.startswith("*** ") for line in lines)
    while at < len(lines):
        if not (lines[at].startswith(_BEGINNINGS) or fence_of(lines[at])):
            at += 1
            continue
        before = _RENAME.match(lines[at])
        after = _RENAME.match(lines[at + 1]) if before and at + 1 < len(lines) else None
        if before and after:
            yield lines[done:at]
            renamed = resolve_existing(_path(before[1]), scope), _path(after[1])
            if not _has_hunks(lines, at + 2):
                yield MoveFile(*renamed)
            done = at = at + 2
            continue
        old, new = _header(lines, at)
        if old and new:
            yield lines[done:at]
            body, at = _body(lines, at + 2)
            yield from _file(
                old, new, body, scope, moved=bool(renamed and new == renamed[1])
            )
            done, path = at, new
            continue
        body, end = ([], at + 1) if v4a else _without_header(lines, at)
        if body:
            yield lines[done:at]
            above = lines[done : at + (lines[at][:2] != "@@")]
            # Half a header may be there.
            half = next(
                (_GIT.match(line) for line in reversed(above) if line.strip()), None
            )
            path = _path(half[1]) if half else file_for(above, scope.known, path)
            if path is None:
                problem = (
                    "a diff names no file. Begin it with the lines `--- a/PATH` "
                    "and `+++ b/PATH`."
                )
                yield Unreadable("", problem)
            else:
                yield from _hunks(_existing(path, body, scope), body, scope)
            done = end
        at = end
    yield lines[done:]


def _header(lines: Sequence[str], at: int) -> tuple[str, str]:
    old = _OLD.match(lines[at])
    new = _NEW.match(lines[at + 1]) if old and at + 1 < len(lines) else None
    return (_path(old[1]), _path(new[1])) if old and new else ("", "")


def _without_header(lines: Sequence[str], at: int) -> tuple[list[Hunk], int]:
    fence = fence_of(lines[at])
    if not (lines[at].startswith("@@") or (fence and fence[1].split(" ")[0] in KINDS)):
        return [], at + 1
    start = at + bool(fence)
    if start == len(lines) or _GIT.match(lines[start]):
        return [], start
    body, end = _body(lines, start)
    changes = any(line[:1] in ("+", "-") for hunk in body for line in hunk.lines)
    return (body if changes else []), max(end, at + 1)


def _has_hunks(lines: Sequence[str], start: int) -> bool:
    for at in range(start, len(lines)):
        if _header(lines, at)[0]:
            return True
        if not lines[at].startswith("index "):
            return False
    return False


def _file(
    old: str, new: str, body: Sequence[Hunk], scope: ReplyScope, *, moved: bool
) -> Iterator[Edit]:
    if new == _NOWHERE:
        gone = with_ends(_side(_content(body), "-"))
        yield DeleteFile(without_bogus_folders(old, scope), gone or None)
        return
    if old == _NOWHERE:
        content = _content(body)
        edit = SearchReplace(new, "", with_ends(_side(content, "+")))
        plain = [line for line in content if line[:1] not in ("+", "-", " ")]
        yield Unreadable(new, STRAY.format(new)) if strays(plain) else edit
        return
    path = old if old in scope.known else _existing(new, body, scope)
    yield from _hunks(path, body, scope)
    # A name within the other is the same file.
    same = new.startswith(old) or new.endswith("/" + old) or old.endswith("/" + new)
    if moved or (path == old and not same and new not in scope.known):
        yield MoveFile(path, new)


def _existing(name: str, body: Sequence[Hunk], scope: ReplyScope) -> str:
    """Return the file that ``name`` means; a new one is not searched by its base name."""
    if name in scope.known:
        return name
    adds = not any(line.strip() for line in _side(_content(body), "-"))
    return without_bogus_folders(name, scope) if adds else resolve_existing(name, scope)


def _path(given: str) -> str:
    """Return a header's path: without its time stamp and the ``a/`` or ``b/`` before it."""
    path = given.split("\t", 1)[0].strip()
    if path.endswith("dev/null"):
        return _NOWHERE
    return re.sub(r"^[ab]/", "", clean_name(path))


def _body(lines: Sequence[str], start: int) -> tuple[list[Hunk], int]:
    found: list[Hunk] = []
    at = start
    while at < len(lines) and not _ends(lines, at):
        head = _HUNK.match(lines[at])
        if head:
            length = _counted(lines, at + 1, head)
            found.append(Hunk.of(head))
            found[-1].lines += lines[at + 1 : at + 1 + length]
            at += 1 + length
            continue
        if not found:
            found.append(Hunk())
        found[-1].lines.append(lines[at])
        at += 1
    return found, at


def _ends(lines: Sequence[str], at: int) -> bool:
    line = lines[at]
    if not line.startswith(_ENDINGS):
        return False
    if line.startswith("--- "):
        return bool(
            _OLD.match(line) and at + 1 < len(lines) and _NEW.match(lines[at + 1])
        )
    return line.startswith(_HEADERS) or bool(fence_of(line))


def _counted(lines: Sequence[str], start: int, head: re.Match[str]) -> int:
    if head[1] is None:
        return 0
    old, new = int(head[2] or 1), int(head[4] or 1)
    at = start
    while (old > 0 or new > 0) and at < len(lines):
        mark = lines[at][:1]
        if mark not in (" ", "-", "+", "\\", ""):
            return 0
        old -= mark in (" ", "-", "")
        new -= mark in (" ", "+", "")
        at += 1
    ended = at == len(lines) or _ends(lines, at) or bool(_HUNK.match(lines[at]))
    return at - start if old == new == 0 and (ended or not lines[at].strip()) else 0


def _hunks(path: str, body: Sequence[Hunk], scope: ReplyScope) -> Iterator[Edit]:
    for hunk in body:
        content = _content([hunk])
        if any(line[:1] in "+-" and line for line in content):
            yield hunk_edit(path, hunk, content, known=path in scope.known)


def hunk_edit(
    path: str, hunk: Hunk, content: Sequence[str], *, known: bool
) -> SearchReplace:
    """Return the edit for the lines ``content`` of ``hunk``.

    New lines alone have their place from the header: a number, or the line that its hint names.
    Without either, definitions go to the end of a known file.
    """
    search, replace = _sides(content)
    headers = (hunk.hint,) if hunk.hint else ()
    if search.strip() or not replace.strip():
        readings = _readings(content)
        line = None if hunk.inserts else hunk.line
        return SearchReplace(
            path, search, replace, readings, line=line, headers=headers
        )
    if known and hunk.inserts:
        return SearchReplace(path, "", replace, line=hunk.line)
    full = [line for line in replace.split("\n") if line.strip()]
    defines = not full[0][:1].isspace() and any(line[:1].isspace() for line in full)
    ends = known and hunk.line is None and not headers and defines
    if known and headers:
        return SearchReplace(path, "", replace, headers=headers)
    return SearchReplace(path, search, replace, appends=ends)


def _readings(content: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return other readings: without unmarked lines at the end, and with unmarked kept lines."""
    end = next(
        n for n in range(len(content), 0, -1) if content[n - 1][:1] in ("+", "-", " ")
    )
    ended = [_sides(content[:end])] if end < len(content) else []
    unmarked = (
        [_sides(content, "+-")] if any(line[:1] == " " for line in content) else []
    )
    return (*ended, *unmarked)


def _content(body: Sequence[Hunk]) -> list[str]:
    lines = [line for hunk in body for line in hunk.lines if not line.startswith("\\ ")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _sides(lines: Sequence[str], marks: str = " +-") -> tuple[str, str]:
    return with_ends(_side(lines, "-", marks)), with_ends(_side(lines, "+", marks))


def _side(lines: Sequence[str], sign: str, marks: str = " +-") -> list[str]:
    """Return the old (``-``) or new (``+``) lines; lines without a mark are kept lines."""
    other = "+" if sign == "-" else "-"
    return [
        line[1:] if line[:1] in marks and line else line
        for line in lines
        if line[:1] != other
    ]


_ACTION = re.compile(
    r"^\*\*\* ?(?:(Add|Create|New)|(Update|Modify|Edit)|(?:Delete|Remove)) File:? ?(.+)$",
    re.IGNORECASE,
)
_MOVE = re.compile(r"^\*\*\* ?(?:Move|Rename)(?: File)? to:? ?(.+)$", re.IGNORECASE)
BEGIN, END, _LAST = "*** Begin Patch", "*** End Patch", "*** end of file"
_EDGES = (BEGIN.lower(), END.lower())


def read_patches(lines: list[str], scope: ReplyScope) -> Iterator[Edit | list[str]]:
    """Yield the edits of each action, in order, and the lines outside of patches as lists."""
    section: _Section | None = None
    outside: list[str] = []
    closing = _closing_fences(lines)
    for number, line in enumerate(lines):
        action = _ACTION.match(line)
        edge = line.rstrip().lower() in _EDGES
        if (action or edge or number in closing) and section:
            yield from section.edits(scope)
            section = None
        if action:
            yield outside
            outside = []
            section = _Section(
                "Add" if action[1] else "Update" if action[2] else "", action[3]
            )
        elif section:
            section.take(line)
        elif not edge:
            outside.append(line)
    if section:
        yield from section.edits(scope)
    yield outside


def _closing_fences(lines: Sequence[str]) -> set[int]:
    found, inside = set(), False
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if line.startswith("***"):
            inside = line.strip().lower() != _EDGES[0]
        elif not inside and line[:1] in ("`", "~") and fence_of(line):
            found.add(number)
    return found


@dataclass
class _Section:
    verb: str
    given: str
    lines: list[str] = field(default_factory=list)
    to: str = ""

    def take(self, line: str) -> None:
        move = _MOVE.match(line)
        if move:
            self.to = move[1]
        else:
            self.lines.append(line)

    def edits(self, scope: ReplyScope) -> Iterator[Edit]:
        path = clean_name(self.given)
        if self.verb == "Add":
            if strays([line for line in self.lines if not line.startswith("+")]):
                yield Unreadable(path, STRAY.format(path))
                return
            while self.lines and not self.lines[-1].strip():
                self.lines.pop()
            content = with_ends([line.removeprefix("+") for line in self.lines])
            yield WholeFile(path, content, new=True)
            return
        if not self.verb:
            yield DeleteFile(without_bogus_folders(path, scope))
            return
        path = resolve_existing(path, scope)
        yield from _chunks(path, self.lines)
        if self.to:
            yield MoveFile(path, clean_name(self.to))


def _chunks(path: str, lines: Sequence[str]) -> Iterator[Edit]:
    headers: list[str] = []
    hunk = Hunk()
    for line in [*lines, "@@"]:
        if not line.startswith("@@"):
            hunk.lines.append(line)
            continue
        if any(hunk.lines):
            at_end = any(line.rstrip().lower() == _LAST for line in hunk.lines)
            content = [line for line in hunk.lines if line.rstrip().lower() != _LAST]
            while content and not content[-1]:
                content.pop()
            if any(line[:1] in ("+", "-") for line in content):
                edit = hunk_edit(path, hunk, content, known=True)
                appends = at_end or edit.appends
                yield replace(
                    edit, headers=tuple(headers), at_end=at_end, appends=appends
                )
            else:
                yield Unreadable(
                    path, f"a part of the patch for {path} changes nothing."
                )
            headers = []
        head = _HUNK.match(line)
        said = Hunk.of(head) if head else Hunk()
        hunk = Hunk(said.line, said.inserts)
        header = said.hint if said.line else line[2:].strip("@ \t.…")
        if header.strip():
            headers.append(header)
