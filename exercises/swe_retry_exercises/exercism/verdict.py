"""Whether tests show that an exercise is solved: counts from reports, and tests that must fail.

Pure. Code under test runs in the process of its tests, so it can print what it likes, write a
report, and end early: one run does not prove that a test ran. So each test gets a comparison of two
numbers at its end, and fails if, and only if, it is carried out and they are not equal.
"""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from swe_retry.kit import FolderResult, failed_test_names, report_results
from swe_retry_exercises.exercism.languages import REPORT

_COUNT = re.compile(
    r"^Ran (\d+) tests? in \d+\.\d+s\n\n(?:OK|FAILED)(?: \((.*)\))?$", re.MULTILINE
)
_KIND = re.compile(r"([a-z ]+)=(\d+)")
_FAILED_UNITTEST = re.compile(r"^(?:FAIL|ERROR): (\w+) \(", re.MULTILINE)
# Python 3.11 may raise SystemError where threads parse at once (CPython issue 106905).
_PARSING = threading.Lock()
_Test = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class TestCounts:
    __test__ = False  # the name makes pytest think that this is a test

    passed: int
    failed: int
    skipped: int = 0


def python_counts(
    run: FolderResult,
    files: Collection[str],
    unittest: bool,
) -> TestCounts | None:
    """Return the counts of a run of Python's tests, None without a credible report."""
    if unittest:
        return unittest_counts(run.output)
    return pytest_counts(_report(run), files)


def pytest_counts(report: str, files: Collection[str]) -> TestCounts | None:
    """Return the counts of pytest's JUnit report, None for an incomplete one.

    A test that is reported more than once, for example with failing subtests, counts as its worst.
    """
    results = report_results(report, files)
    if not results:
        return None
    failed = len(failed_test_names(results))
    passed = list(results.values()).count("PASSED")
    return TestCounts(
        passed,
        failed,
        len(results) - failed - passed,
    )


def unittest_counts(output: str) -> TestCounts | None:
    """Return the counts that unittest prints, None unless there is exactly one count."""
    lines = _COUNT.findall(output)
    if len(lines) != 1:
        return None
    ran, remarks = lines[0]
    failed = 0
    skipped = 0
    for kind, number in _KIND.findall(remarks):
        if kind.strip() in ("skipped", "expected failures"):
            skipped += int(number)
        else:
            failed += int(number)
    # A failing subtest counts as a failure and not as a test.
    return TestCounts(
        max(0, int(ran) - failed - skipped),
        failed,
        skipped,
    )


def printed_counts(patterns: Iterable[str], output: str) -> TestCounts | None:
    """Return the sums of the lines that count tests (``Language.counted``), None without one."""
    sums = {"passed": 0, "failed": 0, "skipped": 0}
    lines = 0
    for pattern in patterns:
        for line in re.finditer(
            pattern,
            output,
            re.MULTILINE,
        ):
            lines += 1
            if not any(match is not None for match in line.groups()):
                sums["passed"] += 1
            for kind, text in line.groupdict().items():
                if text is not None:
                    sums[kind] += int(text or 1)
    return TestCounts(**sums) if lines else None


def failing_tests(
    run: FolderResult,
    files: Collection[str],
    unittest: bool,
) -> set[str] | None:
    """Return the names of the functions of failing tests, None if the run did not end."""
    if run.timed_out or python_counts(run, files, unittest) is None:
        return None
    if unittest:
        return set(_FAILED_UNITTEST.findall(run.output))
    names = failed_test_names(report_results(_report(run), files))
    return {name.rpartition("::")[2].partition("[")[0] for name in names}


def _report(run: FolderResult) -> str:
    return run.files.get(REPORT, b"").decode(
        "utf-8",
        "replace",
    )


def is_solved(
    run: FolderResult,
    counts: TestCounts | None,
    expected: TestCounts | None,
) -> bool:
    """Return whether the command ended with 0 in time, printed something, and passed all tests.

    All are those of the example's run (``expected``): deleted, skipped or additional tests solve
    nothing.
    """
    if run.timed_out or run.exit_code != 0 or not run.output.strip():
        return False
    if expected is None or not expected.passed or expected.failed:
        return False
    return counts == expected


def test_names(source: str) -> set[str]:
    return {test.name for test in _tests(source)}


def with_comparisons(source: str, false: Collection[str]) -> str:
    """Return Python tests that end with a comparison, a false one in those named in ``false``."""
    lines = source.encode().splitlines(keepends=True)
    # From the last to the first: what is inserted moves nothing that comes before it.
    for test in sorted(
        _tests(source),
        key=_end,
        reverse=True,
    ):
        separator = "\n" + " " * test.body[0].col_offset
        if test.body[0].lineno == test.lineno:
            separator = "; "
        number = 2 if test.name in false else 1
        row, column = _end(test)
        line = lines[row - 1]
        comparison = f"{separator}assert 1 == {number}".encode()
        lines[row - 1] = line[:column] + comparison + line[column:]
    return b"".join(lines).decode()


def _tests(source: str) -> list[_Test]:
    tests = []
    try:
        with _PARSING:
            tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    for node in ast.walk(tree):
        if isinstance(node, _Test) and node.name.startswith("test"):
            tests.append(node)
    return tests


def _end(test: _Test) -> tuple[int, int]:
    return test.end_lineno or 0, test.end_col_offset or 0
