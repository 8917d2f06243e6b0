"""Whether tests show that an exercise is solved: counts from reports, and the rule. Pure.

The code under test can print and write what it likes, so one run proves little: see
``testing/altered.py``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from bench.regression.junit import report_results

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


@dataclass(frozen=True)
class ExerciseTestRun:
    """What is left of one run of the tests.

    Attributes:
        exit_code: None if a signal or the time limit ended it.
        report: pytest's; empty if there is none.
        unittest: the unittest command ran.
    """

    __test__ = False

    exit_code: int | None
    timed_out: bool
    output: str
    report: str
    unittest: bool = False


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


def counts_of(run: ExerciseTestRun, files: Collection[str]) -> TestCounts | None:
    if run.unittest:
        return unittest_counts(run.output)
    return pytest_counts(run.report, files)


def failing_tests(run: ExerciseTestRun, files: Collection[str]) -> set[str] | None:
    """Return the names of the functions of failing tests, None if the run did not end."""
    if run.timed_out or counts_of(run, files) is None:
        return None
    if run.unittest:
        return {*_FAILED_UNITTEST.findall(run.output)}
    results = report_results(run.report, files)
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


def is_solved(run: ExerciseTestRun, counts: TestCounts | None, expected: TestCounts | None) -> bool:
    """Tell whether an exercise is solved.

    It is where the command ended with 0 in time and printed something, and all the tests of the
    example's run (``expected``) ran, and none failed. So deleted, skipped or additional tests
    solve nothing.
    """
    if run.timed_out or run.exit_code != 0 or not run.output.strip() or expected is None:
        return False
    return counts == expected and expected.passed > 0 and expected.failed == 0
