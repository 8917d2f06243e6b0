"""Whether tests show that an exercise is solved: counts from reports, and tests that must fail.

Pure. Code under test runs in the process of its tests, so it can print what it likes, write a
report, and end early: one run does not prove that a test ran. So each test gets a comparison of two
numbers at its end, and fails if, and only if, it is carried out and they are not equal.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from bench.regression.testlogs import report_results
from environments.folders import FolderResult
from exercises.exercism.languages import REPORT

_FAILED, _PASSED = ("FAILED", "ERROR"), "PASSED"
_COUNT = re.compile(
    r"^Ran (\d+) tests? in \d+\.\d+s\n\n(?:OK|FAILED)(?: \((.*)\))?$", re.MULTILINE
)
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


def counts_of(
    run: FolderResult, files: Collection[str], unittest: bool
) -> TestCounts | None:
    """Return the counts of a run of Python's tests; ``unittest`` says which runner it was."""
    return (
        unittest_counts(run.output)
        if unittest
        else pytest_counts(report_of(run), files)
    )


def failing_tests(
    run: FolderResult, files: Collection[str], unittest: bool
) -> set[str] | None:
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
        groups = {
            kind: text for kind, text in line.groupdict().items() if text is not None
        }
        for kind, text in (groups or {"passed": ""}).items():
            sums[kind] += int(text or 1)
    return TestCounts(**sums) if lines else None


def is_solved(
    run: FolderResult, counts: TestCounts | None, expected: TestCounts | None
) -> bool:
    """Return whether the command ended with 0 in time, printed something, and passed all tests.

    All are those of the example's run (``expected``): deleted, skipped or additional tests solve
    nothing.
    """
    if (
        run.timed_out
        or run.exit_code != 0
        or not run.output.strip()
        or expected is None
    ):
        return False
    return counts == expected and expected.passed > 0 and expected.failed == 0


_Test = ast.FunctionDef | ast.AsyncFunctionDef


def test_names(source: str) -> set[str]:
    return {test.name for test in _tests(source)}


def with_comparisons(source: str, false: Collection[str]) -> str:
    """Return Python tests that end with a comparison, a false one in those named in ``false``."""
    lines = source.encode().splitlines(keepends=True)
    # From the last to the first: what is inserted moves nothing that comes before it.
    for test in sorted(_tests(source), key=_end, reverse=True):
        number = 2 if test.name in false else 1
        comparison = f"{_separator(test)}assert 1 == {number}".encode()
        row, column = _end(test)
        line = lines[row - 1]
        lines[row - 1] = line[:column] + comparison + line[column:]
    return b"".join(lines).decode()


def _tests(source: str) -> list[_Test]:
    try:
        nodes = ast.walk(ast.parse(source))
    except (SyntaxError, ValueError):
        return []
    return [n for n in nodes if isinstance(n, _Test) and n.name.startswith("test")]


def _end(test: _Test) -> tuple[int, int]:
    assert test.end_lineno is not None and test.end_col_offset is not None
    return test.end_lineno, test.end_col_offset


def _separator(test: _Test) -> str:
    """Return what stands between the last statement of a test and one that follows it."""
    first = test.body[0]
    if first.lineno == test.lineno:
        return "; "
    return "\n" + " " * first.col_offset
