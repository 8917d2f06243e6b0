"""Formats of test output with one line for each test: C, C++, TAP-like, Gradle and others. Pure.

Sources are the output of the runners themselves; docs/languages.md names the versions.
"""

from __future__ import annotations

import re

from bench.regression.parsers.base import PASSED, SKIPPED, XFAIL, ParsedOutput, ResultLines

_WORDS = {
    "pass": PASSED,
    "passed": PASSED,
    "ok": PASSED,
    "skip": SKIPPED,
    "skipped": SKIPPED,
    "ignore": SKIPPED,
    "pending": SKIPPED,
    "todo": SKIPPED,
    "disabled": SKIPPED,
    "xfail": XFAIL,
}

CTEST = ResultLines(
    re.compile(
        r"^ *\d+/\d+ Test +#\d+: (?P<name>.+?) \.*[* ]*"
        r"(?P<status>Passed|Skipped|Not Run \(Disabled\)|Not Run|Failed|Timeout|Exception: \w+"
        r"|Child aborted|Subprocess \w+|[A-Z][\w ]{2,30}?) +[\d.]+ sec"
    ),
    _WORDS | {"not run (disabled)": SKIPPED},
)
"""``ctest``; its closing line counts skipped tests as passed: ``parse_ctest``."""

_CTEST_END = re.compile(r"^\d+% tests passed, (\d+) tests? failed out of (\d+)$", re.MULTILINE)
_CTEST_SKIPPED = re.compile(r"^\t +\d+ - .* \(Skipped\)$", re.MULTILINE)

GTEST = ResultLines(
    # Under `ctest -V` the lines have the number of the test in front; output may precede them.
    re.compile(
        r"^.*?\[ +(?P<status>OK|FAILED|SKIPPED) +\] (?P<name>\S+)(?:, where .*)? \(\d+ ms\)"
    ),
    _WORDS,
    re.compile(r"^(?:\d+: )?\[ +PASSED +\] (\d+) tests?\.", re.MULTILINE),
)
AUTOMAKE = ResultLines(
    re.compile(r"^(?P<status>PASS|FAIL|XPASS|XFAIL|SKIP|ERROR): (?P<name>\S.*?)(?: \(exit.*\))?$"),
    _WORDS,
    re.compile(r"^# PASS: +(\d+)$", re.MULTILINE),
)
REDIS = ResultLines(
    re.compile(
        r"^\[(?P<status>ok|err|skip|ignore|exception)\]: (?P<name>.+?)"
        r"(?: \(\d+ m?s\)| in \S+\.tcl)?$"
    ),
    _WORDS,
)
"""The suites in Tcl of Redis and Valkey."""

BRACKETED = ResultLines(
    re.compile(r"^\[(?P<status>PASSED|FAILED|PENDING|SKIPPED|TODO|DISABLED)\] (?P<name>\S.*)$"),
    _WORDS,
)
"""jest's report as some task sets rewrite it with jq."""

SUFFIXED = ResultLines(
    re.compile(r"^(?P<name>\S.*) - (?P<status>passed|failed|pending)$"),
    _WORDS,
)
"""RSpec's report as some task sets rewrite it with jq."""

GRADLE = ResultLines(
    re.compile(r"^(?P<name>[^\s>].* > \S.*) (?P<status>PASSED|FAILED|SKIPPED)$"),
    _WORDS,
)
"""Gradle with ``testLogging``; without it, only failures have a line."""

NEXTEST = ResultLines(
    re.compile(
        r"^ +(?P<status>PASS|FAIL|LEAK|TIMEOUT|ABORT|SIG[A-Z]+)"
        r" \[ *>?[\d.]+s\] (?:\( *\d+/\d+\) )?(?P<name>\S.*)$"
    ),
    _WORDS | {"leak": PASSED},
)
PYTEST_SUMMARY = ResultLines(
    re.compile(
        r"^(?P<status>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (?P<name>[^\s:]+::.+?)(?: - .*)?$"
    ),
    _WORDS | {"xpass": PASSED},
)
PYTEST_VERBOSE = ResultLines(
    re.compile(
        r"^(?P<name>[^\s:]+\.py::.+?) (?P<status>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)"
        r"(?: \(.*\))?(?: +\[ *\d+%\])?$"
    ),
    _WORDS | {"xpass": PASSED},
)


def parse_ctest(output: str) -> ParsedOutput:
    ends = _CTEST_END.findall(output)
    passed = sum(int(tests) - int(failed) for failed, tests in ends) if ends else None
    if passed is not None:
        passed -= len(_CTEST_SKIPPED.findall(output))
    return ParsedOutput(CTEST.parse(output).results, passed=passed).checked()
