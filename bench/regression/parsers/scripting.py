"""Output of PHPUnit, RSpec, minitest and test-unit. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest

from bench.regression.parsers.base import (
    FAILED,
    PASSED,
    SKIPPED,
    ParsedOutput,
    blocks,
    detail,
    worst,
)

_TESTDOX_TEST = re.compile(r"^ ([✔✘↩∅☢⚠]) (.+?)(?: \[[\d.]+ m?s\])?$")
_TESTDOX_SUITE = re.compile(r"^[^\W\d][^:]*$")
_TESTDOX_LINE = re.compile(r"^   [│┐├┴] ?(.*)$")
_TESTDOX_END = re.compile(r"^(?:Summary of non-successful|There (?:was|were) \d)")
# As in PHPUnit's exit code, a risky test or a warning is not a failure.
_TESTDOX_MARKS = {"✔": PASSED, "✘": FAILED, "↩": SKIPPED, "∅": SKIPPED, "☢": SKIPPED, "⚠": SKIPPED}
# The closing line may count them as passed.
_TESTDOX_ODD = re.compile(r"^ [☢⚠] ")
_PHPUNIT_COUNT = re.compile(r"^(?:OK \((\d+) tests?,|Tests: (\d+), .*)", re.MULTILINE)
_PHPUNIT_BAD = re.compile(r"\b(?:Errors|Failures|Skipped|Incomplete): (\d+)")

_MINITEST_TEST = re.compile(r"^(\S.*?#test_\S.*?) = (.*)$")
_MINITEST_END = re.compile(r"^(?:.*?\D)?\d+\.\d+ s = ([.FES])$")
_MINITEST_STATUSES = {".": PASSED, "S": SKIPPED}
_MINITEST_COUNT = re.compile(
    r"^(\d+) (?:runs|tests), \d+ assertions, (\d+) failures, (\d+) errors(.*)$", re.MULTILINE
)
_NOT_PASSED = re.compile(r"(\d+) (?:skips|pendings|omissions)")
_MINITEST_REASON = re.compile(r"^([^\s:]\S*(?: \S+)*?#test_.+?)(?: \[.*\])?:$")
_MINITEST_BREAK = re.compile(r"^  \d+\) |^\d+ (?:runs|tests), ")

_TEST_UNIT_SUITE = re.compile(r"^( *)(\S.*): $")
_TEST_UNIT_TEST = re.compile(r"^( +)(\S.*?):\t+([.EFOPN])(?:: \([\d.]+\))?$")
_TEST_UNIT_STATUSES = {".": PASSED, "O": SKIPPED, "P": SKIPPED, "N": PASSED}
_TEST_UNIT_REASON = re.compile(r"^(?:Failure|Error): (test.*?\(\S+\))")
_TEST_UNIT_BREAK = re.compile(r"^={20,}$")

_RSPEC_LINE = re.compile(r"^( *)(\S.*?)( \(FAILED - \d+\)| \(PENDING: .*\))?$")
_RSPEC_END = re.compile(r"^(?:Pending|Failures):|^Finished in ")
_RSPEC_COUNT = re.compile(r"^(\d+) examples?, (\d+) failures?(?:, (\d+) pending)?", re.MULTILINE)
_RSPEC_REASON = re.compile(r"^  \d+\) (\S.*)$")
_RSPEC_BREAK = re.compile(r"^(?:Finished in |Failed examples:)")


def parse_testdox(output: str) -> ParsedOutput:
    """Parse ``phpunit --testdox``: tests are named ``class > test``."""
    results: list[tuple[str, str]] = []
    reasons: dict[str, list[str]] = {}
    suite, name, before, odd = "", "", "", 0
    for line in output.split("\n"):
        if _TESTDOX_END.match(line):
            break
        odd += bool(_TESTDOX_ODD.match(line))
        if test := _TESTDOX_TEST.match(line):
            name = f"{suite} > {test[2]}"
            results.append((name, _TESTDOX_MARKS[test[1]]))
        elif results and (reason := _TESTDOX_LINE.match(line)):
            reasons.setdefault(name, []).append(reason[1])
        elif not before and _TESTDOX_SUITE.match(line):
            suite = line
        before = line.strip()
    details = {key: detail(lines) for key, lines in reasons.items()}
    passed = _phpunit_passed(output)
    if passed is not None:
        passed -= odd
    return ParsedOutput(worst(results), details, passed, counts=True).checked()


def _phpunit_passed(output: str) -> int | None:
    counts = [*_PHPUNIT_COUNT.finditer(output)]
    bad = (int(n) for match in counts for n in _PHPUNIT_BAD.findall(match[0]))
    return sum(int(m[1] or m[2]) for m in counts) - sum(bad) if counts else None


def parse_minitest(output: str) -> ParsedOutput:
    """Parse minitest with ``-v``: tests are named ``Class#test``."""
    lines = output.split("\n")
    reasons = blocks(lines, _MINITEST_REASON, _MINITEST_BREAK)
    results = worst(_minitest_results(lines))
    return ParsedOutput(results, reasons, _ruby_passed(output), counts=True).checked()


def _minitest_results(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    name = ""
    for line in lines:
        if started := _MINITEST_TEST.match(line):
            name = started[1]
        # The output of a test stands between its name and its result.
        if name and (ended := _MINITEST_END.match(line)):
            yield name, _MINITEST_STATUSES.get(ended[1], FAILED)
            name = ""


def _ruby_passed(output: str) -> int | None:
    ends = _MINITEST_COUNT.findall(output)
    bad = sum(int(n) for _, *numbers, rest in ends for n in [*numbers, *_NOT_PASSED.findall(rest)])
    return sum(int(end[0]) for end in ends) - bad if ends else None


def parse_test_unit(output: str) -> ParsedOutput:
    """Parse test-unit with ``-v``: tests are named ``Class > test``."""
    lines = output.split("\n")
    results: list[tuple[str, str]] = []
    suites: list[tuple[int, str]] = []
    for line in lines:
        if test := _TEST_UNIT_TEST.match(line):
            around = [name for depth, name in suites if depth < len(test[1])]
            status = _TEST_UNIT_STATUSES.get(test[3], FAILED)
            results.append((" > ".join([*around, test[2]]), status))
        elif suite := _TEST_UNIT_SUITE.match(line):
            suites = [one for one in suites if one[0] < len(suite[1])]
            suites.append((len(suite[1]), suite[2]))
    reasons = blocks(lines, _TEST_UNIT_REASON, _TEST_UNIT_BREAK)
    titles = {name: _test_unit_title(name) for name, _ in results}
    details = {name: reasons[title] for name, title in titles.items() if title in reasons}
    return ParsedOutput(worst(results), details, _ruby_passed(output), counts=True).checked()


def _test_unit_title(name: str) -> str:
    """Return ``test_a(A::B)`` for ``A > B > test_a``."""
    *suites, test = name.split(" > ")
    return f"{test}({'::'.join(suites)})"


def parse_rspec(output: str) -> ParsedOutput:
    """Parse ``rspec --format documentation``: tests are named ``group > example``.

    Groups and passed examples look the same; what nothing is indented below is an example.
    """
    lines = output.split("\n")
    results = worst(_rspec_results(lines))
    reasons = blocks(lines, _RSPEC_REASON, _RSPEC_BREAK)
    titles = {name: name.replace(" > ", " ") for name in results}
    details = {name: reasons[title] for name, title in titles.items() if title in reasons}
    ends = _RSPEC_COUNT.findall(output)
    passed = sum(int(a) - int(b) - int(c or 0) for a, b, c in ends) if ends else None
    return ParsedOutput(results, details, passed, counts=True).checked()


def _rspec_results(lines: list[str]) -> Iterator[tuple[str, str]]:
    end = next((n for n, line in enumerate(lines) if _RSPEC_END.match(line)), len(lines))
    # A group that stands alone has an empty line above it; output of a test mostly has not.
    above = zip(lines[:end], ["", *lines], strict=False)
    shown = [line for line, before in above if line.startswith("  ") or not before]
    found = [match for match in map(_RSPEC_LINE.match, shown) if match]
    groups: list[tuple[int, str]] = []
    for match, following in zip_longest(found, found[1:]):
        depth, mark = len(match[1]), match[3] or ""
        if depth % 2:
            continue  # output of a test
        groups = [one for one in groups if one[0] < depth]
        if not mark and following and len(following[1]) > depth:
            groups.append((depth, match[2]))
        elif groups:
            status = FAILED if "FAILED" in mark else SKIPPED if mark else PASSED
            yield " > ".join([*(name for _, name in groups), match[2]]), status
