"""Tags by git blob hash in one SQLite file, shared by checkouts, instances and processes."""

from __future__ import annotations

import re
import sqlite3
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from swe_retry.agent.grammars import grammar, grammars_version, language_of, parser
from swe_retry.agent.repomap.scanning.tags import (
    IDENTIFIER,
    SCANNER,
    Definition,
    FileTags,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Query

_BATCH = 200
# Indexes of whole trees take up to 10 MB and soon expire: a run needs only its own trees.
_MAX_TREES = 8
# Maps as texts take about 8 kB each.
_MAX_TEXTS = 4096
_SCHEMA = """
CREATE TABLE IF NOT EXISTS blobs (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS trees (tree TEXT, part TEXT, value BLOB, UNIQUE (tree, part));
CREATE TABLE IF NOT EXISTS texts (key TEXT PRIMARY KEY, value BLOB);
"""
_INSERT = "INSERT OR REPLACE INTO blobs VALUES (?, ?)"
_DELETE_TREES = """
DELETE FROM trees WHERE tree NOT IN
(SELECT tree FROM trees GROUP BY tree ORDER BY max(rowid) DESC LIMIT ?)
"""
_DELETE_TEXTS = "DELETE FROM texts WHERE rowid <= (SELECT max(rowid) FROM texts) - ?"
_Statement = tuple[str, tuple[object, ...]]


@dataclass(frozen=True)
class TagStore:
    """A cache that may be lost, damaged or read-only at any time, which only costs time."""

    path: Path
    _lock: Lock = field(default_factory=Lock, compare=False)

    def tags(
        self, blobs: Mapping[str, str], root: Path
    ) -> Iterator[tuple[str, FileTags]]:
        """Yield path and tags for ``blobs`` (path to hash) in no order; ``root`` has the files.

        Only the tags of one file are in memory: those of a large repository take much.
        """
        languages = {}
        paths_by_key: dict[str, list[str]] = {}
        for path, blob in sorted(blobs.items()):
            language = language_of(path)
            if language:
                key = f"{SCANNER}:{grammars_version()}:{language}:{blob}"
                languages[key] = language
                paths_by_key.setdefault(key, []).append(path)
        stored_keys = set()
        for batch in _batches(sorted(paths_by_key)):
            marks = ",".join("?" * len(batch))
            query = f"SELECT key, value FROM blobs WHERE key IN ({marks})"
            for key, value in self._query(query, batch):
                try:
                    tags = FileTags.unpack(value)
                except ValueError:
                    continue
                stored_keys.add(key)
                for path in paths_by_key[key]:
                    yield path, tags
        missing = [key for key in sorted(paths_by_key) if key not in stored_keys]
        for batch in _batches(missing):
            inserts = []
            for key in batch:
                paths = paths_by_key[key]
                data = b""
                with suppress(OSError):
                    data = (root / paths[0]).read_bytes()
                tags = scan(data, languages[key])
                inserts.append((_INSERT, (key, tags.pack())))
                for path in paths:
                    yield path, tags
            self._save(inserts)

    def tree(self, key: str) -> dict[str, bytes]:
        """Return the parts that ``keep_tree`` stored for ``key``; none without them."""
        return dict(self._query("SELECT part, value FROM trees WHERE tree = ?", [key]))

    def keep_tree(self, key: str, parts: Iterable[tuple[str, bytes]]) -> None:
        self._save(_tree_statements(key, parts))

    def text(self, key: str) -> str | None:
        """Return the text that ``keep_text`` stored for ``key``, None without it."""
        rows = self._query("SELECT key, value FROM texts WHERE key = ?", [key])
        if not rows:
            return None
        try:
            return rows[0][1].decode("utf-8", "surrogatepass")
        except (UnicodeError, AttributeError):
            return None

    def keep_text(self, key: str, text: str) -> None:
        row = (key, text.encode("utf-8", "surrogatepass"))
        insert = "INSERT OR REPLACE INTO texts VALUES (?, ?)"
        self._save([(insert, row), (_DELETE_TEXTS, (_MAX_TEXTS,))])

    def _query(self, query: str, values: list[str]) -> list[tuple[str, bytes]]:
        try:
            if not self.path.is_file():
                return []
            with closing(sqlite3.connect(self.path, timeout=60)) as database:
                return list(database.execute(query, values))
        except (sqlite3.Error, OSError):
            return []

    def _save(self, statements: Iterable[_Statement]) -> None:
        with suppress(sqlite3.Error, OSError), self._lock, self._writer:
            for statement, values in statements:
                self._writer.execute(statement, values)

    @cached_property
    def _writer(self) -> sqlite3.Connection:
        # It stays open: the last one that closes waits until the disk has everything.
        self.path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self.path, timeout=60, check_same_thread=False)
        database.execute("PRAGMA journal_mode=WAL")
        # A loss of power may take the newest rows, and leaves the others whole.
        database.execute("PRAGMA synchronous=NORMAL")
        database.executescript(_SCHEMA)
        return database


def _tree_statements(
    key: str, parts: Iterable[tuple[str, bytes]]
) -> Iterator[_Statement]:
    yield "DELETE FROM trees WHERE tree = ?", (key,)
    for part, value in parts:
        yield "INSERT INTO trees VALUES (?, ?, ?)", (key, part, value)
    yield _DELETE_TREES, (_MAX_TREES,)


def _batches(keys: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(keys), _BATCH):
        yield keys[start : start + _BATCH]


_MAX_BYTES = 4_000_000
_MAX_HEAD = 160
_MAX_DOC = 120
# The first line of a docstring behind the colon of a head, with or without a prefix.
_DOCSTRING = re.compile(rb"[:\s]*[rRuUbB]{0,2}(?:\"\"\"|'''|\"|')\\?\s*([^\n\"]+)")
_TRAILING_COMMENT = re.compile(r":\s*#.*$")
# A line of a comment: //, ///, //!, /*, a star inside /* */, or # where that is a comment.
_COMMENT = re.compile(r"^\s*(?:///?!?|/\*+|\*+|#+)\s*(.*?)\s*(?:\*+/)?\s*$")
_HASH_COMMENTS = ("ruby", "php")
_ATTRIBUTE = "#["


def scan(data: bytes, language: str) -> FileTags:
    """Return the tags of ``data``; binary files and files above four megabytes have none."""
    if len(data) > _MAX_BYTES or b"\0" in data:
        return FileTags()
    spans = find_spans(data, language)
    line_lengths = (len(line) + 1 for line in data.split(b"\n"))
    line_starts = list(accumulate(line_lengths, initial=0))
    parents = _parents(spans)
    definitions = []
    for span, parent in zip(spans, parents, strict=True):
        if language == "python":
            doc = _docstring(data, span)
        else:
            doc = _comment_above(data, line_starts, span, language)
        last_byte = max(span.start, span.end - 1)
        definition = Definition(
            name=span.name,
            kind=span.kind,
            first=bisect_right(line_starts, span.start),
            last=bisect_right(line_starts, last_byte),
            parent=parent,
            signature=_one_line(data[span.start : span.body], _MAX_HEAD),
            decorators=span.decorators,
            doc=doc,
        )
        definitions.append(definition)
    counts: list[Counter[str]] = [Counter() for _ in range(len(spans) + 1)]
    for owner, start, end in _segments(len(data), spans, parents):
        text = _text(data[start:end])
        counts[owner + 1].update(IDENTIFIER.findall(text))
    return FileTags(tuple(definitions), tuple(map(dict, counts)))


def _parents(spans: Sequence[Span]) -> list[int]:
    """Return the index of the span around each span, -1 for none."""
    parents: list[int] = []
    parent = -1
    for number, span in enumerate(spans):
        while parent >= 0 and spans[parent].end <= span.start:
            parent = parents[parent]
        parents.append(parent)
        parent = number
    return parents


def _segments(
    length: int,
    spans: Sequence[Span],
    parents: Sequence[int],
) -> Iterator[tuple[int, int, int]]:
    """Yield the innermost span of each part of a file, -1 for none, with the part's ends."""
    owner = -1
    position = 0
    starts = [span.start for span in spans]
    for number, start in enumerate([*starts, length]):
        while owner >= 0 and spans[owner].end <= start:
            yield owner, position, spans[owner].end
            position = spans[owner].end
            owner = parents[owner]
        yield owner, position, start
        position = start
        owner = number


def _docstring(data: bytes, span: Span) -> str:
    end = min(span.end, span.body + 1000)
    match = _DOCSTRING.match(data, span.body, end)
    if not match:
        return ""
    return _one_line(match[1], _MAX_DOC)


def _comment_above(
    data: bytes,
    line_starts: Sequence[int],
    span: Span,
    language: str,
) -> str:
    """Return the first line of the comment that ends above ``span`` and its attributes."""
    doc = ""
    first = bisect_right(line_starts, span.start)
    for number in range(first - 1, 0, -1):
        start = line_starts[number - 1]
        end = line_starts[number]
        line = _text(data[start:end]).lstrip()
        if line.startswith(_ATTRIBUTE):
            continue
        is_directive = line.startswith("#") and language not in _HASH_COMMENTS
        match = _COMMENT.match(line)
        if not match or is_directive:
            break
        doc = match[1] or doc
    return " ".join(doc[:_MAX_DOC].split())


def _one_line(data: bytes, limit: int) -> str:
    text = _text(data[: 4 * limit])
    text = " ".join(text.split())
    text = _TRAILING_COMMENT.sub("", text)
    return text[:limit].rstrip(" :{=;")


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
            name = _text(head[5])
            spans.append(Span(name, "constant", head.start(), head.end(), head.end()))
    ends = [len(data)] * len(heads)
    unfinished: list[int] = []
    for number, head in enumerate(heads):
        indent = len(head[2])
        while unfinished and len(heads[unfinished[-1]][2]) >= indent:
            ends[unfinished.pop()] = head.start()
        unfinished.append(number)
    for head, end in zip(heads, ends, strict=True):
        lines = _text(head[1]).splitlines()
        decorators = [" ".join(line.split()) for line in lines]
        span = Span(
            name=_text(head[4]),
            kind="function" if head[3] in _FUNCTIONS else "type",
            start=head.end(2),
            body=head.end(),
            end=end,
            decorators=tuple(decorators),
        )
        spans.append(span)
    return sorted(spans, key=lambda span: (span.start, -span.end))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _span(node: Node, kind: str) -> Span | None:
    """Return the span of a definition; None for a value inside a function."""
    if node.parent and node.parent.type == _BODIES.get(node.type):
        return None
    name = _name_node(node)
    if not name or not name.text:
        return None
    names = _QUALIFIER_END.split(_text(name.text))
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
                yield " ".join(_text(sibling.text).split())


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
