"""What a reader meets, as figures: the same ones on Python 3.11 to 3.14.

``python -m tests.measure FOLDER...`` prints a row per folder, and one for all of them.
``python -m tests.measure --dense 14 FILE...`` prints the lines with at least 14 tokens.

- tokens: names, operators, numbers and strings of code. An f-string is one token, a docstring is
  none. Neither packing nor renaming changes this size.
- per row: tokens per line of code.
- p90: the densest tenth of the lines has at least this many tokens.
- functions, classes: per 10,000 tokens.
- filler: uses of names that say nothing, per 1,000 lines of code.
- participles: the share of functions that are named by a bare participle.
- golf: per 1,000 statements, conditional expressions / comprehensions / assignments of several
  names at once.
- statement: tokens per statement. Unlike tokens per line, neither packing nor one argument a line
  changes it.
- split: the share of function signatures that take several lines although they fit into one.
- long: modules of more than 400 lines.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

NOT_PRODUCT = frozenset({"tests", "test", ".venv", "demo", "benchmarks"})
FILLER = frozenset({
    "found", "place", "places", "words", "asked", "given", "said", "told", "taken", "held",
    "whole", "known", "wanted", "kept", "shown", "one", "more", "most",
})  # fmt: skip
IRREGULAR_PARTICIPLES = frozenset({
    "said", "told", "found", "given", "taken", "held", "kept", "shown", "made", "done", "left",
    "known", "drawn", "spoken", "meant", "sent", "thrown", "spent", "bought",
})  # fmt: skip
COUNTED_TOKENS = frozenset(
    {tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING}
)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LINE_LENGTH = 88
MANY_LINES = 400


def _token_types(*names: str) -> frozenset[int]:
    """Return the token types that this Python has: f-strings have some since 3.12."""
    return frozenset(
        getattr(tokenize, name) for name in names if hasattr(tokenize, name)
    )


STRING_STARTS = _token_types("FSTRING_START", "TSTRING_START")
STRING_ENDS = _token_types("FSTRING_END", "TSTRING_END")


@dataclass
class Figures:
    """Counts over some files.

    Attributes:
        rows: the number of tokens of each line of code.
        counts: of filler names, functions, participles, classes, statements, conditionals,
            comprehensions, tuples (assignments of several names at once), signatures with
            arguments, those that are split without need, and long modules.
    """

    files: int = 0
    lines: int = 0
    rows: list[int] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, other: Figures) -> None:
        self.files += other.files
        self.lines += other.lines
        self.rows += other.rows
        self.counts += other.counts

    @property
    def tokens(self) -> int:
        return sum(self.rows)

    @property
    def per_row(self) -> float:
        return self.tokens / max(len(self.rows), 1)

    @property
    def p90(self) -> int:
        rows = sorted(self.rows) or [0]
        return rows[int(0.9 * len(rows))]

    @property
    def participles(self) -> float:
        """The percentage of functions that a bare participle names."""
        return 100 * self.counts["participles"] / max(self.counts["functions"], 1)

    def per_1000_lines(self, name: str) -> float:
        return 1_000 * self.counts[name] / max(len(self.rows), 1)

    @property
    def per_statement(self) -> float:
        """Tokens per statement."""
        return self.tokens / max(self.counts["statements"], 1)

    @property
    def split(self) -> float:
        """The percentage of signatures that are split without need."""
        return 100 * self.counts["split"] / max(self.counts["signatures"], 1)

    def per_1000_statements(self, name: str) -> float:
        return 1_000 * self.counts[name] / max(self.counts["statements"], 1)

    def per_10000_tokens(self, name: str) -> float:
        return 10_000 * self.counts[name] / max(self.tokens, 1)


def measure(root: Path, skipped: Collection[str] = NOT_PRODUCT) -> Figures:
    """Measure a file, or the files below a folder outside of ``skipped`` folders."""
    figures = Figures()
    for path in python_files(root):
        if not set(skipped).intersection(path.relative_to(root).parts[:-1]):
            figures.add(
                measure_text(path.read_text(encoding="utf-8", errors="replace"))
            )
    return figures


def python_files(root: Path) -> list[Path]:
    """Return a file, or the Python files below a folder."""
    if root.is_file():
        return [root]
    return sorted(root.rglob("*.py"))


@cache
def measure_text(text: str) -> Figures:
    """Measure a module; one that this Python cannot parse counts as nothing."""
    try:
        module = ast.parse(text)
    except SyntaxError:
        return Figures()
    figures = Figures(files=int(bool(text.strip())), lines=text.count("\n"))
    figures.counts["long"] += figures.lines > MANY_LINES
    documentation = _docstring_positions(module)
    rows: Counter[int] = Counter()
    for token in code_tokens(text):
        if token.start in documentation:
            continue
        rows[token.start[0]] += 1
        if token.type == tokenize.NAME and token.string in FILLER:
            figures.counts["filler"] += 1
    figures.rows += rows.values()
    figures.counts["filler"] += sum(
        name in FILLER for name in names_in_fstrings(module)
    )
    for node in ast.walk(module):
        figures.counts.update(_kinds(node))
    return figures


def code_tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    """Yield the tokens of code; an f-string counts as one, as it does before Python 3.12."""
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in STRING_STARTS:
            if depth == 0:
                yield token
            depth += 1
        elif token.type in STRING_ENDS:
            depth -= 1
        elif depth == 0 and token.type in COUNTED_TOKENS:
            yield token


def names_in_fstrings(module: ast.Module) -> Iterator[str]:
    """Yield the names that f-strings use."""
    nodes = {}
    for outer in ast.walk(module):
        if isinstance(outer, ast.FormattedValue):
            nodes.update({id(node): node for node in ast.walk(outer.value)})
    for node in nodes.values():
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg


def _docstring_positions(module: ast.Module) -> set[tuple[int, int]]:
    positions = set()
    for node in ast.walk(module):
        if (
            isinstance(node, DOCUMENTED)
            and ast.get_docstring(node, clean=False) is not None
        ):
            docstring = node.body[0]
            positions.add((docstring.lineno, docstring.col_offset))
    return positions


def _kinds(node: ast.AST) -> Iterator[str]:
    """Yield the names under which a node is counted."""
    if isinstance(node, ast.stmt) and not _is_text(node):
        yield "statements"
    if isinstance(node, ast.ClassDef):
        yield "classes"
    elif isinstance(node, ast.IfExp):
        yield "conditionals"
    elif isinstance(node, COMPREHENSIONS):
        yield "comprehensions"
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
        yield "tuples"
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield "functions"
        if _is_participle(node.name.strip("_")):
            yield "participles"
        if node.args.args or node.args.kwonlyargs:
            yield "signatures"
            if _is_split(node):
                yield "split"


def _is_text(node: ast.stmt) -> bool:
    """Return whether a statement is a docstring or another bare constant."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_split(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a signature takes several lines although it fits into one."""
    parts: list[ast.expr | ast.arg] = [*node.args.args, *node.args.kwonlyargs]
    returned = ""
    if node.returns:
        parts.append(node.returns)
        returned = f" -> {ast.unparse(node.returns)}"
    line = f"def {node.name}({ast.unparse(node.args)}){returned}:"
    last_line = max(part.end_lineno or 0 for part in parts)
    return last_line > node.lineno and node.col_offset + len(line) <= LINE_LENGTH


def _is_participle(name: str) -> bool:
    return "_" not in name and (name.endswith("ed") or name in IRREGULAR_PARTICIPLES)


def describe(name: str, figures: Figures) -> str:
    """Return a row of figures."""
    golf = (
        f"{figures.per_1000_statements('conditionals'):.0f} / "
        f"{figures.per_1000_statements('comprehensions'):.0f} / "
        f"{figures.per_1000_statements('tuples'):.0f}"
    )
    return (
        f"{name:24} {figures.files:4} files {figures.lines:7} lines {figures.tokens:8} tokens "
        f"{figures.per_row:5.2f} per row p90 {figures.p90:3}  "
        f"functions {figures.per_10000_tokens('functions'):5.1f} "
        f"classes {figures.per_10000_tokens('classes'):5.1f}  "
        f"filler {figures.per_1000_lines('filler'):5.1f} "
        f"participles {figures.participles:5.1f}%  golf {golf}  "
        f"statement {figures.per_statement:.1f} split {figures.split:.1f}% "
        f"long {figures.counts['long']}"
    )


def dense_lines(path: Path, least: int) -> Iterator[str]:
    """Yield the lines of a file that have at least ``least`` tokens, with their number."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    rows = Counter(token.start[0] for token in code_tokens(text))
    for row, tokens in sorted(rows.items()):
        if tokens >= least:
            yield f"{path}:{row}: {tokens:3}  {lines[row - 1].strip()}"


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--dense"]:
        _print_dense(int(arguments[1]), map(Path, arguments[2:]))
        return
    total = Figures()
    for argument in arguments:
        figures = measure(Path(argument))
        print(describe(argument, figures))
        total.add(figures)
    if len(arguments) > 1:
        print(describe("all", total))


def _print_dense(least: int, roots: Iterable[Path]) -> None:
    for root in roots:
        for path in python_files(root):
            print(*dense_lines(path, least), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
