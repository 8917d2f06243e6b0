"""ctest, GoogleTest and other formats with one line for each test, of C, C++ and scripts. Pure.

Sources are the output of the runners themselves; docs/languages.md names the versions.
"""

from __future__ import annotations

import re

from bench.regression.runners.base import (
    PASSED,
    SKIPPED,
    STATUS_WORDS,
    ParsedOutput,
    ResultLines,
    Runner,
    support_of,
    worst_statuses,
)

_CTEST = ResultLines(
    re.compile(
        r"^ *\d+/\d+ Test +#\d+: (?P<name>.+?) \.*[* ]*"
        r"(?P<status>Passed|Skipped|Not Run \(Disabled\)|Not Run|Failed|Timeout|Exception: \w+"
        r"|Child aborted|Subprocess \w+|[A-Z][\w ]{2,30}?) +[\d.]+ sec"
    ),
    STATUS_WORDS | {"not run (disabled)": SKIPPED},
)
_CTEST_END = re.compile(
    r"^\d+% tests passed, (\d+) tests? failed out of (\d+)$", re.MULTILINE
)
_CTEST_SKIPPED = re.compile(r"^\t +\d+ - .* \(Skipped\)$", re.MULTILINE)
GTEST = ResultLines(
    # Under `ctest -V` the lines have the number of the test in front; output may precede them.
    re.compile(
        r"^.*?\[ +(?P<status>OK|FAILED|SKIPPED) +\] (?P<name>\S+)(?:, where .*)? \(\d+ ms\)"
    ),
    STATUS_WORDS,
    re.compile(r"^(?:\d+: )?\[ +PASSED +\] (\d+) tests?\.", re.MULTILINE),
)
AUTOMAKE = ResultLines(
    re.compile(
        r"^(?P<status>PASS|FAIL|XPASS|XFAIL|SKIP|ERROR): (?P<name>\S.*?)(?: \(exit.*\))?$"
    ),
    STATUS_WORDS,
    re.compile(r"^# PASS: +(\d+)$", re.MULTILINE),
)
REDIS = ResultLines(
    re.compile(
        r"^\[(?P<status>ok|err|skip|ignore|exception)\]: (?P<name>.+?)"
        r"(?: \(\d+ m?s\)| in \S+\.tcl)?$"
    ),
    STATUS_WORDS,
)
"""The suites in Tcl of Redis and Valkey."""
PYTEST_SUMMARY = ResultLines(
    re.compile(
        r"^(?P<status>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (?P<name>[^\s:]+::.+?)(?: - .*)?$"
    ),
    STATUS_WORDS | {"xpass": PASSED},
)
PYTEST_VERBOSE = ResultLines(
    re.compile(
        r"^(?P<name>[^\s:]+\.py::.+?) (?P<status>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)"
        r"(?: \(.*\))?(?: +\[ *\d+%\])?$"
    ),
    STATUS_WORDS | {"xpass": PASSED},
)


def parse_ctest(output: str) -> ParsedOutput:
    """Parse ``ctest``, whose closing line counts skipped tests as passed."""
    results = _CTEST.parse(output).results
    ends = _CTEST_END.findall(output)
    if not ends:
        return ParsedOutput(results)
    passed = -len(_CTEST_SKIPPED.findall(output))
    for failed, tests in ends:
        passed += int(tests) - int(failed)
    return ParsedOutput(results, passed=passed).if_consistent()


def parse_native(output: str) -> ParsedOutput:
    """Parse the output of ctest, each test of which may hold many tests of GoogleTest."""
    tests = parse_ctest(output).results
    inner_tests = GTEST.parse(output).results
    pairs = [*tests.items(), *inner_tests.items()]
    return ParsedOutput(worst_statuses(pairs))


OTHERS = (AUTOMAKE.parse, REDIS.parse, PYTEST_SUMMARY.parse, PYTEST_VERBOSE.parse)
"""Parsers of formats that only scripts print."""

CTEST = support_of(Runner.CTEST, parsers=(parse_native,))
