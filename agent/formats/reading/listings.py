"""Read whole files in fences, under or over their names."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from swe_retry.agent.formats.edits import (
    Edit,
    Part,
    SearchReplace,
    Unreadable,
    WholeFile,
)
from swe_retry.agent.formats.matching.lines import Lines, full_lines, with_ends
from swe_retry.agent.formats.protocol import ReplyScope
from swe_retry.agent.formats.reading.definitions import defined_names, is_complete
from swe_retry.agent.formats.reading.fences import (
    DIFF_WORDS,
    MARKUP_SUFFIXES,
    OPEN,
    fence_of,
    file_for,
    path_above,
    path_in_info,
    paths_in_prose,
    quoted_paths,
)
from swe_retry.agent.formats.reading.names import (
    path_in_line,
    resolve_existing,
    resolve_likely,
)
from swe_retry.agent.grammars import has_errors, language_named, language_of
from swe_retry.core.plaintext import some

_MAX_FENCES = 20
# The comparison of a fence with a file, in characters that are parsed.
_FENCE_COST = 100
MAX_PARSED = 200_000
"""Characters of a reply that are parsed to find the ends of its files; it costs the most time."""
_MAX_LINE_LENGTH = 1_000
_MAX_LISTED = 20
_DIFF_STARTS = ("diff --git ", "--- ")
_HEADING = re.compile(r"^\s*(?:#{1,6}\s|\*\*|\d+[.)]\s|[-*]\s)")
# Words of a sentence that announces the content of a file.
_CONTENT = re.compile(
    r"\b(?:complete|full|entire|whole|updated?|new|modified|revised|corrected|fixed|final|contents?)\b",
    re.IGNORECASE,
)
# Words above the two fences of a change.
_OLD_LABEL = re.compile(
    r"^\W*(?:search|before|original|old|find|replace|current)\b[\w ]{0,20}\W*$",
    re.IGNORECASE,
)
_NEW_LABEL = re.compile(
    r"^\W*(?:replace|after|updated?|new|with|modified)\b[\w ]{0,20}\W*$", re.IGNORECASE
)
_ALONE = "write the path alone on the line before the fence of its complete content."


def read_listings(lines: list[str], scope: ReplyScope) -> Iterator[Part]:
    """Yield the files in ``lines``, and the lines between them as lists.

    A file that only a sentence names is ``likely`` meant; where another fence names it, or several
    are likely, that one is not.
    """
    parts = list(_ListingReader(lines, scope).read())
    sure = set()
    likely_counts: Counter[str] = Counter()
    for part in parts:
        if isinstance(part, WholeFile) and part.likely:
            likely_counts[part.path] += 1
        elif isinstance(part, WholeFile):
            sure.add(part.path)
    for part in parts:
        if not (isinstance(part, WholeFile) and part.likely):
            yield part
        elif part.path in sure:
            continue
        elif likely_counts[part.path] > 1:
            problem = f"several fences could be the content of {part.path}: {_ALONE}"
            yield Unreadable(part.path, problem)
        else:
            yield part


class _ListingReader:
    def __init__(self, lines: list[str], scope: ReplyScope) -> None:
        self.lines = lines
        self.scope = scope
        self.parsed = 0
        self.compared = 0
        self.read_text = cache(scope.read)
        self.fences = _Fences(lines)

    def read(self) -> Iterator[Part]:
        unread = 0
        next_line = 0
        for index, marks, info in self.fences.entries:
            if index < next_line:
                continue
            named_path, start = self._named_path(index, info)
            path = named_path or self._likely_path(unread, index, info)
            end = self._closing_fence(start - 1, marks, path)
            next_line = len(self.lines) if end is None else end + 1
            if not path and end is not None:
                path = self._path_by_content(info, with_ends(self.lines[start:end]))
            if not path:
                continue
            edit: Edit
            if end is None:
                missing = f"its closing fence {marks} is missing."
                edit = Unreadable(path, f"the file {path} is not complete: {missing}")
            elif _is_diff(info, path, self.lines, start, end):
                continue
            else:
                edit = WholeFile(
                    path=resolve_likely(path, self.scope),
                    content=with_ends(self.lines[start:end]),
                    likely=not named_path,
                )
            yield self.lines[unread : start - 1]
            yield edit
            unread = next_line
        yield self.lines[unread:]

    def _named_path(self, index: int, info: str) -> tuple[str | None, int]:
        """Return the path that stands at a fence, or None, and the first line of the content."""
        above = self.lines[max(0, index - 2) : index]
        files = self.scope.files
        path = path_in_info(info, files) or path_above(above, files)
        start = index + 1
        if path or start >= len(self.lines) or fence_of(self.lines[start]):
            return path, start
        inside = path_in_line(self.lines[start], files)
        # A file name as the first line is also content, unless the file is known.
        if inside in files:
            return inside, start + 1
        return None, start

    def _likely_path(self, start: int, index: int, info: str) -> str | None:
        """Return the only path in the sentence above a fence whose content may be that file."""
        if index and fence_of(self.lines[index - 1]):
            return None
        above = ""
        for line in self.lines[max(start, index - 3) : index]:
            if line.strip():
                above = line[:_MAX_LINE_LENGTH]
        is_heading = bool(_HEADING.match(above))
        announces = is_heading or above.rstrip(" *").endswith(":")
        if not announces or fence_of(above):
            return None
        paths = set(paths_in_prose([above], self.scope.files))
        paths.update(quoted_paths(above))
        if len(paths) != 1:
            return None
        path = paths.pop()
        if not info:
            return path if is_heading or _CONTENT.search(above) else None
        word = info.split()[0].lower()
        language = language_of(path)
        if language:
            return path if language_named(word) == language else None
        extension = path.rsplit(".", 1)[-1]
        is_same_letter = word[:1] == extension[:1]
        return path if is_same_letter and not language_named(word) else None

    def _path_by_content(self, info: str, content: str) -> str | None:
        """Return the only shown file that ``content`` may be a new version of.

        None where it may be another one as well, of which no definitions are known.
        """
        self.compared += (len(content) + _FENCE_COST) * len(self.scope.chat)
        if self.compared > MAX_PARSED:
            return None
        matches = []
        for path in self.scope.chat:
            if info and language_named(info.split()[0].lower()) != language_of(path):
                continue
            before = self.read_text(path)
            is_only = bool(info) and path == self.scope.only_file
            if not is_only and not defined_names(path, before or ""):
                return None
            if is_complete(path, before, content):
                matches.append(path)
        return matches[0] if len(matches) == 1 else None

    def _closing_fence(self, start: int, fence: str, path: str | None) -> int | None:
        """Return the line that closes the fence at or before ``start``, None without one.

        A file may hold fences itself, as documentation does: shorter ones do not count, and a bare
        fence closes the last one with a language. Where the lines up to a bare fence are not a
        complete program, but those up to a later one are, the later one closes the file. For texts
        there is no such test: the last bare fence before the next named one closes them.
        """
        fences = self.fences.bare_fences(start, fence)
        ends = (number for number, depth in fences if depth == 0)
        first = next(ends, None)
        if first is None or path is None:
            return first
        candidates = [first]
        for end in ends:
            candidates.append(end)
            if len(candidates) > _MAX_FENCES:
                break
        if not language_of(path):
            return candidates[-1] if path.endswith(MARKUP_SUFFIXES) else first
        if len(candidates) == 1:
            return first
        for end in candidates:
            text = with_ends(self.lines[start + 1 : end])
            self.parsed += len(text)
            if self.parsed <= MAX_PARSED and not has_errors(path, text):
                return end
        return first


class _Fences:
    """The fences of a reply.

    Attributes:
        entries: line, run of marks and info string of each.
        named: whether the lines above a fence are a file's name, by line.
    """

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.entries: list[tuple[int, str, str]] = []
        self.named: dict[int, bool] = {}
        for number, line in enumerate(lines):
            mark = fence_of(line)
            if mark:
                self.entries.append((number, *mark))

    def bare_fences(self, start: int, fence: str) -> Iterator[tuple[int, int]]:
        """Yield the fences without a language that may belong to ``fence``, with their depth."""
        depth = 1
        first = bisect_left(self.entries, (start + 1,))
        for index in range(first, len(self.entries)):
            number, marks, info = self.entries[index]
            if depth == 0 and self._is_named(number, start):
                return
            if not marks.startswith(fence):
                continue
            if info:
                depth += 1
            else:
                depth = max(depth - 1, 0)
                yield number, depth

    def _is_named(self, number: int, start: int) -> bool:
        if number not in self.named:
            above = self.lines[max(start, number - 2) : number]
            path = path_above(above, ())
            self.named[number] = path is not None
        return self.named[number]


def read_pairs(lines: list[str], scope: ReplyScope) -> Iterator[Part]:
    """Yield the edits whose old and new lines stand in two fences, and the lines between as lists.

    A word such as ``Before:`` or ``SEARCH:`` stands above the first fence, and one such as
    ``After:`` or ``REPLACE:`` alone between the two.
    """
    unread = 0
    path = scope.only_file
    for (start, end, _), (new_start, new_end, _) in pairwise(_fence_spans(lines)):
        if start < unread:
            continue
        first = max(unread, start - 2)
        above = full_lines(lines[first:start])
        between = full_lines(lines[end + 1 : new_start])
        if len(between) != 1 or not above:
            continue
        if not _OLD_LABEL.match(above[-1]) or not _NEW_LABEL.match(between[0]):
            continue
        above = lines[unread:start]
        yield above
        path = file_for(above, scope.files, path)
        if path is None:
            yield Unreadable("", f"a change in two fences names no file: {_ALONE}")
        else:
            search = with_ends(lines[start + 1 : end])
            replace = with_ends(lines[new_start + 1 : new_end])
            existing = resolve_existing(path, scope)
            yield SearchReplace(existing, search, replace)
        unread = new_end + 1
    yield lines[unread:]


def _fence_spans(lines: Lines) -> list[tuple[int, int, str]]:
    """Return the lines of the opening and the closing fence of each pair, and its info string."""
    fences = _Fences(lines)
    spans = []
    next_line = 0
    for start, marks, info in fences.entries:
        if start < next_line:
            continue
        end = next(fences.bare_fences(start, marks), (None, 0))[0]
        if end is None:
            break
        spans.append((start, end, info))
        next_line = end + 1
    return spans


def _is_diff(info: str, path: str, lines: Lines, start: int, end: int) -> bool:
    """Return whether a fence holds an edit of its file instead of the file."""
    if path.endswith((".diff", ".patch")):
        return False
    word = info.split(" ")[0].lower()
    return word in DIFF_WORDS or is_edit(lines, start, end)


def is_edit(lines: Lines, start: int, end: int) -> bool:
    """Return whether the lines from ``start`` to ``end`` begin as an edit does in any notation."""
    full = []
    for number in range(start, end):
        if lines[number].strip():
            full.append(lines[number])
            if len(full) == 6:
                break
    if not full:
        return False
    if any(OPEN.match(line) for line in full[:2]):
        return True
    if full[0].startswith(_DIFF_STARTS):
        return any(line.startswith("@@") for line in full)
    if full[0].startswith("*** "):
        return any(" File: " in line for line in full[:2])
    if full[0].startswith("@@ "):
        return any(line[:1] in "+-" for line in full)
    return False


def only_fence(lines: Lines, scope: ReplyScope) -> Edit | None:
    """Return the file of the only fence with code, where no file is named beside it.

    It is the only known file that the reply names, else the only one of the chat.
    """
    code = []
    for start, end, info in _fence_spans(lines):
        is_language = bool(info and language_named(info.lower()))
        if is_language and not is_edit(lines, start + 1, end):
            code.append(lines[start + 1 : end])
    if not code:
        return None
    paths = paths_in_prose(lines, scope.files)
    if not paths:
        paths = list(scope.chat or scope.files)
    if len(code) > 1 or len(paths) != 1:
        files = (
            f" You were shown {some(scope.chat, _MAX_LISTED)}." if scope.chat else ""
        )
        return Unreadable("", f"a fence has no file name: {_ALONE}{files}")
    return WholeFile(paths[0], with_ends(code[0]), likely=True)
