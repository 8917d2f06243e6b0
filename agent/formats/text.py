"""Formats in the text of a reply: read the notation that was asked for, and the others."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence

from agent.formats.apply import EngineFormat
from agent.formats.base import Edit, EditFormat, ReplyScope, Unreadable, WholeFile
from agent.formats.matching.lines import with_ends
from agent.formats.reading.blocks import read_blocks
from agent.formats.reading.calls import calls_of
from agent.formats.reading.listings import MOST_PARSED, read_listings
from agent.formats.reading.unified import read_diffs, read_patches
from agent.grammars import has_errors, language_of
from llm.chat import Reply

Part = Edit | list[str]
_KEYED = re.compile(
    r"[\"'<](?:\w{1,20}\s{1,3})?(?:path|file|file_?name|file_?path)[\"']?\s{0,3}[:=>]\s{0,3}"
    r"[\"']?([^\s\"'<>]{1,1500})",
    re.IGNORECASE,
)
_MARKS = "#*`: "
# The code after each of them is parsed.
_MOST_UNFENCED = 20
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
        parts = [part for part in self.read(lines_of(reply), scope) if part]
        edits = edits_of(self, reply, parts, scope)
        if not edits and (calls := calls_of(reply)):
            return (
                Unreadable("", f"there is no function {calls[0].name}. {_rules(self)}"),
            )
        return edits


def lines_of(reply: Reply) -> list[str]:
    """Return the lines of the reply's text, without byte-order mark and CRLF."""
    return reply.content.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")


def edits_of(
    form: EditFormat, reply: Reply, parts: Sequence[Part], scope: ReplyScope
) -> Sequence[Edit]:
    """Return the edits of ``parts``, and of their lists those in another notation.

    What explains an edit may hold the same change in another notation, so only a file that no
    edit names is edited so. A file in full may be a quotation: it is reported unless it is a
    known file beside edits.
    """
    readers = [
        r for r, signs in _READERS if any(sign in reply.content for sign in signs)
    ]
    named = {part.path for part in parts if not isinstance(part, list)}
    found: list[Edit] = []
    rest: list[list[str]] = []
    for part in parts:
        if not isinstance(part, list):
            found.append(part)
            continue
        for other in _others(part, scope, readers):
            if isinstance(other, list):
                rest.append(other)
            elif other.path not in named:
                found.append(other)
    edited, beside = {edit.path for edit in found}, bool(found)
    # A list of names in a fence is not a file.
    listed = [
        edit.path
        for part in (() if form.whole_files and not readers else rest)
        for edit in read_listings(part, scope)
        if isinstance(edit, WholeFile)
        and any(" " in line for line in edit.content.split("\n"))
    ]
    for path in dict.fromkeys(listed):
        if not (path in edited or (beside and path in scope.known)):
            problem = f"the file {path} in a fence is not an edit in this format. {_rules(form)}"
            found.append(Unreadable(path, problem))
    for path in () if found else dict.fromkeys(_unfenced(rest, scope)):
        problem = f"the change of {path} is not an edit in this format. {_rules(form)}"
        found.append(Unreadable(path, problem))
    return tuple(found)


def _unfenced(parts: Sequence[Sequence[str]], scope: ReplyScope) -> Iterator[str]:
    """Yield known files that JSON or tags name, and those whose code follows without a fence."""
    parsed = 0
    for lines in parts:
        yield from (
            m[1] for line in lines for m in _KEYED.finditer(line) if m[1] in scope.known
        )
        names = [n for n, line in enumerate(lines) if line.strip(_MARKS) in scope.known]
        if len(names) > _MOST_UNFENCED:
            continue
        for at, end in zip(names, [*names[1:], len(lines)], strict=False):
            path, code = lines[at].strip(_MARKS), lines[at + 1 : end]
            if language_of(path) and sum(bool(line.strip()) for line in code) > 1:
                text = with_ends(code)
                parsed += len(text)
                if parsed <= MOST_PARSED and not has_errors(path, text):
                    yield path


def _others(
    lines: list[str], scope: ReplyScope, readers: Sequence[_Reader]
) -> Iterator[Part]:
    if not readers:
        yield lines
        return
    for part in readers[0](lines, scope):
        if not isinstance(part, list):
            yield part
        elif part:
            yield from _others(part, scope, readers[1:])


def _rules(form: EditFormat) -> str:
    rules = form.instructions("```").split("\nExample", 1)[0].strip()
    return f"Write it in the format that was asked for:\n\n{rules}"
