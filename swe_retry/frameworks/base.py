"""What is known of a test runner, and what parsers of its output return. Pure.

The output holds lines of the code under test too. Where a test is reported twice, the worse status
counts; where more tests pass than the runner counted, nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from pydantic import TypeAdapter

from swe_retry.frameworks.shell import Read, SimpleCommand, is_computed


class Runner(StrEnum):
    """A kind of test runner; ``SCRIPT`` stands for a command that hides its runner."""

    PYTEST = "pytest"
    DJANGO = "django"
    SYMPY = "sympy"
    UNITTEST = "unittest"
    GO = "go test"
    CARGO = "cargo test"
    JEST = "jest"
    VITEST = "vitest"
    MOCHA = "mocha"
    NODE = "node --test"
    MAVEN = "maven"
    GRADLE = "gradle"
    PHPUNIT = "phpunit"
    RSPEC = "rspec"
    MINITEST = "minitest"
    CTEST = "ctest"
    SCRIPT = "script"


OF_PYTHON = frozenset({Runner.PYTEST, Runner.DJANGO, Runner.SYMPY, Runner.UNITTEST})
"""The runners whose tests import the project's packages."""
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


@dataclass(frozen=True)
class BaseTree:
    """The files of the base commit, and how to read them."""

    files: Collection[str]
    read: Read

    def nearest(self, path: str, *names: str) -> str | None:
        """Return the folder above ``path`` that holds one of ``names``; empty for the root."""
        for folder in PurePosixPath(path).parents:
            for name in names:
                if str(folder / name) in self.files:
                    return "" if str(folder) == "." else str(folder)
        return None


@dataclass(frozen=True)
class Convention:
    """How one family of languages names tests.

    Attributes:
        test: matches the path of a test file; its group ``subject`` is the name of what is tested.
        uses: patterns of a test's text that uses a source file: ``{stem}`` is its name without
            suffix, ``{folder}`` the folder's, ``{camel}`` the stem as the name of a class.
        same_folder: whether a test may use what lies in its folder without naming it.
        inside: matches the text of a source file that holds tests itself.
    """

    sources: tuple[str, ...]
    test: re.Pattern[str]
    uses: tuple[str, ...] = ()
    same_folder: bool = False
    inside: re.Pattern[str] | None = None


@dataclass(frozen=True)
class WholeSuite:
    """What may stay of a runner's command where it names tests.

    Attributes:
        start: matches its beginning: variables aside, the program and its subcommand.
        flags: options that select nothing.
        values: such options whose value is the next word.
        end: added, for all tests.
    """

    start: re.Pattern[str]
    flags: re.Pattern[str]
    values: frozenset[str] = frozenset()
    end: str = ""


@dataclass(frozen=True)
class RunnerSupport:
    """What is known of one runner.

    Attributes:
        command: finds the runner in a command.
        suffixes: of the files that may hold its tests.
        parsers: of its output, whose lines are cut to ``MAX_LINE``.
        report_parsers: of the whole output: reports in JSON have all of their text on one line.
        parser_names: parts of the names that task sets give to parsers, as parse_log_gotest.
        swebench_parser: swebench's parser of its output.
        writes_reports: whether it writes JUnit's XML files.
        reports: options that make each test, or all of them, appear in the output: unless a word
            begins with one of them, ``report_option`` is added by ``with_option``.
        whole_suite: what may stay of a command that names tests.
        one_file: returns the command for one file of tests; None where that is unsure.
        program: the base name of a program that takes names of files, also inside a script.
        values: the program's options whose value is the next word.
        subcommands: words that may follow the program and are not names of files.
        targets: options that choose what ``one_file`` chooses.
        file_name: how the program names a file.
    """

    command: re.Pattern[str]
    suffixes: tuple[str, ...] = ("",)
    parsers: tuple[OutputParser, ...] = ()
    report_parsers: tuple[OutputParser, ...] = ()
    parser_names: tuple[str, ...] = ()
    swebench_parser: str = "parse_log_tap"
    writes_reports: bool = False
    reports: tuple[str, ...] = ()
    report_option: str = ""
    with_option: Callable[[SimpleCommand, str], str] = SimpleCommand.with_option
    whole_suite: WholeSuite | None = None
    one_file: Callable[[SimpleCommand, str, BaseTree], str | None] | None = None
    program: re.Pattern[str] | None = None
    values: frozenset[str] = frozenset()
    subcommands: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()
    file_name: Callable[[str], str] = str


def _read(name: str) -> Any:  # noqa: ANN401 - YAML
    text = Path(__file__).with_name(name).read_text("utf-8")
    text = text.replace("<start>", _COMMAND_START).replace("<program>", _PROGRAM)
    return yaml.safe_load(text)


_RESULTS = _read("results.yaml")
STATUSES: Mapping[str, str] = _RESULTS["statuses"]
"""Statuses by the words and marks of runners that report a test on a line."""
FORMATS = TypeAdapter(dict[str, ResultLines]).validate_python(_RESULTS["formats"])
"""Formats with one line for each test."""
_ROWS = _read("runners.yaml")
_SUPPORT = TypeAdapter(RunnerSupport)


def support_of(runner: Runner, **functions: Any) -> RunnerSupport:  # noqa: ANN401
    """Return what ``runners.yaml`` says of a runner, with ``functions`` beside it."""
    return _SUPPORT.validate_python({**_ROWS[runner.value], **functions})


def read_conventions() -> tuple[Convention, ...]:
    rows = _read("conventions.yaml")
    return TypeAdapter(tuple[Convention, ...]).validate_python(rows)


def options_of(
    arguments: Iterable[str],
    value_options: Collection[str],
    end: str,
) -> list[str] | None:
    """Return the options in front of ``end``, with their values.

    None where the shell computes an operand: it may be an option.
    """
    options = []
    waiting = False
    for word in arguments:
        if word == end:
            break
        if waiting or word.startswith("-") or ">" in word:
            options.append(word)
        elif is_computed(word):
            return None
        waiting = word in value_options
    return options


# Sequences with parameters as for colours, titles of windows, and commands of one character.
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_REPLACED = (
    # `<thing.Box object at 0x7f0e5d3146a0>`, also truncated; other hex numbers may matter.
    (re.compile(r"\bat 0x[0-9a-fA-F]+"), "at 0x…"),
    (re.compile(r"\b0x7f[0-9a-f]{10}\b"), "0x…"),
    # pytest's folders for `tmpdir`, in full or abbreviated by pytest; those of `tempfile`.
    (
        re.compile(
            r"/tmp/pytest-of-[\w.-]+/pytest-\d+(?:/popen-gw\d+)?|/tmp/pytest-\.\.\.-\d+"
        ),
        "/tmp/pytest",
    ),
    (
        re.compile(r"(?:/private)?(?:/var/folders/\w+/\w+/T|/tmp)/tmp[a-z0-9_]{6,8}\b"),
        "/tmp/tmp…",
    ),
    # Every environment has the tree in a folder of this name; paths are made relative to it.
    (re.compile(r"(?<![\w/.@+-])(?:/[\w.@+-]+)*/testbed/|(?<=[@+])/testbed/"), ""),
    (re.compile(r"(?<![\w/.@+-])(?:/[\w.@+-]+)+/(?=lib/python\d)"), ""),
    (re.compile(r"\bin \d+\.\d+ ?s(?:ec(?:ond)?s?)?\b"), "in … s"),
    # Time stamps at the beginning of a line only: assertions may be about others.
    (
        re.compile(
            r"(?m)^\[?(?:\d{4}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d(?:[.,]\d+)?Z?\]?:? +"
        ),
        "",
    ),
)
# `tests/test_a.py ..F.s [ 33%]`, `[gw0] [ 50%] PASSED …`, and bars such as `45%|####  | 9/20`.
_PROGRESS = re.compile(
    r"^(?:[^\s:]+ )?[.FEsSxXpPfRwK]+ *(?:\[ *\d+%\])?$|\[ *\d+%\]|^ *\d+%\||^\[gw\d+\] linux"
)


def without_escapes(output: str) -> str:
    """Return ``output`` without colours, movements of the cursor and rewritten lines."""
    text = _ESCAPES.sub("", output.replace("\r\n", "\n"))
    lines = []
    for line in text.split("\n"):
        # A progress bar rewrites its line.
        rewritten = line.rstrip("\r").split("\r")
        lines.append(rewritten[-1])
    return "\n".join(lines)


def without_noise(output: str) -> str:
    """Return ``output`` as a terminal shows it, without the parts that change from run to run."""
    lines = without_escapes(output).split("\n")
    text = "\n".join(map(str.rstrip, lines))
    text = _CONTROLS.sub("", text)
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    return text


def is_progress(line: str) -> bool:
    return bool(line) and bool(_PROGRESS.search(line))
