"""Find the definitions of a file, with tree-sitter or by the form of their first lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from swe_retry.agent.grammars import grammar, parser

if TYPE_CHECKING:
    from tree_sitter import Node, Query

MAX_PARSED = 128 * 1024
MAX_PARSED_PYTHON = 40 * 1024
"""Bytes; a longer file is scanned, as its syntax tree takes a hundred times its size.

In Python the scan finds the same definitions, as indentation is syntax there; in other languages
it is a guess.
"""
# Decorators, indentation, keyword and name of a definition; the name alone of a constant.
_PYTHON_HEAD = re.compile(
    rb"""^((?:[ \t]*@[^\n]*\n)*)
    ([ \t]*)(?:async[ \t]+)?(class|def)[ \t]+([^\W\d]\w*)[ \t]*[(:][^\n]*
    |^([A-Z][A-Z\d_]+)[ \t]*(?::[^\n=]*)?=(?!=)[^\n]*""",
    re.MULTILINE | re.VERBOSE,
)
# The same in other languages: modifiers come before the keyword, and Go's receiver behind it.
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
# What stands between the parts of a qualified or generic name.
_QUALIFIER_END = re.compile(r"::|\.|[<(\s]")


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
    if language == "python":
        limit = MAX_PARSED_PYTHON
        head_pattern = _PYTHON_HEAD
    else:
        limit = MAX_PARSED
        head_pattern = _ANY_HEAD
    if len(data) > limit:
        return guess_spans(data, head_pattern)
    from tree_sitter import QueryCursor

    tree = parser(language).parse(data)
    captures = QueryCursor(definitions_query(language)).captures(tree.root_node)
    spans = {}
    for kind, nodes in captures.items():
        if kind.startswith("_"):
            continue
        for node in nodes:
            span = _span(node, kind)
            if span:
                spans[span.start, -span.end] = span
    return [spans[position] for position in sorted(spans)]


def guess_spans(data: bytes, head_pattern: re.Pattern[bytes]) -> list[Span]:
    """Return the definitions by the form of their first lines; indentation ends them."""
    heads = []
    spans = []
    for head in head_pattern.finditer(data):
        if head[3]:
            heads.append(head)
        else:
            name = as_text(head[5])
            spans.append(Span(name, "constant", head.start(), head.end(), head.end()))
    ends = [len(data)] * len(heads)
    unfinished: list[int] = []
    for number, head in enumerate(heads):
        indent = len(head[2])
        while unfinished and len(heads[unfinished[-1]][2]) >= indent:
            ends[unfinished.pop()] = head.start()
        unfinished.append(number)
    for head, end in zip(heads, ends, strict=True):
        lines = as_text(head[1]).splitlines()
        decorators = [" ".join(line.split()) for line in lines]
        span = Span(
            name=as_text(head[4]),
            kind="function" if head[3] in _FUNCTIONS else "type",
            start=head.end(2),
            body=head.end(),
            end=end,
            decorators=tuple(decorators),
        )
        spans.append(span)
    return sorted(spans, key=lambda span: (span.start, -span.end))


def as_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _span(node: Node, kind: str) -> Span | None:
    """Return the span of a definition; None for a value inside a function."""
    if node.parent and node.parent.type == _BODIES.get(node.type):
        return None
    name = _name_node(node)
    if not name or not name.text:
        return None
    names = _QUALIFIER_END.split(as_text(name.text))
    if not names[-1]:
        return None
    return Span(
        name=names[-1],
        kind=kind,
        start=node.start_byte,
        body=_head_end(node),
        end=node.end_byte,
        decorators=tuple(_decorators(node)),
    )


def _head_end(node: Node) -> int:
    body = node.child_by_field_name("body") or node.child_by_field_name("value")
    if body:
        return body.start_byte
    match = _OPENING.search(node.text or b"")
    if match:
        return node.start_byte + match.start()
    return node.end_byte


def _decorators(node: Node) -> Iterator[str]:
    if node.parent and node.parent.type == "decorated_definition":
        for sibling in node.parent.named_children:
            if sibling.type == "decorator" and sibling.text:
                yield " ".join(as_text(sibling.text).split())


# The body of a function, by the kind of what it may declare.
_BODIES = {
    "declaration": "compound_statement",
    "const_item": "block",
    "static_item": "block",
}


def _name_node(node: Node) -> Node | None:
    """Return the node of the defined name; in C it lies deep in the declarator."""
    inner: Node | None = node.child_by_field_name("left") or node
    while inner:
        name = (
            inner.child_by_field_name("name")
            or inner.child_by_field_name("property")
            or inner.child_by_field_name("type")
        )
        declarator = inner.child_by_field_name("declarator")
        if not declarator:
            if inner.type in ("identifier", "field_identifier", "type_identifier"):
                return inner
            return name or _only_child(inner)
        inner = declarator
    return None


def _only_child(node: Node) -> Node:
    """Return the name inside a reference declarator, which has no field; else ``node``."""
    children = node.named_children
    if not children:
        return node
    return _name_node(children[-1]) or node


# `exports.x = …` and `module.exports.x = …`, where scripts have no `export`.
_SCRIPT = r"""
    ((assignment_expression left: (member_expression object: (_) @_object)) @constant
     (#match? @_object "^(module\\.)?exports$"))
    (class_declaration) @type
    [(function_declaration) (generator_function_declaration) (method_definition)
     (variable_declarator value: [(arrow_function) (function_expression) (class)])] @function
"""
_TYPED_SCRIPT = f"""
    {_SCRIPT}
    [(abstract_class_declaration) (interface_declaration) (type_alias_declaration)
     (enum_declaration) (internal_module)] @type
    [(function_signature) (method_signature) (abstract_method_signature)] @function
"""
_C_FUNCTIONS = """
    [(function_definition) (preproc_function_def)
     (declaration declarator: (function_declarator))
     (declaration declarator: (pointer_declarator (function_declarator)))] @function
"""
_QUERIES = {
    "python": """
        (class_definition) @type (function_definition) @function
        ((module (expression_statement (assignment left: (identifier) @_name) @constant))
         (#match? @_name "^[A-Z][A-Z0-9_]+$"))
    """,
    "c": f"""
        [(struct_specifier name: (_) body: (_)) (union_specifier name: (_) body: (_))
         (enum_specifier name: (_) body: (_)) (type_definition)] @type
        {_C_FUNCTIONS}
    """,
    "cpp": f"""
        [(class_specifier name: (_) body: (_)) (struct_specifier name: (_) body: (_))
         (union_specifier name: (_) body: (_)) (enum_specifier name: (_) body: (_))
         (namespace_definition name: (_)) (type_definition) (alias_declaration)] @type
        {_C_FUNCTIONS}
        [(field_declaration declarator: (function_declarator))
         (field_declaration declarator: (pointer_declarator (function_declarator)))
         (field_declaration declarator: (reference_declarator (function_declarator)))
         (declaration declarator: (reference_declarator (function_declarator)))] @function
    """,
    "java": """
        [(class_declaration) (interface_declaration) (enum_declaration) (record_declaration)
         (annotation_type_declaration)] @type
        [(method_declaration) (constructor_declaration)] @function
    """,
    "javascript": _SCRIPT,
    "typescript": _TYPED_SCRIPT,
    "tsx": _TYPED_SCRIPT,
    "go": """
        (type_spec) @type [(function_declaration) (method_declaration)] @function
        (source_file (const_declaration (const_spec) @constant))
    """,
    "rust": """
        [(struct_item) (union_item) (enum_item) (trait_item) (impl_item) (mod_item body: (_))
         (type_item)] @type
        [(function_item) (function_signature_item) (macro_definition)] @function
        [(const_item) (static_item)] @constant
    """,
    "ruby": """
        [(module) (class)] @type [(method) (singleton_method)] @function
        (assignment left: (constant)) @constant
    """,
    "php": """
        [(class_declaration) (interface_declaration) (trait_declaration) (enum_declaration)] @type
        [(function_definition) (method_declaration)] @function
        (const_element (name) @constant)
    """,
}


@cache
def definitions_query(language: str) -> Query:
    """Return the query of the definitions, by kind; captures with ``_`` are for its tests."""
    import tree_sitter

    query: Query = tree_sitter.Query(grammar(language), _QUERIES[language])
    return query
