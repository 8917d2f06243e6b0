"""Tests of which some expect a false value. Pure, but for the chance that is given.

Code under test runs in the process of its tests, so it can reach whatever judges it there. It
cannot know which expected values are false, unless it knows the right ones. A test without an
expected literal gets a comparison of two numbers, which shows only that the test is carried out.
"""

from __future__ import annotations

import ast
import re
import string
from collections import Counter
from collections.abc import Collection, Iterator
from random import Random

_EQUALITY = re.compile(r"assert(?:Is|(?!Not|Less|Greater)\w*Equals?)")
_ALIKE = (string.ascii_lowercase, string.ascii_uppercase, string.digits)
_Place = tuple[int, int, int, int]
_Test = ast.FunctionDef | ast.AsyncFunctionDef


def test_names(source: str) -> set[str]:
    return {test.name for test in _tests(source)}


def altered(source: str, false: Collection[str], chance: Random) -> str:
    """Return Python tests with a false expected value in those that are named in ``false``."""
    changes = [c for t in _tests(source) for c in _changes(t, chance, false=t.name in false)]
    lines = source.encode().splitlines(keepends=True)
    for (row, column, last, end), text in sorted(changes, reverse=True):
        after = lines[last - 1][end:]
        lines[row - 1 : last] = [lines[row - 1][:column] + text.encode() + after]
    return b"".join(lines).decode()


def _tests(source: str) -> list[_Test]:
    try:
        nodes = ast.walk(ast.parse(source))
    except (SyntaxError, ValueError):
        return []
    return [n for n in nodes if isinstance(n, _Test) and n.name.startswith("test")]


def _changes(test: _Test, chance: Random, *, false: bool) -> Iterator[tuple[_Place, str]]:
    if literals := [*_expected(test)]:
        if false:
            one = chance.choice(literals)
            yield _place(one), repr(_another(one.value, chance))
        return
    number, last = chance.randrange(1000), test.body[-1]
    _, _, row, column = _place(last)
    start = "; " if last.lineno == test.lineno else "\n" + " " * last.col_offset
    yield (row, column, row, column), f"{start}assert {number} == {number + false}"


def _expected(test: _Test) -> Iterator[ast.Constant]:
    used = Counter(node.id for node in ast.walk(test) if isinstance(node, ast.Name))
    assigned = {
        node.targets[0].id: node.value
        for node in ast.walk(test)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for node in ast.walk(test):
        for literal in _literals(_compared(node)):
            if isinstance(literal, ast.Constant):
                yield literal
            elif used[literal.id] == 2 and literal.id in assigned:  # its assignment and this
                found = _literals(assigned[literal.id])
                yield from (one for one in found if isinstance(one, ast.Constant))


def _compared(node: ast.AST) -> ast.AST | None:
    """Return the side of a comparison with the expected value; by convention the second."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq):
        return node.comparators[0]
    if not isinstance(node, ast.Call) or len(node.args) < 2:
        return None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if not _EQUALITY.fullmatch(name) or any(word.arg == "delta" for word in node.keywords):
        return None
    return node.args[0] if isinstance(node.args[0], ast.Constant) else node.args[1]


def _literals(node: ast.AST | None) -> Iterator[ast.Constant | ast.Name]:
    if node is None or isinstance(node, ast.JoinedStr):
        return
    if isinstance(node, ast.Name) or (
        isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str))
    ):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _literals(child)


def _another(value: object, chance: Random) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + chance.randint(1, 9)
    text = str(value)
    places = [(n, group) for n, one in enumerate(text) for group in _ALIKE if one in group]
    if not places:
        return f"{text}a"
    place, group = chance.choice(places)
    return text[:place] + chance.choice(group.replace(text[place], "")) + text[place + 1 :]


def _place(node: ast.expr | ast.stmt) -> _Place:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
