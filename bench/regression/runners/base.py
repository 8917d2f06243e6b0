"""What is known of a test runner, and what parsers of its output return. Pure.

The output holds lines of the code under test too. Where a test is reported twice, the worse status
counts; where more tests pass than the runner counted, nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import PurePosixPath

from bench.regression.runners.shell import Read, SimpleCommand


class Runner(str, Enum):
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
PASSED, FAILED, SKIPPED, ERROR, XFAIL = "PASSED", "FAILED", "SKIPPED", "ERROR", "XFAIL"
_ORDER = (PASSED, XFAIL, SKIPPED, FAILED, ERROR)
# Lines that name a test are shorter; patterns take time by the length of a line.
LONGEST_LINE = 1_000
_LONGEST_DETAIL = 4_000
STATUS_WORDS = {
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
"""Statuses by the words of runners that report a test on a line."""

COMMAND_START = r"(?:^|[\s/;&|(])"
"""What may stand before the name of a program."""


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


OutputParser = Callable[[str], ParsedOutput]


def worst(found: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return each name's worst status: where a teardown fails, a test is reported twice."""
    results: dict[str, str] = {}
    for name, status in found:
        results[name] = max(status, results.get(name, PASSED), key=_ORDER.index)
    return results


def merged(parts: Iterable[ParsedOutput]) -> ParsedOutput:
    """Return all results of ``parts``, which were checked before."""
    kept = [*parts]
    results = worst(pair for part in kept for pair in part.results.items())
    return ParsedOutput(
        results, {k: v for part in kept for k, v in part.details.items()}
    )


def total(pattern: re.Pattern[str], output: str) -> int | None:
    """Return the sum of the numbers in group 1 of all matches; None without any."""
    numbers = [int(match.group(1) or 0) for match in pattern.finditer(output)]
    return sum(numbers) if numbers else None


def detail(lines: Iterable[str]) -> str:
    """Return the text of the explanation ``lines``, cut to a length that says why."""
    text = "\n".join(line.rstrip() for line in lines).strip("\n")
    half = _LONGEST_DETAIL // 2
    return text if len(text) <= _LONGEST_DETAIL else f"{text[:half]}\n…\n{text[-half:]}"


def blocks(
    lines: Iterable[str], start: re.Pattern[str], end: re.Pattern[str]
) -> dict[str, str]:
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


class Nesting:
    """The titles of suites, by how far their lines are indented, around a test."""

    def __init__(self) -> None:
        self.titles: list[tuple[int, str]] = []

    def enter(self, depth: int, title: str) -> None:
        self.titles = [pair for pair in self.titles if pair[0] < depth]
        self.titles.append((depth, title))

    def named(self, first: str, depth: int, title: str) -> str:
        around = [name for start, name in self.titles if start < depth]
        return " > ".join([*([first] if first else []), *around, title])


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
        results = worst(
            (name, self.statuses.get(status, FAILED)) for name, status in pairs
        )
        passed = total(self.count, output) if self.count else None
        return ParsedOutput(results, passed=passed).checked()


@dataclass(frozen=True)
class BaseTree:
    """The files of the base commit, and how to read them."""

    files: Collection[str]
    read: Read

    def nearest(self, path: str, names: Iterable[str]) -> str | None:
        """Return the folder above ``path`` that holds one of ``names``; empty for the root."""
        wanted = tuple(names)
        for folder in map(str, PurePosixPath(path).parents):
            prefix = "" if folder == "." else f"{folder}/"
            if any(f"{prefix}{name}" in self.files for name in wanted):
                return prefix.rstrip("/")
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
        parsers: of its output, whose lines are cut to ``LONGEST_LINE``.
        report_parsers: of the whole output: reports in JSON have all of their text on one line.
        parser_names: parts of the names that task sets give to parsers, as parse_log_gotest.
        swebench_parser: swebench's parser of its output.
        writes_reports: whether it writes JUnit's XML files.
        reports: options that make each test, or all of them, appear in the output: unless a word
            begins with one of them, ``report_option`` is added by ``with_option``.
        whole: what may stay of a command that names tests.
        one_file: returns the command for one file of tests; None where that is unsure.
        program: the base name of a program that takes names of files, also inside a script.
        values: the program's options whose value is the next word.
        subcommands: words that may follow the program and are not names of files.
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
    whole: WholeSuite | None = None
    one_file: Callable[[SimpleCommand, str, BaseTree], str | None] | None = None
    program: re.Pattern[str] | None = None
    values: frozenset[str] = frozenset()
    subcommands: frozenset[str] = frozenset()
    file_name: Callable[[str], str] = str

    @property
    def takes_files(self) -> bool:
        """Whether files of tests can be named on its command line."""
        return self.suffixes != ("",)


def kept_options(
    words: Iterable[str], takes: Collection[str], end: str
) -> list[str] | None:
    kept: list[str] = []
    waiting = False
    for word in words:
        if word == end:
            break
        if waiting or word.startswith("-") or ">" in word:
            kept.append(word)
        elif word.startswith(("$", "`", '"$')):
            return None
        waiting = word in takes
    return kept


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
            r"^\[?(?:\d{4}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d(?:[.,]\d+)?Z?\]?:? +", re.M
        ),
        "",
    ),
)
# `tests/test_a.py ..F.s [ 33%]`, `[gw0] [ 50%] PASSED …`, and bars such as `45%|####  | 9/20`.
_PROGRESS = re.compile(
    r"^(?:[^\s:]+ )?[.FEsSxXpPfRwK]+ *(?:\[ *\d+%\])?$|\[ *\d+%\]|^ *\d+%\||^\[gw\d+\] linux"
)


def plain(output: str) -> str:
    """Return ``output`` without colours, movements of the cursor and rewritten lines."""
    text = _ESCAPES.sub("", output.replace("\r\n", "\n"))
    # A progress bar rewrites its line.
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def without_noise(output: str) -> str:
    """Return ``output`` as a terminal shows it, without the parts that change from run to run."""
    lines = (line.rstrip() for line in plain(output).split("\n"))
    text = _CONTROLS.sub("", "\n".join(lines))
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    return text


def is_progress(line: str) -> bool:
    return bool(line) and bool(_PROGRESS.search(line))
