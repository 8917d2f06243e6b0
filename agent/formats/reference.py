"""The ``diff`` format as the reference agent read it in May 2024, to replay its recordings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from agent.formats.apply import MOST_EDITS, apply_edits, too_many
from agent.formats.base import (
    ApplyReport,
    Edit,
    EditResult,
    MalformedReplyError,
    Reader,
    ReplyScope,
    SearchReplace,
)
from agent.formats.diff import DiffFormat
from agent.formats.matching.explain import explain_mismatch
from agent.formats.matching.reference_matching import keep_final_newline, replace_in_text
from agent.formats.reading.names import path_in_line
from llm.chat import Reply

_SEARCH = re.compile(r"^<{5,9} SEARCH\s*$")
_DIVIDER = re.compile(r"^={5,9}\s*$")
_REPLACE = re.compile(r"^>{5,9} REPLACE\s*$")


class ReferenceDiffFormat(DiffFormat):
    """SEARCH/REPLACE blocks with the reference agent's parsing and its steps of matching.

    A block can land in any file of the chat, so the choice of these files matters.
    """

    plain_mentions = True

    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[SearchReplace]:
        return tuple(_blocks(reply.content.replace("\r\n", "\n").split("\n"), scope.known))

    def apply(self, edits: Sequence[Edit], read: Reader, chat: Sequence[str]) -> ApplyReport:
        contents: dict[str, str | None] = {}
        results = []

        def current(path: str) -> str | None:
            return contents[path] if path in contents else read(path)

        blocks = [edit for edit in edits if isinstance(edit, SearchReplace)]
        if len(blocks) < len(edits):
            return apply_edits(edits, read)
        for edit in blocks[:MOST_EDITS]:
            landed = _land(edit, current, chat)
            if landed is None:
                problem = explain_mismatch(edit.path, edit.search, edit.replace, current(edit.path))
                results.append(EditResult(edit.path, applied=False, problem=problem))
            else:
                contents[landed[0]] = landed[1]
                results.append(EditResult(edit.path, applied=True, landed_in=landed[0]))
        results += [too_many(edit.path) for edit in blocks[MOST_EDITS:]]
        return ApplyReport(contents, tuple(results))


def _land(edit: SearchReplace, current: Reader, chat: Sequence[str]) -> tuple[str, str] | None:
    text = current(edit.path)
    if not edit.search.strip():
        joint = "\n" if text and not text.endswith("\n") else ""
        return edit.path, keep_final_newline(text or "", (text or "") + joint + edit.replace)
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
    above = [line for line in lines[-4:] if line.strip()][-2:]
    if above and above[-1].lstrip().startswith(("```", "~~~")):
        return path_in_line(above[0], known) if len(above) == 2 else None
    return path_in_line(above[-1], known) if above else None
