"""ctest, GoogleTest and other formats with one line for each test, of C, C++ and scripts. Pure.

Sources are the output of the runners themselves; docs/languages.md names the versions.
"""

from __future__ import annotations

import re

from swe_retry.frameworks.results import FORMATS, ParsedOutput, worst_statuses
from swe_retry.frameworks.support import Runner, support_of

_CTEST_END = re.compile(r"(?m)^\d+% tests passed, (\d+) tests? failed out of (\d+)$")
_CTEST_SKIPPED = re.compile(r"(?m)^\t +\d+ - .* \(Skipped\)$")


def parse_ctest(output: str) -> ParsedOutput:
    """Parse ``ctest``, whose closing line counts skipped tests as passed."""
    results = FORMATS["ctest"].parse(output).results
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
    inner_tests = FORMATS["gtest"].parse(output).results
    pairs = [*tests.items(), *inner_tests.items()]
    return ParsedOutput(worst_statuses(pairs))


OTHERS = (
    FORMATS["automake"].parse,
    FORMATS["redis"].parse,
    FORMATS["pytest_summary"].parse,
    FORMATS["pytest_verbose"].parse,
)
"""Parsers of formats that only scripts print."""

CTEST = support_of(Runner.CTEST, parsers=(parse_native,))
