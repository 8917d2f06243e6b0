"""The ``udiff`` format: unified diffs, whose line numbers and counts may be wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agent.formats.apply import EngineFormat
from agent.formats.base import (
    DeleteFile,
    Edit,
    MoveFile,
    ReplyScope,
    SearchReplace,
)
from agent.formats.matching.hunks import hunks, marked, unmarked
from agent.formats.matching.lines import to_lines, with_ends
from agent.formats.reading.fences import fence_of, shortest_fence
from agent.formats.reading.names import clean_name, resolve_existing, without_bogus_folders
from llm.chat import Reply

_OLD, _NEW = re.compile(r"^--- (.+)$"), re.compile(r"^\+\+\+ (.+)$")
_HUNK = re.compile(r"^@@(?: -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))?)?.*?(?:@@|$)")
_NOWHERE = "/dev/null"
_RENAME = re.compile(r"^rename (?:from|to) (.+)$")
Hunk = tuple[int | None, list[str]]
_HEADERS = ("diff --git ", "index ", "new file mode", "deleted file mode", "rename from ")


class UnifiedDiffFormat(EngineFormat):
    """Parse and apply unified diffs; places are found by lines, not by line numbers."""

    name = "udiff"

    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[Edit]:
        """Return an edit for each hunk, in order; text around diffs is ignored."""
        text = reply.content.removeprefix("\ufeff").replace("\r\n", "\n")
        return tuple(_files(text.removesuffix("\n").split("\n"), scope))

    def render(self, path: str, before: str | None, after: str | None) -> Reply:
        """Return the diff in a fence, with true counts."""
        found = hunks(before or "", after or "")
        body = "\n".join(line for s, r in found for line in (_head(before, s, r), *marked(s, r)))
        old = _NOWHERE if before is None else f"a/{path}"
        new = _NOWHERE if after is None else f"b/{path}"
        text = f"--- {old}\n+++ {new}\n{body}"
        fence = shortest_fence([text])
        return Reply(f"{fence}diff\n{text}\n{fence}\n")


def _head(before: str | None, search: str, replace: str) -> str:
    old, new = to_lines(search), to_lines(replace)
    have = to_lines(before or "")
    starts = (n for n in range(len(have)) if have[n : n + len(old)] == old)
    first = next(starts, -1) + 1 if old else 0
    return f"@@ -{first},{len(old)} +{first},{len(new)} @@"


def _files(lines: Sequence[str], scope: ReplyScope) -> Iterator[Edit]:
    at = 0
    renamed: tuple[str, str] | None = None
    while at < len(lines):
        pair = [_RENAME.match(line) for line in lines[at : at + 2]]
        if len(pair) == 2 and pair[0] and pair[1]:
            renamed = resolve_existing(_path(pair[0][1]), scope), _path(pair[1][1])
            if not _has_hunks(lines, at + 2):
                yield MoveFile(*renamed)
            at += 2
            continue
        old, new = _header(lines, at)
        if not (old and new):
            at += 1
            continue
        body, at = _body(lines, at + 2)
        yield from _file(old, new, body, scope)
        if renamed and new == renamed[1]:
            yield MoveFile(*renamed)


def _header(lines: Sequence[str], at: int) -> tuple[str, str]:
    """Return the old and the new path when the two lines at ``at`` begin a file."""
    old = _OLD.match(lines[at])
    new = _NEW.match(lines[at + 1]) if at + 1 < len(lines) else None
    return (_path(old[1]), _path(new[1])) if old and new else ("", "")


def _has_hunks(lines: Sequence[str], start: int) -> bool:
    """Tell whether a file's header with hunks follows before the next file begins."""
    for at in range(start, len(lines)):
        if _header(lines, at)[0]:
            return True
        if not lines[at].startswith("index "):
            return False
    return False


def _file(old: str, new: str, body: Sequence[Hunk], scope: ReplyScope) -> Iterator[Edit]:
    if new == _NOWHERE:
        gone = with_ends(_side(_content(body), "-"))
        yield DeleteFile(without_bogus_folders(old, scope), gone or None)
    elif old == _NOWHERE:
        yield SearchReplace(new, "", with_ends(_side(_content(body), "+")))
    else:
        path = old if old in scope.known else resolve_existing(new, scope)
        yield from _hunks(path, body)


def _path(given: str) -> str:
    """Return a header's path: without its time stamp and the ``a/`` or ``b/`` before it."""
    path = given.split("\t", 1)[0].strip()
    if path == _NOWHERE:
        return path
    return re.sub(r"^[ab]/", "", clean_name(path))


def _body(lines: Sequence[str], start: int) -> tuple[list[Hunk], int]:
    """Return the hunks from ``start`` on, as (first line or None, lines), and where they end."""
    found: list[Hunk] = []
    at = start
    while at < len(lines) and not _ends(lines, at):
        head = _HUNK.match(lines[at])
        if head:
            length = _counted(lines, at + 1, head)
            found.append((int(head[1]) if head[1] else None, list(lines[at + 1 : at + 1 + length])))
            at += 1 + length
            continue
        if not found:
            found.append((None, []))
        found[-1][1].append(lines[at])
        at += 1
    return found, at


def _ends(lines: Sequence[str], at: int) -> bool:
    line = lines[at]
    if (line[:1] in "`~" and fence_of(line)) or line.startswith(_HEADERS):
        return True
    return bool(_OLD.match(line) and at + 1 < len(lines) and _NEW.match(lines[at + 1]))


def _counted(lines: Sequence[str], start: int, head: re.Match[str]) -> int:
    """Return how many lines the counts of a hunk's header stand for, 0 where they are wrong.

    Right counts distinguish removed lines that begin with ``-- `` from headers, and lines that look
    like a fence from fences.
    """
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


def _hunks(path: str, body: Sequence[Hunk]) -> Iterator[Edit]:
    for first, lines in body:
        content = _content([(first, lines)])
        if not any(line[:1] in "+-" and line for line in content):
            continue
        search, replace = _side(content, "-"), _side(content, "+")
        yield SearchReplace(
            path, with_ends(search), with_ends(replace), line=first, blank_end=False
        )


def _content(body: Sequence[Hunk]) -> list[str]:
    """Return the marked lines of all hunks, without remarks and final blank lines."""
    lines = [line for _, part in body for line in part if not line.startswith("\\ ")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _side(lines: Sequence[str], sign: str) -> list[str]:
    """Return the old (``-``) or new (``+``) lines; lines without a mark are kept lines."""
    other = "+" if sign == "-" else "-"
    return [unmarked(line) for line in lines if not line.startswith(other)]
