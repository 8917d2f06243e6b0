"""The ``diff`` format as the reference agent read it in May 2024, to replay its recordings.

The steps are those of the May 2024 run on SWE-bench Lite (see docs/edit-formats.md): exact lines,
a uniform difference in leading white space, both again without a leading blank line, then ``...``
elisions; the first place wins where several match. Lines end at ``\\n`` only, so that form feeds
and the like inside a line survive.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from swe_retry.agent.formats.apply import MAX_EDITS, apply_edits, too_many_edits
from swe_retry.agent.formats.diff import DiffFormat
from swe_retry.agent.formats.edits import Edit, Reader, SearchReplace
from swe_retry.agent.formats.matching.explain import explain_mismatch
from swe_retry.agent.formats.matching.lines import (
    Lines,
    final_newline,
    full_lines,
    indent_of,
    starts_of,
    to_lines,
)
from swe_retry.agent.formats.protocol import MalformedReplyError, ReplyScope
from swe_retry.agent.formats.reading.answer import answer_of
from swe_retry.agent.formats.reading.names import path_in_line
from swe_retry.agent.formats.report import ApplyReport, EditResult
from swe_retry.llm.chat import Reply

_SEARCH = re.compile(r"^<{5,9} SEARCH\s*$")
_DIVIDER = re.compile(r"^={5,9}\s*$")
_REPLACE = re.compile(r"^>{5,9} REPLACE\s*$")
_ANY_MARKER = re.compile(f"{_SEARCH.pattern}|{_DIVIDER.pattern}|{_REPLACE.pattern}")
# The search for each piece between dots reads the whole file.
_MAX_PIECES = 100


class ReferenceDiffFormat(DiffFormat):
    """SEARCH/REPLACE blocks with the reference agent's parsing and its steps of matching.

    A block can land in any file of the chat, so the choice of these files matters.
    """

    plain_mentions = True

    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[SearchReplace]:
        text = answer_of(reply.content).replace("\r\n", "\n")
        lines = text.split("\n")
        return tuple(_read_blocks(lines, scope.files))

    def apply(
        self, edits: Sequence[Edit], read: Reader, chat: Sequence[str]
    ) -> ApplyReport:
        contents: dict[str, str | None] = {}
        results = []

        def current(path: str) -> str | None:
            if path in contents:
                return contents[path]
            return read(path)

        blocks = [edit for edit in edits if isinstance(edit, SearchReplace)]
        if len(blocks) < len(edits):
            return apply_edits(edits, read)
        for edit in blocks[:MAX_EDITS]:
            path, text = _land_edit(edit, current, chat)
            if text is None:
                before = current(edit.path)
                problem = explain_mismatch(edit.path, edit.search, edit.replace, before)
                result = EditResult(edit.path, problem)
            else:
                contents[path] = text
                result = EditResult(edit.path, landed_in=path)
            results.append(result)
        results += [too_many_edits(edit.path) for edit in blocks[MAX_EDITS:]]
        return ApplyReport(contents, tuple(results))


def _land_edit(
    edit: SearchReplace, current: Reader, chat: Sequence[str]
) -> tuple[str, str | None]:
    """Return the path and the new text of the first file that has the lines of ``edit``."""
    if not edit.search.strip():
        text = current(edit.path) or ""
        joint = "\n" if text and not text.endswith("\n") else ""
        result = text + joint + edit.replace
        return edit.path, final_newline(result, text)
    for path in dict.fromkeys((edit.path, *chat)):
        text_before = current(path)
        if text_before is None:
            continue
        changed = replace_in_text(text_before, edit.search, edit.replace)
        if changed is not None:
            return path, changed
    return edit.path, None


def _read_blocks(lines: list[str], files: Collection[str]) -> Iterator[SearchReplace]:
    path: str | None = None
    start = 0
    index = 0
    while index < len(lines):
        if not _SEARCH.match(lines[index]):
            index += 1
            continue
        near = lines[start:index][-4:]
        above = full_lines(near)
        if above and above[-1].lstrip().startswith(("```", "~~~")):
            above.pop()
        if above:
            path = path_in_line(above[-1], files) or path
        if path is None:
            raise MalformedReplyError(
                "A SEARCH/REPLACE block has no file name. Put the file's path alone on the line "
                "before the opening fence.\n\n" + "\n".join(lines[index : index + 3])
            )
        search, index = _read_until(lines, index + 1, _DIVIDER, path, "=======")
        replace, index = _read_until(
            lines, index + 1, _REPLACE, path, ">>>>>>> REPLACE"
        )
        yield SearchReplace(path, _unwrap(search, path), _unwrap(replace, path))
        index += 1
        start = index


def _unwrap(lines: list[str], path: str) -> str:
    base = path.rsplit("/", 1)[-1]
    if lines and lines[0].strip().endswith(base):
        lines = lines[1:]
    if lines:
        begins = lines[0].startswith("```")
        ends = lines[-1].startswith("```")
        if begins and ends:
            lines = lines[1:-1]
    if lines and not lines[-1]:
        lines = lines[:-1]
    return "".join(f"{line}\n" for line in lines)


def _read_until(
    lines: list[str], start: int, marker: re.Pattern[str], path: str, want: str
) -> tuple[list[str], int]:
    """Return the lines before the next marker, and its line.

    Raises:
        MalformedReplyError: the next marker is not ``marker``.
    """
    for index in range(start, len(lines)):
        line = lines[index]
        if marker.match(line):
            return lines[start:index], index
        if _ANY_MARKER.match(line):
            raise MalformedReplyError(
                f"In a block for {path}, expected `{want}` but found `{line.strip()}`."
            )
    raise MalformedReplyError(
        f"A block for {path} is incomplete: `{want}` is missing at its end."
    )


def split_lines(text: str) -> list[str]:
    """Split into lines that all end in ``\\n``; a missing final newline is added."""
    return [f"{line}\n" for line in to_lines(text)]


def replace_in_text(text: str, search: str, replace: str) -> str | None:
    """Return ``text`` with the first match of ``search`` replaced, or None without a match.

    The final newline, or its absence, stays as it was.
    """
    lines = split_lines(text)
    old = split_lines(search)
    new = split_lines(replace)
    result = _replace_lines(lines, old, new)
    begins_blank = len(old) > 2 and not old[0].strip()
    if result is None and begins_blank:
        result = _replace_lines(lines, old[1:], new)
    if result is None:
        text_lines = "".join(lines)
        result = _replace_pieces(text_lines, "".join(old), "".join(new))
    if result is None:
        return None
    return final_newline(result, text)


def _replace_lines(lines: list[str], old: list[str], new: list[str]) -> str | None:
    exact = next(starts_of(lines, old), None) if old else 0
    if exact is not None:
        before = lines[:exact]
        after = lines[exact + len(old) :]
        return "".join([*before, *new, *after])
    full = full_lines([*old, *new])
    widths = [len(indent_of(line)) for line in full]
    width = min(widths, default=0)
    old = _without_indent(old, width)
    new = _without_indent(new, width)
    bare_lines = list(map(str.lstrip, lines))
    bare_old = list(map(str.lstrip, old))
    for start in starts_of(bare_lines, bare_old):
        end = start + len(old)
        window = lines[start:end]
        indents = set()
        for line, old_line in zip(window, old, strict=True):
            if line.strip():
                width = len(line) - len(old_line)
                indents.add(line[:width])
        if len(indents) == 1:
            indent = indents.pop()
            indented = [indent + line if line.strip() else line for line in new]
            before = lines[:start]
            after = lines[end:]
            return "".join([*before, *indented, *after])
    return None


def _without_indent(lines: Lines, width: int) -> list[str]:
    return [line[width:] if line.strip() else line for line in lines]


def _replace_pieces(text: str, old: str, new: str) -> str | None:
    """Match the pieces between ``...`` lines one by one; each must occur exactly once."""
    old_pieces = _split_at_dots(old)
    new_pieces = _split_at_dots(new)
    if not 1 < len(old_pieces) <= 2 * _MAX_PIECES:
        return None
    # Every second piece is a line of dots.
    if len(old_pieces) != len(new_pieces):
        return None
    if old_pieces[1::2] != new_pieces[1::2]:
        return None
    pairs = zip(old_pieces[::2], new_pieces[::2], strict=True)
    for old_piece, new_piece in pairs:
        if not old_piece:
            text += new_piece
        elif text.count(old_piece) != 1:
            return None
        else:
            text = text.replace(old_piece, new_piece, 1)
    return text


def _split_at_dots(text: str) -> list[str]:
    pieces: list[list[str]] = [[]]
    blanks = []
    for line in split_lines(text):
        if not line.strip():
            blanks.append(line)
            continue
        if line.lstrip() == "...\n":
            pieces += [[*blanks, line], []]
        else:
            pieces[-1] += [*blanks, line]
        blanks = []
    pieces[-1] += blanks
    return list(map("".join, pieces))
