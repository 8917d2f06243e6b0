"""What the linter reads and finds, and how the model is told: the lines of each finding."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

from agent.grammars import language_of, parser

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
        return parser(language).parse(encoded(self.text)) if language else None

    def line(self, number: int) -> str:
        """Return line ``number`` without the white space around it; empty outside the file."""
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""

    def scope(self, number: int) -> tuple[str, ...]:
        """Return the first lines of the definitions around line ``number``, the outermost first."""
        return tuple(self.line(header.start) for header in self.headers(number))

    def headers(self, number: int) -> tuple[range, ...]:
        """Return the lines of each signature around line ``number``, the outermost first.

        Where the text is broken and the grammar finds no definition, the lines with less
        indentation take their place.
        """
        found: list[range] = []
        row = number - 1
        node: Node | None = self._tree.root_node if self._tree else None
        while node is not None:
            body = node.child_by_field_name("body")
            if (
                body is not None
                and _DEFINITION.search(node.type)
                and node.start_point.row < row
            ):
                before = body.prev_sibling
                last = before.end_point.row if before is not None else 0
                last = max(node.start_point.row, last)
                found.append(range(node.start_point.row + 1, min(last, row - 1) + 2))
            around = (
                c for c in node.children if c.start_point.row <= row <= c.end_point.row
            )
            node = next((child for child in around if child.child_count > 0), None)
        if found or not self._tree or not self._tree.root_node.has_error:
            return tuple(found)
        width = _indentation(self.lines[number - 1]) if number <= len(self.lines) else 0
        for above in range(min(number - 1, len(self.lines)), 0, -1):
            line = self.lines[above - 1]
            if line.strip(" \t})];") and _indentation(line) < width:
                width = _indentation(line)
                found.insert(0, range(above, above + 1))
        return tuple(found)


def encoded(text: str) -> bytes:
    """Return ``text`` as bytes for the parser, also with lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


_AROUND = 3
_HEADER_LINES = 4
_MOST_FINDINGS = 20
_MOST_CHARACTERS = 8_000
_LONGEST_LINE = 200


def describe(found: Sequence[Finding], texts: Mapping[str, str]) -> str:
    """Return ``found`` as a message: what is wrong, then the lines where it is.

    ``texts`` holds the text of each path. The message shows the lines around each finding, marked
    with ``>``, and the signatures of the definitions around it; ``…`` stands for other lines. It
    holds at most 20 findings and about 8,000 characters, and the number of findings left out.
    """
    parts: list[str] = []
    shown = 0
    for path, group in groupby(
        found[:_MOST_FINDINGS], key=lambda finding: finding.path
    ):
        findings = list(group)
        part = _describe_file(findings, SourceText(path, texts[path]))
        room = _MOST_CHARACTERS - sum(map(len, parts))
        if len(part) > room:
            part = "\n".join(_headlines(findings))
        if parts and len(part) > room:
            break
        parts.append(part)
        shown += len(findings)
    if shown < len(found):
        parts.append(f"… and {len(found) - shown} more.")
    return "\n\n".join(parts)


def _headlines(findings: Sequence[Finding]) -> list[str]:
    return [
        f"{finding.path}:{finding.line}: {finding.problem}"[:_LONGEST_LINE]
        for finding in findings
    ]


def _describe_file(findings: Sequence[Finding], source: SourceText) -> str:
    marked = {finding.line for finding in findings}
    # The empty text after the final line end is not a line.
    end = len(source.lines) - (source.lines[-1] == "")
    shown: set[int] = set()
    for line in marked:
        shown |= {
            number
            for header in source.headers(line)
            for number in header[:_HEADER_LINES]
        }
        shown |= set(range(max(1, line - _AROUND), min(end, line + _AROUND) + 1))
    rows = []
    last = 0
    for number in sorted(shown):
        if number > last + 1:
            rows.append("…")
        mark = ">" if number in marked else " "
        rows.append(
            f"{mark}{number:5d}  {source.lines[number - 1][:_LONGEST_LINE]}".rstrip()
        )
        last = number
    if last < end:
        rows.append("…")
    return "\n".join([*_headlines(findings), *rows])
