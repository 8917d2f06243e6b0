"""Read the answer of a reply: without drafts, and with its edits at the left edge."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass

from swe_retry.agent.formats.matching.lines import indent_of
from swe_retry.agent.formats.reading.fences import CLOSE, OPEN, fence_of

# Tags of reasoning; a server whose template opens the tag sends the closing one alone.
_TAG = re.compile(
    r"<(?:/)?(?:think|thinking|thought|reasoning)>|\[(?:/)?THINK\]", re.IGNORECASE
)
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})", re.MULTILINE)
_QUOTES = ("'", '"', "`")
_DIFF_MARKS = ("+", "-", " ")
# A text of JSON that holds a patch, as in `{"cmd": ["apply_patch", "*** Begin Patch…"]}`.
_JSON_PATCH = '"*** Begin Patch'
_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_PATCH_END = "*** End Patch"
# The first line of an edit.
_EDIT_START = re.compile(
    r"\*\*\* Begin Patch|\*\*\* \w+ File: |diff --git |--- \S|@@ |<{3,9} ?(?:SEARCH|ORIGINAL)"
)
# An item of a list moves its text by two characters or more.
_MIN_ITEM_INDENT = 2


def answer_of(text: str) -> str:
    """Return ``text`` without what stands before a closing tag of reasoning, or between two tags.

    A tag counts outside of quotation marks and of the content of fences and patches.
    """
    if not _TAG.search(text):
        return text
    fences = [match.start() for match in _FENCE.finditer(text)]
    answer: list[str] = []
    start = 0
    opening: int | None = None
    for tag in _TAG.finditer(text):
        if _is_content(text, tag, fences):
            continue
        if "/" not in tag[0]:
            if opening is None:
                opening = tag.start()
            continue
        if opening is None:
            answer.clear()
        else:
            answer.append(text[start:opening])
        opening = None
        start = tag.end()
    return "".join([*answer, text[start:]])


def _is_content(text: str, tag: re.Match[str], fences: list[int]) -> bool:
    """Return whether a tag belongs to a file, not to the reply."""
    start = tag.start()
    end = tag.end()
    # Two characters tell whether a mark begins the line; lines may be as long as the reply.
    before = text[max(start - 2, 0) : start]
    after = text[end : end + 1]
    begins_diff_line = before.removeprefix("\n") in _DIFF_MARKS
    if begins_diff_line or before.endswith(_QUOTES) or after in _QUOTES:
        return True
    count_before = bisect_left(fences, start)
    count_after = len(fences) - count_before
    return count_before % 2 == 1 and count_after % 2 == 1


def answer_lines(text: str) -> list[str]:
    """Return the lines of the answer, without byte-order mark, CRLF and indentation of items."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    lines = answer_of(text).split("\n")
    if any(line.startswith("  ") for line in lines):
        return _ItemReader(lines).read()
    return lines


def patches_in_json(text: str) -> list[str]:
    """Return the lines of the patches that JSON in ``text`` holds."""
    lines = []
    start = text.find(_JSON_PATCH)
    while start >= 0:
        literal = _JSON_TEXT.match(text, start)
        if not literal:
            break
        with suppress(ValueError):
            patch = json.loads(literal[0], strict=False)
            if _PATCH_END in patch:
                lines += patch.split("\n")
        start = text.find(_JSON_PATCH, literal.end())
    return lines


@dataclass
class _ItemReader:
    """Removes the indentation of fences and edits that stand in items of a list.

    Lines inside of edits and fences at the left edge stay.
    """

    lines: list[str]
    fence: str = ""
    depth: int = 0
    in_block: bool = False
    in_diff: bool = False

    def read(self) -> list[str]:
        result = list(self.lines)
        at = 0
        while at < len(self.lines):
            line = self.lines[at]
            indent = indent_of(line)
            is_inside = self.depth > 0 or self.in_block or self.in_diff
            end = at
            if len(indent) >= _MIN_ITEM_INDENT and not is_inside:
                end = self._end_of_item(at, indent)
            if end == at:
                self._pass_line(line)
                end += 1
            else:
                for number in range(at, end):
                    result[number] = self.lines[number].removeprefix(indent)
            at = end
        return result

    def _pass_line(self, line: str) -> None:
        """Keep track of the fences and edits that a line begins and ends."""
        mark = fence_of(line)
        if self.in_block:
            self.in_block = not CLOSE.match(line)
        elif mark and not self.depth:
            self.fence = mark[0]
            self.depth = 1
        elif mark and mark[0].startswith(self.fence):
            self.depth += 1 if mark[1] else -1
        elif OPEN.match(line):
            self.in_block = True
        elif line.startswith(("*** Begin Patch", "+++ ")) and not self.depth:
            self.in_diff = True
        elif line.startswith(_PATCH_END):
            self.in_diff = False

    def _end_of_item(self, start: int, indent: str) -> int:
        """Return the line behind the fence or edit that begins at ``start``, ``start`` for none."""
        bare = self.lines[start].removeprefix(indent)
        mark = fence_of(bare)
        if not mark and not self._begins_edit(start, bare):
            return start
        for number in range(start + 1, len(self.lines)):
            line = self.lines[number]
            if line.strip() and not line.startswith(indent):
                # The content of a fence is indented with it.
                return start if mark else number
            closing = fence_of(line.removeprefix(indent))
            if mark and closing == (mark[0], ""):
                return number + 1
        return start if mark else len(self.lines)

    def _begins_edit(self, start: int, bare: str) -> bool:
        if not _EDIT_START.match(bare):
            return False
        if not bare.startswith("--- "):
            return True
        below = self.lines[start + 1 : start + 2]
        return any(line.lstrip().startswith("+++ ") for line in below)
