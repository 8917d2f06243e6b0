"""What the linter reads and finds, and how the model is told: the lines of each finding."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

from swe_retry.agent.grammars import language_of, parser

if TYPE_CHECKING:
    from tree_sitter import Node, Tree


@dataclass(frozen=True)
class Finding:
    """A fatal problem and its line, counted from 1."""

    path: str
    line: int
    problem: str


@dataclass(frozen=True)
class Change:
    """A file's text before and after the edits; ``before`` is None for a new file."""

    path: str
    before: str | None
    after: str


_DEFINITION = re.compile(
    r"(function|class|method|module|interface|struct|trait|impl|enum|namespace|constructor|mod)"
    r"(_(definition|declaration|item|specifier))?$"
)


@dataclass(frozen=True)
class SourceText:
    """The text of ``path``; lines count from 1 and end with ``\\n`` alone."""

    path: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def _tree(self) -> Tree | None:
        language = language_of(self.path)
        if not language:
            return None
        return parser(language).parse(as_bytes(self.text))

    def line(self, number: int) -> str:
        """Return line ``number`` without the white space around it; empty outside the file."""
        if not 0 < number <= len(self.lines):
            return ""
        return self.lines[number - 1].strip()

    def scope(self, number: int) -> tuple[str, ...]:
        """Return the first lines of the definitions around line ``number``, the outermost first."""
        return tuple(self.line(header.start) for header in self.headers(number))

    def headers(self, number: int) -> tuple[range, ...]:
        """Return the lines of each signature around line ``number``, the outermost first.

        Where the text is broken and the grammar finds no definition, the lines with less
        indentation take their place.
        """
        if not self._tree:
            return ()
        row = number - 1
        headers: list[range] = []
        node: Node | None = self._tree.root_node
        while node:
            header = _header_of(node, row)
            if header:
                headers.append(header)
            node = _inner_node(node, row)
        if headers or not self._tree.root_node.has_error:
            return tuple(headers)
        width = 0
        if number <= len(self.lines):
            width = _indentation(self.lines[row])
        for above in range(min(row, len(self.lines)), 0, -1):
            line = self.lines[above - 1]
            if line.strip(" \t})];") and _indentation(line) < width:
                width = _indentation(line)
                headers.insert(0, range(above, above + 1))
        return tuple(headers)


def _header_of(node: Node, row: int) -> range | None:
    """Return the lines of the signature of ``node``, counted from 1, if it begins above ``row``."""
    start = node.start_point.row
    body = node.child_by_field_name("body")
    if not body or start >= row or not _DEFINITION.search(node.type):
        return None
    end = start
    before = body.prev_sibling
    if before:
        end = max(start, before.end_point.row)
    return range(start + 1, min(end, row - 1) + 2)


def _inner_node(node: Node, row: int) -> Node | None:
    for child in node.children:
        is_around = child.start_point.row <= row <= child.end_point.row
        if is_around and child.child_count > 0:
            return child
    return None


def as_bytes(text: str) -> bytes:
    """Return ``text`` as bytes for the parser, also with lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


_CONTEXT_LINES = 3
_MAX_HEADER_LINES = 4
_MAX_FINDINGS = 20
_MAX_CHARACTERS = 8_000
_MAX_LINE_LENGTH = 200


def describe(findings: Sequence[Finding], texts: Mapping[str, str]) -> str:
    """Return ``findings`` as a message: what is wrong, then the lines where it is.

    ``texts`` holds the text of each path. The message shows the lines around each finding, marked
    with ``>``, and the signatures of the definitions around it; ``…`` stands for other lines. It
    holds at most 20 findings and about 8,000 characters, and the number of findings left out.
    """
    parts: list[str] = []
    described = 0
    room = _MAX_CHARACTERS
    by_path = groupby(findings[:_MAX_FINDINGS], key=lambda finding: finding.path)
    for path, group in by_path:
        file_findings = list(group)
        part = _describe_file(file_findings, SourceText(path, texts[path]))
        if len(part) > room:
            part = "\n".join(_headlines(file_findings))
        if parts and len(part) > room:
            break
        parts.append(part)
        room -= len(part)
        described += len(file_findings)
    others = len(findings) - described
    if others:
        parts.append(f"… and {others} more.")
    return "\n\n".join(parts)


def _headlines(findings: Sequence[Finding]) -> list[str]:
    rows = []
    for finding in findings:
        row = f"{finding.path}:{finding.line}: {finding.problem}"
        rows.append(row[:_MAX_LINE_LENGTH])
    return rows


def _describe_file(findings: Sequence[Finding], source: SourceText) -> str:
    marked = {finding.line for finding in findings}
    end = len(source.lines)
    # The empty text after the final line end is not a line.
    if source.lines[-1] == "":
        end -= 1
    visible: set[int] = set()
    for line in marked:
        for header in source.headers(line):
            visible.update(header[:_MAX_HEADER_LINES])
        first = max(1, line - _CONTEXT_LINES)
        last = min(end, line + _CONTEXT_LINES)
        visible.update(range(first, last + 1))
    rows = _headlines(findings)
    previous = 0
    for number in sorted(visible):
        if number > previous + 1:
            rows.append("…")
        mark = ">" if number in marked else " "
        text = source.lines[number - 1][:_MAX_LINE_LENGTH]
        rows.append(f"{mark}{number:5d}  {text}".rstrip())
        previous = number
    if previous < end:
        rows.append("…")
    return "\n".join(rows)
