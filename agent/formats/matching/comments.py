"""Find the comments and other prose of a file: words may differ there, identifiers may not."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agent.grammars import language_of, parser

if TYPE_CHECKING:
    from tree_sitter import Node

# A string that is a sentence, not a name: three or more plain words in one line.
_SENTENCE = re.compile(rb"(?:\b[A-Za-z]+\b[,;:]? +){2,}[A-Za-z]+")


def comment_columns(
    lines: Sequence[str], path: str, asked: Collection[int]
) -> Mapping[int, frozenset[int]]:
    """Return for each of the lines ``asked`` (from 0) the columns, in characters, that are prose.

    Prose is in comments, docstrings, and strings of one line that are sentences. A file in an
    unknown language has none.
    """
    language = language_of(path)
    if language is None:
        return {}
    encoded = [line.encode("utf-8", "surrogatepass") for line in lines]
    tree = parser(language).parse(b"\n".join(encoded))
    columns: dict[int, set[int]] = {}
    for node in _prose_nodes(tree.root_node):
        for row in asked:
            if not node.start_point.row <= row <= node.end_point.row:
                continue
            first = node.start_point.column if row == node.start_point.row else 0
            last = node.end_point.column if row == node.end_point.row else len(encoded[row])
            start = len(encoded[row][:first].decode("utf-8", "ignore"))
            end = len(encoded[row][:last].decode("utf-8", "ignore"))
            columns.setdefault(row, set()).update(range(start, end))
    return {row: frozenset(found) for row, found in columns.items()}


def _prose_nodes(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        if _is_prose(node):
            yield node
        elif not _is_string(node):
            stack += node.children


def _is_string(node: Node) -> bool:
    return node.type.startswith("string") or node.type.endswith("string_literal")


def _is_prose(node: Node) -> bool:
    if "comment" in node.type:
        return True
    if not _is_string(node):
        return False
    if node.parent is not None and node.parent.type == "expression_statement":
        return True
    one_line = node.start_point.row == node.end_point.row
    return one_line and bool(_SENTENCE.search(node.text or b""))
