"""The ``diff`` format: SEARCH/REPLACE blocks in fences under a file name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from agent.formats.base import ApplyReport, EditResult, MalformedReplyError, Reader
from agent.formats.matching import replace_in_text
from agent.formats.names import path_in_line
from agent.formats.nearest import explain_mismatch
from agent.prompts import render

_SEARCH = re.compile(r"^<{5,9} SEARCH\s*$")
_DIVIDER = re.compile(r"^={5,9}\s*$")
_REPLACE = re.compile(r"^>{5,9} REPLACE\s*$")


@dataclass(frozen=True)
class SearchReplace:
    """Replace the lines ``search`` of the file ``path`` with ``replace`` (texts with newlines)."""

    path: str
    search: str
    replace: str


@dataclass(frozen=True)
class DiffFormat:
    """Parse and apply SEARCH/REPLACE blocks."""

    name: str = field(default="diff", init=False)

    def instructions(self, fence: str) -> str:
        """Return the rules and the example, with ``fence`` as the code fence."""
        return render("format_diff", fence=fence)

    def parse(self, reply: str, known: Collection[str]) -> Sequence[SearchReplace]:
        """Return the blocks of ``reply``; see ``EditFormat.parse``."""
        return tuple(_blocks(reply.replace("\r\n", "\n").split("\n"), known))

    def apply(
        self, edits: Sequence[SearchReplace], read: Reader, chat: Sequence[str]
    ) -> ApplyReport:
        """Apply each block to its file, else to the first file of the chat that has its lines."""
        contents: dict[str, str] = {}
        results = []

        def current(path: str) -> str | None:
            return contents[path] if path in contents else read(path)

        for edit in edits:
            landed = _land(edit, current, chat)
            if landed is None:
                problem = explain_mismatch(edit.path, edit.search, edit.replace, current(edit.path))
                results.append(EditResult(edit.path, applied=False, problem=problem))
            else:
                contents[landed[0]] = landed[1]
                results.append(EditResult(edit.path, applied=True, landed_in=landed[0]))
        return ApplyReport(contents, tuple(results))

    def join(self, partial: str, reply: str) -> str:
        """Return the reply to parse after one that was cut off; see ``EditFormat.join``."""
        before, after = _markers(partial), _markers(reply)
        open_block = bool(before) and not _REPLACE.match(before[-1])
        goes_on = bool(after) and not _SEARCH.match(after[0])
        return partial + reply if open_block and goes_on else reply


def _markers(text: str) -> list[str]:
    markers = (_SEARCH, _DIVIDER, _REPLACE)
    return [line for line in text.split("\n") if any(m.match(line) for m in markers)]


def _land(edit: SearchReplace, current: Reader, chat: Sequence[str]) -> tuple[str, str] | None:
    text = current(edit.path)
    if not edit.search.strip():
        joint = "\n" if text and not text.endswith("\n") else ""
        return edit.path, (text or "") + joint + edit.replace
    for path in dict.fromkeys((edit.path, *chat)):
        text = current(path)
        if text is None:
            continue
        changed = replace_in_text(text, edit.search, edit.replace)
        if changed is not None:
            return path, changed
    return None


def _blocks(lines: list[str], known: Collection[str]) -> Iterator[SearchReplace]:
    path, start = None, 0
    index = 0
    while index < len(lines):
        if not _SEARCH.match(lines[index]):
            index += 1
            continue
        path = _name_above(lines[start:index], known) or path
        if path is None:
            raise MalformedReplyError(
                "A SEARCH/REPLACE block has no file name. Put the file's path alone on the line "
                "before the opening fence.\n\n" + "\n".join(lines[index : index + 3])
            )
        search, index = _until(lines, index + 1, _DIVIDER, path, "=======")
        replace, index = _until(lines, index + 1, _REPLACE, path, ">>>>>>> REPLACE")
        yield SearchReplace(path, _unwrap(search, path), _unwrap(replace, path))
        index += 1
        start = index


def _unwrap(lines: list[str], path: str) -> str:
    """Return a section's text without what models wrap it in: the file's name, a fence.

    One blank line at the end is taken off as well, as the reference agent does on both sides.
    """
    if lines and lines[0].strip().endswith(path.rsplit("/", 1)[-1]):
        lines = lines[1:]
    if lines and lines[0].startswith("```") and lines[-1].startswith("```"):
        lines = lines[1:-1]
    if lines and not lines[-1]:
        lines = lines[:-1]
    return "".join(line + "\n" for line in lines)


def _until(
    lines: list[str], start: int, marker: re.Pattern[str], path: str, want: str
) -> tuple[list[str], int]:
    for index in range(start, len(lines)):
        if marker.match(lines[index]):
            return lines[start:index], index
        if any(m.match(lines[index]) for m in (_SEARCH, _DIVIDER, _REPLACE)):
            raise MalformedReplyError(
                f"In a block for {path}, expected `{want}` but found `{lines[index].strip()}`."
            )
    raise MalformedReplyError(f"A block for {path} is incomplete: `{want}` is missing at its end.")


def _name_above(lines: list[str], known: Collection[str]) -> str | None:
    """Return the file name in the last lines before a block: above or inside its fence."""
    above = [line for line in lines[-4:] if line.strip()][-2:]
    if above and above[-1].lstrip().startswith(("```", "~~~")):
        return path_in_line(above[0], known) if len(above) == 2 else None
    return path_in_line(above[-1], known) if above else None
