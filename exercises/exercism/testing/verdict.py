"""Whether tests show that an exercise is solved: counts from reports, and altered tests. Pure.

Code under test runs in the process of its tests, so it can print and write what it likes and reach
whatever judges it there: one run proves little. It cannot know which expected values are false,
unless it knows the right ones. A test without an expected literal gets a comparison of two numbers,
which shows only that the test is carried out.
"""

from __future__ import annotations

import ast
import re
import string
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from random import Random

from bench.regression.testlogs import report_results
from environments.folders import FolderResult
from exercises.exercism.languages import REPORT

_FAILED, _PASSED = ("FAILED", "ERROR"), "PASSED"
_COUNT = re.compile(r"^Ran (\d+) tests? in \d+\.\d+s\n\n(?:OK|FAILED)(?: \((.*)\))?$", re.MULTILINE)
_KIND = re.compile(r"([a-z ]+)=(\d+)")
_FAILED_UNITTEST = re.compile(r"^(?:FAIL|ERROR): (\w+) \(", re.MULTILINE)


@dataclass(frozen=True)
class TestCounts:
    __test__ = False  # the name makes pytest think that this is a test

    passed: int
    failed: int
    skipped: int = 0


def pytest_counts(report: str, files: Collection[str]) -> TestCounts | None:
    """Return the counts of pytest's JUnit report, None for an incomplete one.

    A test that is reported more than once, for example with failing subtests, counts as its worst.
    """
    found = [*report_results(report, files).values()]
    if not found:
        return None
    failed, passed = sum(status in _FAILED for status in found), found.count(_PASSED)
    return TestCounts(passed, failed, len(found) - failed - passed)


def unittest_counts(output: str) -> TestCounts | None:
    """Return the counts that unittest prints, None unless there is exactly one count."""
    found = _COUNT.findall(output)
    if len(found) != 1:
        return None
    kinds = {kind.strip(): int(number) for kind, number in _KIND.findall(found[0][1])}
    skipped = kinds.get("skipped", 0) + kinds.get("expected failures", 0)
    failed = sum(kinds.values()) - skipped
    # A failing subtest counts as a failure and not as a test.
    return TestCounts(max(0, int(found[0][0]) - failed - skipped), failed, skipped)


def report_of(run: FolderResult) -> str:
    """Return pytest's report, empty if there is none."""
    return run.files.get(REPORT, b"").decode("utf-8", "replace")


def counts_of(run: FolderResult, files: Collection[str], unittest: bool) -> TestCounts | None:
    """Return the counts of a run of Python's tests; ``unittest`` says which runner it was."""
    return unittest_counts(run.output) if unittest else pytest_counts(report_of(run), files)


def failing_tests(run: FolderResult, files: Collection[str], unittest: bool) -> set[str] | None:
    """Return the names of the functions of failing tests, None if the run did not end."""
    if run.timed_out or counts_of(run, files, unittest) is None:
        return None
    if unittest:
        return {*_FAILED_UNITTEST.findall(run.output)}
    results = report_results(report_of(run), files)
    failed = (name for name, status in results.items() if status in _FAILED)
    return {name.rpartition("::")[2].partition("[")[0] for name in failed}


def printed_counts(patterns: Iterable[str], output: str) -> TestCounts | None:
    """Return the sums of the lines that count tests (``Language.counted``), None without one."""
    lines = [m for one in patterns for m in re.finditer(one, output, re.MULTILINE)]
    sums = {"passed": 0, "failed": 0, "skipped": 0}
    for line in lines:
        groups = {kind: text for kind, text in line.groupdict().items() if text is not None}
        for kind, text in (groups or {"passed": ""}).items():
            sums[kind] += int(text or 1)
    return TestCounts(**sums) if lines else None


def is_solved(run: FolderResult, counts: TestCounts | None, expected: TestCounts | None) -> bool:
    """Return whether the command ended with 0 in time, printed something, and passed all tests.

    All are those of the example's run (``expected``): deleted, skipped or additional tests solve
    nothing.
    """
    if run.timed_out or run.exit_code != 0 or not run.output.strip() or expected is None:
        return False
    return counts == expected and expected.passed > 0 and expected.failed == 0


_EQUALITY = re.compile(r"assert(?:Is|(?!Not|Less|Greater)\w*Equals?)")
_ALIKE = (string.ascii_lowercase, string.ascii_uppercase, string.digits)
_Place = tuple[int, int, int, int]
_Test = ast.FunctionDef | ast.AsyncFunctionDef


def test_names(source: str) -> set[str]:
    return {test.name for test in _tests(source)}


def altered(source: str, false: Collection[str], chance: Random) -> str:
    """Return Python tests with a false expected value in those that are named in ``false``."""
    changes = [
        change for one in _tests(source) for change in _changes(one, chance, one.name in false)
    ]
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


def _changes(test: _Test, chance: Random, false: bool) -> Iterator[tuple[_Place, str]]:
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
