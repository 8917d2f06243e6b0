"""Find definitions in a source with tree-sitter, or with a cheaper scan of their first lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.grammars import parser
from agent.repomap.scanning.languages import definitions_query

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_PARSED = 128 * 1024
MOST_PARSED_PYTHON = 40 * 1024
"""Bytes; a longer file is scanned, as its syntax tree takes a hundred times its size.

In Python the scan finds the same definitions, as indentation is syntax there; in other languages
it is a guess.
"""

_PYTHON_HEAD = re.compile(
    rb"""^((?:[ \t]*@[^\n]*\n)*)
    ([ \t]*)(?:async[ \t]+)?(class|def)[ \t]+([^\W\d]\w*)[ \t]*[(:][^\n]*""",
    re.MULTILINE | re.VERBOSE,
)
_ANY_HEAD = re.compile(
    rb"""^()([ \t]*)
    (?:(?:export|default|declare|abstract|public|private|protected|internal|static|final|pub
        (?:\([a-z ]+\))?|async|unsafe|const|virtual|inline|sealed|data)[ \t]+)*
    (class|struct|interface|enum|trait|union|module|namespace|impl|def|function|func|fn|type)
    [ \t*]+(?:\([^)\n]*\)[ \t]*|self\.)?([^\W\d]\w*)
    [^\n]*""",
    re.MULTILINE | re.VERBOSE,
)
_FUNCTIONS = (b"def", b"function", b"func", b"fn")
_OPENING = re.compile(rb"[{\n]")


@dataclass(frozen=True)
class Span:
    """Bytes ``start`` to ``end`` define ``name``; its head ends at ``body``."""

    name: str
    kind: str
    start: int
    body: int
    end: int
    decorators: tuple[str, ...] = ()


def find_spans(data: bytes, language: str) -> list[Span]:
    """Return the definitions in ``data``, outer ones before those inside them."""
    python = language == "python"
    if len(data) > (MOST_PARSED_PYTHON if python else MOST_PARSED):
        return scanned(data, _PYTHON_HEAD if python else _ANY_HEAD)
    from tree_sitter import QueryCursor

    tree = parser(language).parse(data)
    captures = QueryCursor(definitions_query(language)).captures(tree.root_node)
    spans = [_span(node, kind) for kind, nodes in captures.items() for node in nodes]
    found = {(s.start, s.end): s for s in spans if s is not None}
    return sorted(found.values(), key=lambda s: (s.start, -s.end))


def scanned(data: bytes, head_of: re.Pattern[bytes] = _ANY_HEAD) -> list[Span]:
    """Return the definitions by the form of their first lines; indentation ends them."""
    heads = list(head_of.finditer(data))
    ends = [len(data)] * len(heads)
    unfinished: list[int] = []
    for number, head in enumerate(heads):
        while unfinished and len(heads[unfinished[-1]][2]) >= len(head[2]):
            ends[unfinished.pop()] = head.start()
        unfinished.append(number)
    return [
        Span(
            _text(head[4]),
            "function" if head[3] in _FUNCTIONS else "type",
            head.end(2),
            head.end(),
            end,
            tuple(" ".join(line.split()) for line in _text(head[1]).splitlines()),
        )
        for head, end in zip(heads, ends, strict=True)
    ]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _span(node: Node, kind: str) -> Span | None:
    name = _name(node)
    if name is None or name.text is None:
        return None
    body = node.child_by_field_name("body") or node.child_by_field_name("value")
    word = re.split(r"::|\.|[<(\s]", _text(name.text))[-1]
    start, end = node.start_byte, node.end_byte
    head_end = body.start_byte if body is not None else _line_end(node)
    return Span(word, kind, start, head_end, end, _decorators(node)) if word else None


def _name(node: Node) -> Node | None:
    """Return the node of the defined name; in C it lies deep in the declarator."""
    inner: Node | None = node
    while inner is not None:
        found = inner.child_by_field_name("name") or inner.child_by_field_name("type")
        declarator = inner.child_by_field_name("declarator")
        if declarator is None:
            named = inner.type in ("identifier", "field_identifier", "type_identifier")
            return inner if named else found or _only_child(inner)
        inner = declarator
    return None


def _only_child(node: Node) -> Node:
    """Return the name inside a reference declarator, which has no field; else ``node``."""
    children = node.named_children
    return (_name(children[-1]) or node) if children else node


def _line_end(node: Node) -> int:
    """Return where the head of a definition without a body field ends."""
    text = node.text or b""
    found = _OPENING.search(text)
    return node.start_byte + (found.start() if found else len(text))


def _decorators(node: Node) -> tuple[str, ...]:
    around = node.parent
    if around is None or around.type != "decorated_definition":
        return ()
    texts = (child.text for child in around.named_children if child.type == "decorator")
    return tuple(" ".join(_text(t).split()) for t in texts if t)
