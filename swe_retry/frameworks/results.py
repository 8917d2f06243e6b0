"""What parsers of a runner's output return, and what they read it with. Pure.

The output holds lines of the code under test too. Where a test is reported twice, the worse status
counts; where more tests pass than the runner counted, nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

PASSED = "PASSED"
FAILED = "FAILED"
SKIPPED = "SKIPPED"
ERROR = "ERROR"
XFAIL = "XFAIL"
# From the best to the worst.
_ORDER = (PASSED, XFAIL, SKIPPED, FAILED, ERROR)
# Lines that name a test are shorter; patterns take time by the length of a line.
MAX_LINE = 1_000
_MAX_DETAIL = 4_000
_COMMAND_START = r"(?:^|[\s/;&|(])"
"""What may stand before the name of a program."""
_PROGRAM = r"(?:(?:npx|yarn|pnpm|bun|bundle exec|php)(?: exec)? +)?(?:[\w./-]*/)?"
"""The beginning of a command, up to the name of a program of a project's packages."""


NamedStatus = tuple[str, str]
"""The name of a test and its status."""


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

    def if_consistent(self) -> ParsedOutput:
        """Return nothing where more tests pass than the runner counted."""
        if self.passed is None:
            return ParsedOutput() if self.counts else self
        statuses = list(self.results.values())
        passing = statuses.count(PASSED)
        return self if passing <= self.passed else ParsedOutput()


OutputParser = Callable[[str], ParsedOutput]


def worst_statuses(pairs: Iterable[NamedStatus]) -> dict[str, str]:
    """Return each name's worst status: where a teardown fails, a test is reported twice."""
    results: dict[str, str] = {}
    for name, status in pairs:
        earlier = results.get(name, PASSED)
        results[name] = max(status, earlier, key=_ORDER.index)
    return results


def matching_lines(
    pattern: re.Pattern[str], lines: Iterable[str]
) -> list[re.Match[str]]:
    """Return the matches of ``pattern`` at the beginning of ``lines``."""
    matches = []
    for line in lines:
        match = pattern.match(line)
        if match:
            matches.append(match)
    return matches


def sum_numbers(pattern: re.Pattern[str], output: str) -> int | None:
    """Return the sum of the numbers in group 1 of all matches; None without any."""
    numbers = [match[1] or 0 for match in pattern.finditer(output)]
    if not numbers:
        return None
    return sum(map(int, numbers))


def explain(titles: Mapping[str, str], reasons: Mapping[str, str]) -> dict[str, str]:
    """Return the reason of each test that has one; ``titles`` are the keys of ``reasons``."""
    details = {}
    for name, title in titles.items():
        if title in reasons:
            details[name] = reasons[title]
    return details


def limit_detail(lines: Iterable[str]) -> str:
    """Return the text of the explanation ``lines``, cut to a length that says why."""
    text = "\n".join(map(str.rstrip, lines))
    text = text.strip("\n")
    if len(text) <= _MAX_DETAIL:
        return text
    half = _MAX_DETAIL // 2
    return f"{text[:half]}\n…\n{text[-half:]}"


def limit_details(bodies: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return the text of each test's explanation."""
    return {name: limit_detail(lines) for name, lines in bodies.items()}


def limit_lines(output: str, length: int = MAX_LINE) -> str:
    """Return ``output`` with lines that are cut to ``length``."""
    return "\n".join(line[:length] for line in output.split("\n"))


def blocks_below(
    lines: Iterable[str],
    start: re.Pattern[str],
    end: re.Pattern[str],
) -> dict[str, str]:
    """Return the lines below each heading up to the next or to ``end``, by group 1 of ``start``."""
    bodies: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        heading = start.match(line)
        if heading:
            name = heading[1]
            bodies.setdefault(name, [])
        elif end.match(line):
            name = ""
        elif name:
            bodies[name].append(line)
    return limit_details(bodies)


class Nesting:
    """The titles of suites around a test, by how far their lines are indented."""

    def __init__(self, file: str = "") -> None:
        self.file = file
        self.titles: list[tuple[int, str]] = []

    def enter(self, depth: int, title: str) -> None:
        self.titles = [pair for pair in self.titles if pair[0] < depth]
        self.titles.append((depth, title))

    def full_name(self, depth: int, title: str) -> str:
        titles = [suite for start, suite in self.titles if start < depth]
        if self.file:
            titles.insert(0, self.file)
        return " > ".join([*titles, title])


@dataclass(frozen=True)
class ResultLines:
    """Output with one line for each test.

    Attributes:
        line: matches such a line; has the groups ``name`` and ``status``.
        statuses: by the text of ``status`` in lower case, beside ``STATUSES``; others mean that
            the test failed.
        count: its group 1 is a number of passed tests; the sum of all is the runner's count.
    """

    line: re.Pattern[str]
    statuses: Mapping[str, str] = field(default_factory=dict)
    count: re.Pattern[str] | None = None

    def parse(self, output: str) -> ParsedOutput:
        """Parse ``output``, whose lines were cut to ``MAX_LINE``."""
        pairs = []
        for match in matching_lines(self.line, output.split("\n")):
            word = match["status"].strip().lower()
            status = self.statuses.get(word) or STATUSES.get(word, FAILED)
            pairs.append((match["name"].strip(), status))
        passed = None
        if self.count:
            passed = sum_numbers(self.count, output)
        return ParsedOutput(worst_statuses(pairs), passed=passed).if_consistent()


def read_table(name: str) -> Any:  # noqa: ANN401 - YAML
    """Return what a YAML file of this folder holds, with its abbreviations written out."""
    text = Path(__file__).with_name(name).read_text("utf-8")
    text = text.replace("<start>", _COMMAND_START).replace("<program>", _PROGRAM)
    return yaml.safe_load(text)


_RESULTS = read_table("results.yaml")
STATUSES: Mapping[str, str] = _RESULTS["statuses"]
"""Statuses by the words and marks of runners that report a test on a line."""
FORMATS = TypeAdapter(dict[str, ResultLines]).validate_python(_RESULTS["formats"])
"""Formats with one line for each test."""
