"""Read whole files in fences, under or over their names."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from agent.formats.base import Edit, ReplyScope, Unreadable, WholeFile
from agent.formats.matching.lines import with_ends
from agent.formats.reading.fences import (
    KINDS,
    MARKUP,
    OPEN,
    fence_of,
    path_above,
    path_in_info,
    paths_in_prose,
    quoted_paths,
)
from agent.formats.reading.names import path_in_line, resolve_likely
from agent.grammars import has_errors, language_named, language_of

_MOST_FENCES = 20
MOST_PARSED = 200_000
"""Characters of a reply that are parsed to find the ends of its files; it costs the most time."""
_LONGEST = 1_000
_FIRST = ("diff --git ", "--- ")
_HEADING = re.compile(r"^\s*(?:#{1,6}\s|\*\*|\d+[.)]\s|[-*]\s)")
_CONTENT = re.compile(
    r"\b(?:complete|full|entire|whole|updated?|new|modified|revised|corrected|fixed|final|contents?)\b",
    re.IGNORECASE,
)


def read_listings(lines: list[str], scope: ReplyScope) -> Iterator[Edit | list[str]]:
    """Yield the files in ``lines``, and the lines between them as lists.

    A file that only a sentence names is ``likely`` meant; where another fence names it, or several
    are likely, that one is not.
    """
    found = list(_Listings(lines, scope).all())
    counts = Counter(e.path for e in found if isinstance(e, WholeFile) and e.likely)
    sure = {e.path for e in found if isinstance(e, WholeFile) and not e.likely}
    for part in found:
        if not (isinstance(part, WholeFile) and part.likely):
            yield part
        elif part.path in sure:
            continue
        elif counts[part.path] > 1:
            problem = f"several fences could be the content of {part.path}: {_ALONE}"
            yield Unreadable(part.path, problem)
        else:
            yield part


_ALONE = "write the path alone on the line before the fence of its complete content."


class _Listings:
    def __init__(self, lines: list[str], scope: ReplyScope) -> None:
        self.lines = lines
        self.scope = scope
        self.parsed = 0
        self.fences = _Fences(lines)

    def all(self) -> Iterator[Edit | list[str]]:
        lines, behind, done = self.lines, 0, 0
        for index, marks, info in self.fences.all:
            if index < behind:
                continue
            path, start = _name(lines, index, info, self.scope)
            said = path or _said(lines, done, index, info, self.scope)
            end = self._closing(start - 1, marks, said)
            edit: Edit | None = None
            if said and end is None:
                missing = f"its closing fence {marks} is missing."
                problem = f"the file {said} is not complete: {missing}"
                edit = Unreadable(said, problem)
            elif (
                said and end is not None and not _is_diff(info, said, lines, start, end)
            ):
                text = with_ends(lines[start:end])
                edit = WholeFile(
                    resolve_likely(said, self.scope), text, likely=not path
                )
            behind = len(lines) if end is None else end + 1
            if edit:
                yield lines[done : start - 1]
                yield edit
                done = behind
        yield lines[done:]

    def _closing(self, start: int, fence: str, path: str | None) -> int | None:
        """Return the line that closes the fence at or before ``start``, None without one.

        A file may hold fences itself, as documentation does: shorter ones do not count, and a bare
        fence closes the last one with a language. Where the lines up to a bare fence are not a
        complete program, but those up to a later one are, the later one closes the file. For texts
        there is no such test: the last bare fence before the next named one closes them.
        """
        bare = self.fences.bare(start, fence)
        first = next((n for n, depth in bare if depth == 0), None)
        if first is None or path is None:
            return first
        later = [first, *islice((n for n, depth in bare if depth == 0), _MOST_FENCES)]
        if language_of(path) is None:
            return later[-1] if path.endswith(MARKUP) else first
        for end in later if len(later) > 1 else ():
            text = "\n".join([*self.lines[start + 1 : end], ""])
            self.parsed += len(text)
            if self.parsed <= MOST_PARSED and not has_errors(path, text):
                return end
        return first


class _Fences:
    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.all = [
            (n, *mark) for n, line in enumerate(lines) if (mark := fence_of(line))
        ]
        self.named: dict[int, bool] = {}

    def bare(self, start: int, fence: str) -> Iterator[tuple[int, int]]:
        depth = 1
        for index in range(bisect_left(self.all, (start + 1,)), len(self.all)):
            number, marks, info = self.all[index]
            if depth == 0:
                if number not in self.named:
                    above = self.lines[max(start, number - 2) : number]
                    self.named[number] = path_above(above, ()) is not None
                if self.named[number]:
                    return
            if marks[0] != fence[0] or len(marks) < len(fence):
                continue
            depth = depth + 1 if info else max(depth - 1, 0)
            if not info:
                yield number, depth


def _name(
    lines: Sequence[str], index: int, info: str, scope: ReplyScope
) -> tuple[str | None, int]:
    known = scope.known
    path = path_in_info(info, known) or path_above(
        lines[max(0, index - 2) : index], known
    )
    if path or index + 1 >= len(lines) or fence_of(lines[index + 1]):
        return path, index + 1
    inside = path_in_line(lines[index + 1], known)
    # A file name as the first line is also content, unless the file is known.
    return (inside, index + 2) if inside in known else (None, index + 1)


def _said(
    lines: Sequence[str], done: int, index: int, info: str, scope: ReplyScope
) -> str | None:
    if index and fence_of(lines[index - 1]):
        return None
    near = reversed(lines[max(done, index - 3) : index])
    above = next((line for line in near if line.strip()), "")[:_LONGEST]
    heading = bool(_HEADING.match(above))
    if not (heading or above.rstrip(" *").endswith(":")) or fence_of(above):
        return None
    paths = dict.fromkeys([*paths_in_prose([above], scope.known), *quoted_paths(above)])
    path = next(iter(paths), "")
    if len(paths) != 1:
        return None
    if not info:
        return path if heading or _CONTENT.search(above) else None
    word, language = info.split()[0].lower(), language_of(path)
    if language:
        return path if language_named(word) == language else None
    same = word[:1] == path.rsplit(".", 1)[-1][:1]
    return path if same and not language_named(word) else None


def _is_diff(info: str, path: str, lines: Sequence[str], start: int, end: int) -> bool:
    """Return whether a fence holds an edit of its file instead of the file."""
    if path.endswith((".diff", ".patch")):
        return False
    return info.split(" ")[0].lower() in KINDS or _is_edit(lines, start, end)


def _is_edit(lines: Sequence[str], start: int, end: int) -> bool:
    full = list(islice((line for line in lines[start:end] if line.strip()), 6))
    diff = (
        full[:1]
        and full[0].startswith(_FIRST)
        and any(line[:2] == "@@" for line in full)
    )
    v4a = (
        full[:1]
        and full[0].startswith("*** ")
        and any(" File: " in line for line in full[:2])
    )
    hunk = (
        full[:1]
        and full[0].startswith("@@ ")
        and any(line[:1] in "+-" for line in full)
    )
    return bool(diff or v4a or hunk or any(OPEN.match(line) for line in full[:2]))


def only_fence(lines: Sequence[str], scope: ReplyScope) -> Edit | None:
    """Return the file of the only fence with code, where no file is named beside it.

    It is the only known file that the reply names, else the only one of the chat.
    """
    code, behind, fences = [], 0, _Fences(lines)
    if not any(info and language_named(info.lower()) for _, _, info in fences.all):
        return None
    for at, marks, info in fences.all:
        if at < behind:
            continue
        end = next((n for n, _ in fences.bare(at, marks)), None)
        if end and language_named(info.lower()) and not _is_edit(lines, at + 1, end):
            code.append(lines[at + 1 : end])
        behind = len(lines) if end is None else end + 1
    if not code:
        return None
    named = paths_in_prose(lines, scope.known) or list(scope.chat or scope.known)
    if len(code) > 1 or len(named) != 1:
        return Unreadable("", f"a fence has no file name: {_ALONE}")
    return WholeFile(named[0], with_ends(code[0]), likely=True)
