"""The ``diff`` format as the reference agent read it in May 2024, to replay its recordings.

The steps are those of the May 2024 run on SWE-bench Lite (see docs/edit-formats.md): exact lines,
a uniform difference in leading white space, both again without a leading blank line, then ``...``
elisions; the first place wins where several match. Lines end at ``\\n`` only, so that form feeds
and the like inside a line survive.
"""

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
from agent.formats.matching.lines import indent_of, starts_of, to_lines
from agent.formats.reading.names import path_in_line
from llm.chat import Reply

_SEARCH = re.compile(r"^<{5,9} SEARCH\s*$")
_DIVIDER = re.compile(r"^={5,9}\s*$")
_REPLACE = re.compile(r"^>{5,9} REPLACE\s*$")
# The search for each piece between dots reads the whole file.
_MOST_PIECES = 100


class ReferenceDiffFormat(DiffFormat):
    """SEARCH/REPLACE blocks with the reference agent's parsing and its steps of matching.

    A block can land in any file of the chat, so the choice of these files matters.
    """

    plain_mentions = True

    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[SearchReplace]:
        return tuple(
            _blocks(reply.content.replace("\r\n", "\n").split("\n"), scope.known)
        )

    def apply(
        self, edits: Sequence[Edit], read: Reader, chat: Sequence[str]
    ) -> ApplyReport:
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
                problem = explain_mismatch(
                    edit.path, edit.search, edit.replace, current(edit.path)
                )
                results.append(EditResult(edit.path, applied=False, problem=problem))
            else:
                contents[landed[0]] = landed[1]
                results.append(EditResult(edit.path, applied=True, landed_in=landed[0]))
        results += [too_many(edit.path) for edit in blocks[MOST_EDITS:]]
        return ApplyReport(contents, tuple(results))


def _land(
    edit: SearchReplace, current: Reader, chat: Sequence[str]
) -> tuple[str, str] | None:
    text = current(edit.path)
    if not edit.search.strip():
        joint = "\n" if text and not text.endswith("\n") else ""
        return edit.path, keep_final_newline(
            text or "", (text or "") + joint + edit.replace
        )
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
        above = [line for line in lines[start:index][-4:] if line.strip()][-2:]
        if above and above[-1].lstrip().startswith(("```", "~~~")):
            above = above[:1] if len(above) == 2 else []
        path = (path_in_line(above[-1], known) if above else None) or path
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
    raise MalformedReplyError(
        f"A block for {path} is incomplete: `{want}` is missing at its end."
    )


def split_lines(text: str) -> list[str]:
    """Split into lines that all end in ``\\n``; a missing final newline is added."""
    return [line + "\n" for line in to_lines(text)]


def replace_in_text(text: str, search: str, replace: str) -> str | None:
    """Return ``text`` with the first match of ``search`` replaced, or None without a match.

    The final newline, or its absence, stays as it was.
    """
    whole, part, new = split_lines(text), split_lines(search), split_lines(replace)
    result = _by_lines(whole, part, new)
    if result is None and len(part) > 2 and not part[0].strip():
        result = _by_lines(whole, part[1:], new)
    if result is None:
        result = _by_elision("".join(whole), "".join(part), "".join(new))
    if result is None:
        return None
    return keep_final_newline(text, result)


def keep_final_newline(text: str, result: str) -> str:
    """Return ``result`` without its final newline where ``text`` has none."""
    if text and not text.endswith("\n"):
        return result.removesuffix("\n")
    return result


def _by_lines(whole: list[str], part: list[str], new: list[str]) -> str | None:
    exact = next(starts_of(whole, part), None) if part else 0
    if exact is not None:
        return "".join([*whole[:exact], *new, *whole[exact + len(part) :]])
    widths = [len(indent_of(line)) for line in [*part, *new] if line.strip()]
    width = min(widths, default=0)
    part, new = (
        [line[width:] if line.strip() else line for line in lines]
        for lines in (part, new)
    )
    stripped = [line.lstrip() for line in part]
    for start in starts_of([line.lstrip() for line in whole], stripped):
        pairs = zip(whole[start : start + len(part)], part, strict=True)
        indents = {
            have[: len(have) - len(want)] for have, want in pairs if have.strip()
        }
        indent = indents.pop() if len(indents) == 1 else None
        if indent is not None:
            indented = [indent + line if line.strip() else line for line in new]
            return "".join([*whole[:start], *indented, *whole[start + len(part) :]])
    return None


def _by_elision(whole: str, part: str, new: str) -> str | None:
    """Match the pieces between ``...`` lines one by one; each must occur exactly once."""
    parts, news = _split_at_dots(part), _split_at_dots(new)
    if (
        len(parts) == 1
        or len(parts) > 2 * _MOST_PIECES
        or len(parts) != len(news)
        or parts[1::2] != news[1::2]
    ):
        return None
    for old_piece, new_piece in zip(parts[::2], news[::2], strict=True):
        if not old_piece:
            whole += new_piece
        elif whole.count(old_piece) != 1:
            return None
        else:
            whole = whole.replace(old_piece, new_piece, 1)
    return whole


def _split_at_dots(text: str) -> list[str]:
    pieces: list[list[str]] = [[]]
    blanks: list[str] = []
    for line in split_lines(text):
        if not line.strip():
            blanks.append(line)
            continue
        if line.lstrip() == "...\n":
            pieces += [[*blanks, line], []]
        else:
            pieces[-1] += [*blanks, line]
        blanks = []
    return ["".join(piece) for piece in [*pieces[:-1], pieces[-1] + blanks]]
