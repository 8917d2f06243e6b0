"""A source text: its lines, and the definitions around a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from agent.grammars import language_of, parser

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

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
        found = tuple(_headers(self._tree.root_node, number - 1)) if self._tree else ()
        if not found and self._tree and self._tree.root_node.has_error:
            return tuple(self._less_indented(number))
        return found

    def _less_indented(self, number: int) -> list[range]:
        found: list[range] = []
        width = _indentation(self.lines[number - 1]) if number <= len(self.lines) else 0
        for above in range(min(number - 1, len(self.lines)), 0, -1):
            line = self.lines[above - 1]
            if line.strip(" \t})];") and _indentation(line) < width:
                width = _indentation(line)
                found.insert(0, range(above, above + 1))
        return found


def encoded(text: str) -> bytes:
    """Return ``text`` as bytes for the parser, also with lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _headers(root: Node, row: int) -> Iterator[range]:
    node: Node | None = root
    while node is not None:
        body = node.child_by_field_name("body")
        if body is not None and _DEFINITION.search(node.type) and node.start_point.row < row:
            before = body.prev_sibling
            last = before.end_point.row if before is not None else 0
            last = max(node.start_point.row, last)
            yield range(node.start_point.row + 1, min(last, row - 1) + 2)
        around = (c for c in node.children if c.start_point.row <= row <= c.end_point.row)
        node = next((child for child in around if child.child_count > 0), None)
