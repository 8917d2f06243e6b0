"""Tags by git blob hash in one SQLite file, shared by checkouts, instances and processes."""

from __future__ import annotations

import re
import sqlite3
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING

from agent.grammars import grammar, grammars_version, language_of, parser
from agent.repomap.scanning.tags import IDENTIFIER, SCANNER, Definition, FileTags

if TYPE_CHECKING:
    from tree_sitter import Node, Query

_BATCH = 200
# Indexes of whole trees take up to 10 MB and soon expire: a run needs only its own trees.
_TREES_KEPT = 8
# Maps as texts take about 8 kB each.
_TEXTS_KEPT = 4096
_SCHEMA = """
CREATE TABLE IF NOT EXISTS blobs (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS trees (tree TEXT, part TEXT, value BLOB, UNIQUE (tree, part));
CREATE TABLE IF NOT EXISTS texts (key TEXT PRIMARY KEY, value BLOB);
"""
_INSERT = "INSERT OR REPLACE INTO blobs VALUES (?, ?)"
_FORGET = """
DELETE FROM trees WHERE tree NOT IN
(SELECT tree FROM trees GROUP BY tree ORDER BY max(rowid) DESC LIMIT ?)
"""
_FORGET_TEXTS = "DELETE FROM texts WHERE rowid <= (SELECT max(rowid) FROM texts) - ?"


@dataclass(frozen=True)
class TagStore:
    """A cache that may be lost, damaged or read-only at any time, which only costs time."""

    path: Path

    def tags(
        self, blobs: Mapping[str, str], root: Path
    ) -> Iterator[tuple[str, FileTags]]:
        """Yield path and tags for ``blobs`` (path to hash) in no order; ``root`` has the files.

        Only the tags of one file are in memory: those of a large repository take much.
        """
        languages = {path: language_of(path) for path in blobs}
        wanted = {
            path: f"{SCANNER}:{grammars_version()}:{lang}:{blobs[path]}"
            for path, lang in languages.items()
            if lang
        }
        found: set[str] = set()
        by_key: dict[str, list[str]] = {}
        for path, key in sorted(wanted.items()):
            by_key.setdefault(key, []).append(path)
        for batch in _batches(sorted(by_key)):
            marks = ",".join("?" * len(batch))
            query = f"SELECT key, value FROM blobs WHERE key IN ({marks})"
            for key, value in self._query(query, batch):
                with suppress(ValueError):
                    tags = FileTags.unpack(value)
                    found.add(key)
                    yield from ((path, tags) for path in by_key[key])
        missing = [key for key in sorted(by_key) if key not in found]
        if not missing:
            return
        for batch in _batches(missing):
            rows = []
            for key in batch:
                first = by_key[key][0]
                data = b""
                with suppress(OSError):
                    data = (root / first).read_bytes()
                tags = scan(data, languages[first] or "")
                rows.append((key, tags.pack()))
                yield from ((path, tags) for path in by_key[key])
            self._save((_INSERT, row) for row in rows)

    def tree(self, key: str) -> dict[str, bytes]:
        """Return the parts that ``keep_tree`` stored for ``key``; none without them."""
        return dict(self._query("SELECT part, value FROM trees WHERE tree = ?", [key]))

    def keep_tree(self, key: str, parts: Iterable[tuple[str, bytes]]) -> None:
        insert = "INSERT INTO trees VALUES (?, ?, ?)"
        rows = ((insert, (key, part, value)) for part, value in parts)
        delete = ("DELETE FROM trees WHERE tree = ?", (key,))
        self._save(chain([delete], rows, [(_FORGET, (_TREES_KEPT,))]))

    def text(self, key: str) -> str | None:
        """Return the text that ``keep_text`` stored for ``key``, None without it."""
        found = self._query("SELECT key, value FROM texts WHERE key = ?", [key])
        with suppress(UnicodeError, AttributeError):
            return found[0][1].decode("utf-8", "surrogatepass") if found else None
        return None

    def keep_text(self, key: str, text: str) -> None:
        row = (key, text.encode("utf-8", "surrogatepass"))
        insert = "INSERT OR REPLACE INTO texts VALUES (?, ?)"
        self._save([(insert, row), (_FORGET_TEXTS, (_TEXTS_KEPT,))])

    def _query(self, query: str, values: list[str]) -> list[tuple[str, bytes]]:
        try:
            if not self.path.is_file():
                return []
            with closing(sqlite3.connect(self.path, timeout=60)) as database:
                return list(database.execute(query, values))
        except (sqlite3.Error, OSError):
            return []

    def _save(self, statements: Iterable[tuple[str, tuple[object, ...]]]) -> None:
        with suppress(sqlite3.Error, OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=60)) as database, database:
                database.execute("PRAGMA journal_mode=WAL")
                database.executescript(_SCHEMA)
                for statement, values in statements:
                    database.execute(statement, values)


def _batches(keys: list[str]) -> Iterator[list[str]]:
    return (keys[start : start + _BATCH] for start in range(0, len(keys), _BATCH))


_MOST_BYTES = 4_000_000
_LONGEST_HEAD = 160
_LONGEST_DOC = 120
_DOCSTRING = re.compile(rb"[:\s]*[rRuUbB]{0,2}(?:\"\"\"|'''|\"|')\\?\s*([^\n\"]+)")
_TRAILING_COMMENT = re.compile(r":\s*#.*$")
_COMMENT = re.compile(r"^\s*(?:///?!?|/\*+|\*+|#+)\s*(.*?)\s*(?:\*+/)?\s*$")


def scan(data: bytes, language: str) -> FileTags:
    """Return the tags of ``data``; binary files and files above four megabytes have none."""
    if len(data) > _MOST_BYTES or b"\0" in data:
        return FileTags()
    spans = find_spans(data, language)
    lines = list(accumulate((len(line) + 1 for line in data.split(b"\n")), initial=0))
    parents = _parents(spans)
    python = language == "python"
    definitions = tuple(
        Definition(
            span.name,
            span.kind,
            bisect_right(lines, span.start),
            bisect_right(lines, max(span.start, span.end - 1)),
            parent,
            _one_line(data[span.start : span.body], _LONGEST_HEAD),
            span.decorators,
            _docstring(data, span) if python else _comment_above(data, lines, span),
        )
        for span, parent in zip(spans, parents, strict=True)
    )
    counts: list[Counter[str]] = [Counter() for _ in range(len(spans) + 1)]
    for owner, start, end in _segments(len(data), spans, parents):
        counts[owner + 1].update(
            IDENTIFIER.findall(data[start:end].decode("utf-8", "replace"))
        )
    return FileTags(definitions, tuple(map(dict, counts)))


def _parents(spans: Sequence[Span]) -> list[int]:
    parents, around = [], list[int]()
    for number, span in enumerate(spans):
        while around and spans[around[-1]].end <= span.start:
            around.pop()
        parents.append(around[-1] if around else -1)
        around.append(number)
    return parents


def _segments(
    length: int, spans: Sequence[Span], parents: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    owner, at = -1, 0
    for number, span in enumerate(spans):
        while owner >= 0 and spans[owner].end <= span.start:
            yield owner, at, spans[owner].end
            at, owner = spans[owner].end, parents[owner]
        yield owner, at, span.start
        at, owner = span.start, number
    while owner >= 0:
        yield owner, at, spans[owner].end
        at, owner = spans[owner].end, parents[owner]
    yield -1, at, length


def _docstring(data: bytes, span: Span) -> str:
    found = _DOCSTRING.match(data, span.body, min(span.end, span.body + 1000))
    return _one_line(found[1], _LONGEST_DOC) if found else ""


def _comment_above(data: bytes, lines: Sequence[int], span: Span) -> str:
    doc = ""
    for number in range(bisect_right(lines, span.start) - 1, 0, -1):
        line = data[lines[number - 1] : lines[number]].decode("utf-8", "replace")
        found = _COMMENT.match(line)
        if found is None:
            break
        doc = found[1] or doc
    return " ".join(doc[:_LONGEST_DOC].split())


def _one_line(data: bytes, longest: int) -> str:
    text = " ".join(data[: 4 * longest].decode("utf-8", "replace").split())
    return _TRAILING_COMMENT.sub("", text)[:longest].rstrip(" :{=;")


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
    word = re.split(r"::|\.|[<(\s]", _text(name.text))[-1]
    if not word:
        return None
    body = node.child_by_field_name("body") or node.child_by_field_name("value")
    if body is not None:
        head_end = body.start_byte
    else:
        found = _OPENING.search(node.text or b"")
        head_end = node.start_byte + found.start() if found else node.end_byte
    marks: list[str] = []
    if node.parent is not None and node.parent.type == "decorated_definition":
        siblings = node.parent.named_children
        texts = [
            sibling.text or b"" for sibling in siblings if sibling.type == "decorator"
        ]
        marks = [" ".join(_text(text).split()) for text in texts if text]
    return Span(word, kind, node.start_byte, head_end, node.end_byte, tuple(marks))


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


_SCRIPT = """
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
_C_FUNCTIONS = "[(function_definition) (preproc_function_def)] @function"
_QUERIES = {
    "python": "(class_definition) @type (function_definition) @function",
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
    """,
    "java": """
        [(class_declaration) (interface_declaration) (enum_declaration) (record_declaration)
         (annotation_type_declaration)] @type
        [(method_declaration) (constructor_declaration)] @function
    """,
    "javascript": _SCRIPT,
    "typescript": _TYPED_SCRIPT,
    "tsx": _TYPED_SCRIPT,
    "go": "(type_spec) @type [(function_declaration) (method_declaration)] @function",
    "rust": """
        [(struct_item) (union_item) (enum_item) (trait_item) (impl_item) (mod_item body: (_))
         (type_item)] @type
        [(function_item) (function_signature_item) (macro_definition)] @function
    """,
    "ruby": "[(module) (class)] @type [(method) (singleton_method)] @function",
    "php": """
        [(class_declaration) (interface_declaration) (trait_declaration) (enum_declaration)] @type
        [(function_definition) (method_declaration)] @function
    """,
}


@cache
def definitions_query(language: str) -> Query:
    """Return the query whose captures ``type`` and ``function`` are the definitions."""
    import tree_sitter

    query: Query = tree_sitter.Query(grammar(language), _QUERIES[language])
    return query
