"""Which parts of a file are comments and strings: words there may differ, identifiers may not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tree_sitter import Node

from agent.grammars import language_of, parser

_PROSE = ("comment", "string")


def prose_columns(lines: Sequence[str], path: str) -> Mapping[int, frozenset[int]]:
    """Return for each line (from 0) the columns, in characters, that lie in prose.

    A file of an unknown language is code from end to end.
    """
    language = language_of(path)
    if language is None:
        return {}
    encoded = [line.encode("utf-8", "surrogatepass") for line in lines]
    tree = parser(language).parse(b"\n".join(encoded))
    columns: dict[int, set[int]] = {}
    for node in _prose_nodes(tree.root_node):
        for row in range(node.start_point.row, node.end_point.row + 1):
            first = node.start_point.column if row == node.start_point.row else 0
            last = node.end_point.column if row == node.end_point.row else len(encoded[row])
            start = len(encoded[row][:first].decode("utf-8", "ignore"))
            end = len(encoded[row][:last].decode("utf-8", "ignore"))
            columns.setdefault(row, set()).update(range(start, end))
    return {row: frozenset(found) for row, found in columns.items()}


def _prose_nodes(root: Node) -> list[Node]:
    found, stack = [], [root]
    while stack:
        node = stack.pop()
        if node.type.startswith(_PROSE) or node.type.endswith(_PROSE):
            found.append(node)
        else:
            stack += node.children
    return found
