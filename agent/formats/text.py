"""Formats in the text of a reply: read the notation that was asked for, and the others."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from agent.formats.apply import EngineFormat
from agent.formats.base import Edit, EditFormat, Part, ReplyScope, Unreadable, WholeFile
from agent.formats.matching.lines import Lines, full_lines, numbers_where, with_ends
from agent.formats.reading.blocks import read_blocks
from agent.formats.reading.calls import calls_of
from agent.formats.reading.listings import MAX_PARSED, read_listings
from agent.formats.reading.unified import read_diffs, read_patches
from agent.grammars import has_errors, language_of
from llm.chat import Reply

# A key or tag such as `"file_path": "…"`, `<file name="…">`, and the path behind it.
_PATH_KEY = re.compile(
    r"[\"'<](?:\w{1,20}\s{1,3})?(?:path|file|file_?name|file_?path)[\"']?\s{0,3}[:=>]\s{0,3}"
    r"[\"']?([^\s\"'<>]{1,1500})",
    re.IGNORECASE,
)
_MARKS = "#*`: "
# The code after each of them is parsed.
_MAX_UNFENCED = 20
_Reader = Callable[[list[str], ReplyScope], Iterator[Part]]
# The other notations, with the signs that a reply in them has.
_READERS: tuple[tuple[_Reader, tuple[str, ...]], ...] = (
    (read_blocks, ("<<<", "-----")),
    (read_patches, ("***",)),
    (read_diffs, ("+++ ", "@@", "diff", "rename ")),
)


class TextFormat(EngineFormat):
    """A format whose edits are in the text of the reply."""

    @abstractmethod
    def read(self, lines: list[str], scope: ReplyScope) -> Iterator[Part]:
        """Yield the edits in ``lines``, and the lines before, between and after them as lists."""

    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[Edit]:
        lines = lines_of(reply)
        parts = [part for part in self.read(lines, scope) if part]
        edits = edits_of(self, reply, parts, scope)
        if edits:
            return edits
        calls = calls_of(reply)
        if not calls:
            return ()
        problem = f"there is no function {calls[0].name}. {_format_rules(self)}"
        return (Unreadable("", problem),)


def lines_of(reply: Reply) -> list[str]:
    """Return the lines of the reply's text, without byte-order mark and CRLF."""
    text = reply.content.removeprefix("\ufeff")
    return text.replace("\r\n", "\n").split("\n")


def edits_of(
    form: EditFormat,
    reply: Reply,
    parts: Sequence[Part],
    scope: ReplyScope,
) -> Sequence[Edit]:
    """Return the edits of ``parts``, and of their lists those in another notation.

    What explains an edit may hold the same change in another notation, so only a file that no
    edit names is edited so. A file in full may be a quotation: it is reported unless it is a
    known file beside edits.
    """
    readers = []
    for reader, signs in _READERS:
        if any(sign in reply.content for sign in signs):
            readers.append(reader)
    named = {part.path for part in parts if not isinstance(part, list)}
    edits: list[Edit] = []
    rest: list[list[str]] = []
    for part in parts:
        if not isinstance(part, list):
            edits.append(part)
            continue
        for other in _read_others(part, scope, readers):
            if isinstance(other, list):
                rest.append(other)
            elif other.path not in named:
                edits.append(other)
    # Without signs of another notation, a format of whole files has read all fences.
    fences = [] if form.whole_files and not readers else rest
    problems = _file_problems(form, fences, edits, scope)
    if not edits and not problems:
        for path in dict.fromkeys(_unfenced_paths(rest, scope)):
            problem = f"the change of {path} is not an edit in this format."
            problems.append(_report_unread(form, path, problem))
    return (*edits, *problems)


def _file_problems(
    form: EditFormat,
    parts: Sequence[list[str]],
    edits: list[Edit],
    scope: ReplyScope,
) -> list[Edit]:
    """Return a problem for each file in full that no edit names."""
    edited = {edit.path for edit in edits}
    passed_over = scope.files if edits else ()
    problems: dict[str, Edit] = {}
    for part in parts:
        for edit in read_listings(part, scope):
            if not isinstance(edit, WholeFile):
                continue
            if edit.path in edited or edit.path in passed_over:
                continue
            # A list of names in a fence is not a file.
            if " " in edit.content:
                problem = (
                    f"the file {edit.path} in a fence is not an edit in this format."
                )
                problems[edit.path] = _report_unread(form, edit.path, problem)
    return list(problems.values())


def _report_unread(
    form: EditFormat,
    path: str,
    problem: str,
) -> Unreadable:
    return Unreadable(path, f"{problem} {_format_rules(form)}")


def _unfenced_paths(parts: Sequence[Lines], scope: ReplyScope) -> Iterator[str]:
    """Yield known files that JSON or tags name, and those whose code follows without a fence."""
    parsed = 0
    for lines in parts:
        for line in lines:
            for path in _PATH_KEY.findall(line):
                if path in scope.files:
                    yield path
        numbers = numbers_where(lines, lambda line: line.strip(_MARKS) in scope.files)
        if len(numbers) > _MAX_UNFENCED:
            continue
        for number, end in pairwise([*numbers, len(lines)]):
            path = lines[number].strip(_MARKS)
            code = lines[number + 1 : end]
            if len(full_lines(code)) < 2 or not language_of(path):
                continue
            text = with_ends(code)
            parsed += len(text)
            if parsed <= MAX_PARSED and not has_errors(path, text):
                yield path


def _read_others(
    lines: list[str],
    scope: ReplyScope,
    readers: Sequence[_Reader],
) -> Iterator[Part]:
    if not readers:
        yield lines
        return
    for part in readers[0](lines, scope):
        if not isinstance(part, list):
            yield part
        elif part:
            yield from _read_others(part, scope, readers[1:])


def _format_rules(form: EditFormat) -> str:
    instructions = form.instructions("```")
    rules = instructions.split("\nExample", 1)[0].strip()
    return f"Write it in the format that was asked for:\n\n{rules}"
