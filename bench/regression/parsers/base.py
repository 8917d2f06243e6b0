"""What parsers of test output return, and parsers that are described by one pattern. Pure.

The output holds lines of the code under test too. Where a test is reported twice, the worse status
counts; where more tests pass than the runner counted, nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

PASSED, FAILED, SKIPPED, ERROR, XFAIL = "PASSED", "FAILED", "SKIPPED", "ERROR", "XFAIL"
_ORDER = (PASSED, XFAIL, SKIPPED, FAILED, ERROR)
# Lines that name a test are shorter; patterns take time by the length of a line.
LONGEST_LINE = 1_000
_LONGEST_DETAIL = 4_000


@dataclass(frozen=True)
class ParsedOutput:
    """Results of a run.

    Attributes:
        results: status per test, in the words of ``testlogs.Results``.
        details: why a test failed, for some of the tests.
        passed: how many tests passed by the runner's own count; None without one.
        counts: whether this runner always counts, so that output without a count was cut off.
    """

    results: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, str] = field(default_factory=dict)
    passed: int | None = None
    counts: bool = False

    def checked(self) -> ParsedOutput:
        """Return nothing where more tests pass than the runner counted."""
        if self.passed is None:
            return ParsedOutput() if self.counts else self
        passing = sum(status == PASSED for status in self.results.values())
        return ParsedOutput() if passing > self.passed else self


Parser = Callable[[str], ParsedOutput]


def worst(found: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the worst status of each name in pairs of name and status.

    A test is reported more than once if, for example, its teardown fails.
    """
    results: dict[str, str] = {}
    for name, status in found:
        results[name] = max(status, results.get(name, PASSED), key=_ORDER.index)
    return results


def merged(parts: Iterable[ParsedOutput]) -> ParsedOutput:
    """Return all results of ``parts``, which were checked before."""
    kept = [*parts]
    results = worst(pair for part in kept for pair in part.results.items())
    return ParsedOutput(results, {k: v for part in kept for k, v in part.details.items()})


def total(pattern: re.Pattern[str], output: str) -> int | None:
    """Return the sum of the numbers in group 1 of all matches; None without any."""
    numbers = [int(match.group(1) or 0) for match in pattern.finditer(output)]
    return sum(numbers) if numbers else None


def detail(lines: Iterable[str]) -> str:
    """Return the text of the explanation ``lines``, cut to a length that says why."""
    text = "\n".join(line.rstrip() for line in lines).strip("\n")
    half = _LONGEST_DETAIL // 2
    return text if len(text) <= _LONGEST_DETAIL else f"{text[:half]}\n…\n{text[-half:]}"


def blocks(lines: Iterable[str], start: re.Pattern[str], end: re.Pattern[str]) -> dict[str, str]:
    """Return the lines below each heading up to the next or to ``end``, by group 1 of ``start``."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        if heading := start.match(line):
            name = heading.group(1)
            found.setdefault(name, [])
        elif end.match(line):
            name = ""
        elif name:
            found[name].append(line)
    return {key: detail(body) for key, body in found.items()}


@dataclass(frozen=True)
class ResultLines:
    """Output with one line for each test.

    Attributes:
        line: matches such a line; has the groups ``name`` and ``status``.
        statuses: by the text of ``status`` in lower case; others mean that the test failed.
        count: its group 1 is a number of passed tests; the sum of all is the runner's count.
    """

    line: re.Pattern[str]
    statuses: Mapping[str, str]
    count: re.Pattern[str] | None = None

    def parse(self, output: str) -> ParsedOutput:
        """Parse ``output``, whose lines were cut to ``LONGEST_LINE``."""
        found = (match for match in map(self.line.match, output.split("\n")) if match)
        pairs = ((m["name"].strip(), m["status"].strip().lower()) for m in found)
        results = worst((name, self.statuses.get(status, FAILED)) for name, status in pairs)
        passed = total(self.count, output) if self.count else None
        return ParsedOutput(results, passed=passed).checked()
