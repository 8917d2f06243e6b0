"""PHPUnit, RSpec, minitest and test-unit: tests in commands, output and files. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest

from bench.regression.runners.base import (
    COMMAND_START,
    FAILED,
    PASSED,
    SKIPPED,
    STATUS_WORDS,
    BaseTree,
    Convention,
    Nesting,
    ParsedOutput,
    ResultLines,
    RunnerSupport,
    WholeSuite,
    blocks,
    detail,
    worst,
)
from bench.regression.runners.documents import parse_json
from bench.regression.runners.shell import SimpleCommand, is_plain, place_of, quoted

_PROGRAM = r"(?:(?:npx|yarn|pnpm|bun|bundle exec|php)(?: exec)? +)?(?:[\w./-]*/)?"
_TESTDOX_TEST = re.compile(r"^ ([✔✘↩∅☢⚠]) (.+?)(?: \[[\d.]+ m?s\])?$")
_TESTDOX_SUITE = re.compile(r"^[^\W\d][^:]*$")
_TESTDOX_LINE = re.compile(r"^   [│┐├┴] ?(.*)$")
_TESTDOX_END = re.compile(r"^(?:Summary of non-successful|There (?:was|were) \d)")
# As in PHPUnit's exit code, a risky test or a warning is not a failure.
_TESTDOX_MARKS = {
    "✔": PASSED,
    "✘": FAILED,
    "↩": SKIPPED,
    "∅": SKIPPED,
    "☢": SKIPPED,
    "⚠": SKIPPED,
}
# The closing line may count them as passed.
_TESTDOX_ODD = re.compile(r"^ [☢⚠] ")
_PHPUNIT_COUNT = re.compile(r"^(?:OK \((\d+) tests?,|Tests: (\d+), .*)", re.MULTILINE)
_PHPUNIT_BAD = re.compile(r"\b(?:Errors|Failures|Skipped|Incomplete): (\d+)")


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
    counts = [*_PHPUNIT_COUNT.finditer(output)]
    bad = (int(n) for match in counts for n in _PHPUNIT_BAD.findall(match[0]))
    passed = sum(int(m[1] or m[2]) for m in counts) - sum(bad) - odd if counts else None
    return ParsedOutput(worst(results), details, passed, counts=True).checked()


PHPUNIT = RunnerSupport(
    re.compile(COMMAND_START + r"phpunit(?:\.phar)?(?!\S)"),
    suffixes=(".php",),
    parsers=(parse_testdox,),
    parser_names=("phpunit",),
    swebench_parser="parse_log_phpunit",
    reports=("--testdox",),
    report_option="--testdox",
    whole=WholeSuite(
        re.compile(_PROGRAM + r"phpunit(?= |$)"),
        re.compile(r"--(?:testdox|colors=\w+|no-coverage|no-progress)"),
    ),
    program=re.compile(r"phpunit(\.phar)?"),
    values=frozenset({"-c", "--configuration", "--bootstrap", "--filter", "--group"})
    | {
        "--exclude-group",
        "--testsuite",
        "-d",
        "--log-junit",
        "--printer",
        "--order-by",
    },
)


PHP_TESTS = Convention(
    (".php",),
    re.compile(r"(?:^|/)[tT]ests?/(?:.*/)?(?P<subject>\w+?)Test\.php$"),
    (r"\b{stem}\b",),
)


_MINITEST_TEST = re.compile(r"^(\S.*?#test_\S.*?) = (.*)$")
_MINITEST_END = re.compile(r"^(?:.*?\D)?\d+\.\d+ s = ([.FES])$")
_MINITEST_STATUSES = {".": PASSED, "S": SKIPPED}
_MINITEST_COUNT = re.compile(
    r"^(\d+) (?:runs|tests), \d+ assertions, (\d+) failures, (\d+) errors(.*)$",
    re.MULTILINE,
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
_RSPEC_COUNT = re.compile(
    r"^(\d+) examples?, (\d+) failures?(?:, (\d+) pending)?", re.MULTILINE
)
_RSPEC_REASON = re.compile(r"^  \d+\) (\S.*)$")
_RSPEC_BREAK = re.compile(r"^(?:Finished in |Failed examples:)")
SUFFIXED = ResultLines(
    re.compile(r"^(?P<name>\S.*) - (?P<status>passed|failed|pending)$"),
    STATUS_WORDS,
)
"""RSpec's report as some task sets rewrite it with jq."""
_RAKE_TASK = re.compile(r"(?:test|spec)(?::\w+)*")


def ruby_file(one: SimpleCommand, path: str, _tree: BaseTree) -> str | None:
    """Run one file with ``rake test``, ``rails test`` or ``ruby``; None for other commands."""
    here = one.path_here(path)
    name = quoted(here) if here else None
    if here is None or name is None:
        return None
    if (place := place_of(one.words, re.compile("rake"))) is not None:
        tasks = [word for word in one.words[place + 1 :] if _RAKE_TASK.fullmatch(word)]
        # rake reads a pattern.
        return (
            one.with_words(*one.words, f"TEST={name}")
            if tasks and is_plain(here)
            else None
        )
    place = place_of(one.words, re.compile("rails|ruby"))
    if place is None or "-e" in one.words:
        return None
    files = [
        n for n, word in enumerate(one.words) if n > place and word.endswith(".rb")
    ]
    if one.words[place].endswith("rails"):
        return one.with_words(
            *(w for n, w in enumerate(one.words) if n not in files), name
        )
    if len(files) != 1:
        return None
    return one.with_words(*one.words[: files[0]], name, *one.words[files[0] + 1 :])


def _ruby_with_option(one: SimpleCommand, option: str) -> str:
    rake = place_of(one.words, re.compile("rake")) is not None
    return one.with_words(*one.words, f"TESTOPTS={option}" if rake else option)


def parse_minitest(output: str) -> ParsedOutput:
    """Parse minitest with ``-v``: tests are named ``Class#test``."""
    lines = output.split("\n")
    reasons = blocks(lines, _MINITEST_REASON, _MINITEST_BREAK)
    found: list[tuple[str, str]] = []
    name = ""
    for line in lines:
        if started := _MINITEST_TEST.match(line):
            name = started[1]
        # The output of a test stands between its name and its result.
        if name and (ended := _MINITEST_END.match(line)):
            found.append((name, _MINITEST_STATUSES.get(ended[1], FAILED)))
            name = ""
    return ParsedOutput(
        worst(found), reasons, _ruby_passed(output), counts=True
    ).checked()


def _ruby_passed(output: str) -> int | None:
    ends = _MINITEST_COUNT.findall(output)
    bad = sum(
        int(n)
        for _, *numbers, rest in ends
        for n in [*numbers, *_NOT_PASSED.findall(rest)]
    )
    return sum(int(end[0]) for end in ends) - bad if ends else None


def parse_test_unit(output: str) -> ParsedOutput:
    """Parse test-unit with ``-v``: tests are named ``Class > test``."""
    lines = output.split("\n")
    results: list[tuple[str, str]] = []
    suites = Nesting()
    for line in lines:
        if test := _TEST_UNIT_TEST.match(line):
            status = _TEST_UNIT_STATUSES.get(test[3], FAILED)
            results.append((suites.named("", len(test[1]), test[2]), status))
        elif suite := _TEST_UNIT_SUITE.match(line):
            suites.enter(len(suite[1]), suite[2])
    reasons = blocks(lines, _TEST_UNIT_REASON, _TEST_UNIT_BREAK)
    details = {}
    for name, _ in results:
        *around, test_name = name.split(" > ")
        title = f"{test_name}({'::'.join(around)})"  # test_a(A::B) for A > B > test_a
        if title in reasons:
            details[name] = reasons[title]
    return ParsedOutput(
        worst(results), details, _ruby_passed(output), counts=True
    ).checked()


def parse_rspec(output: str) -> ParsedOutput:
    """Parse ``rspec --format documentation``: tests are named ``group > example``.

    Groups and passed examples look the same; what nothing is indented below is an example.
    """
    lines = output.split("\n")
    results = worst(_rspec_results(lines))
    reasons = blocks(lines, _RSPEC_REASON, _RSPEC_BREAK)
    titles = {name: name.replace(" > ", " ") for name in results}
    details = {
        name: reasons[title] for name, title in titles.items() if title in reasons
    }
    ends = _RSPEC_COUNT.findall(output)
    passed = sum(int(a) - int(b) - int(c or 0) for a, b, c in ends) if ends else None
    return ParsedOutput(results, details, passed, counts=True).checked()


def _rspec_results(lines: list[str]) -> Iterator[tuple[str, str]]:
    end = next(
        (n for n, line in enumerate(lines) if _RSPEC_END.match(line)), len(lines)
    )
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


RSPEC = RunnerSupport(
    re.compile(COMMAND_START + r"rspec(?!\S)"),
    suffixes=(".rb",),
    parsers=(parse_rspec, SUFFIXED.parse),
    report_parsers=(parse_json,),
    parser_names=("rspec",),
    reports=("-f", "--format"),
    report_option="--format json",
    whole=WholeSuite(
        re.compile(_PROGRAM + r"rspec(?= |$)"),
        re.compile(r"--(?:no-color|format=\w+)"),
        frozenset({"--format", "-f"}),
    ),
    program=re.compile(r"rspec"),
    values=frozenset(
        {"-f", "--format", "-r", "--require", "-I", "-O", "--options", "-o"}
    )
    | {
        "--out",
        "-t",
        "--tag",
        "-P",
        "--pattern",
        "-e",
        "--example",
        "--seed",
        "--order",
    },
)


MINITEST = RunnerSupport(
    re.compile(
        COMMAND_START
        + r"(?:rake(?:\s+\S+)*?\s+test|rails\s+test|ruby\s+(?:\S+\s+)*?\S*test)"
    ),
    suffixes=(".rb",),
    parsers=(parse_minitest, parse_test_unit),
    parser_names=("minitest", "ruby_unit"),
    swebench_parser="parse_log_minitest",
    reports=("TESTOPTS=", "-v", "--verbose"),
    report_option="-v",
    with_option=_ruby_with_option,
    one_file=ruby_file,
)


RUBY_TESTS = Convention(
    (".rb",),
    re.compile(
        r"(?:^|/)(?P<subject>[^/]+)_(?:test|spec)\.rb$|(?:^|/)test_(?P<behind>[^/]+)\.rb$"
        r"|(?:^|/)test/(?:.*/)?tc?_(?P<inside>[^/]+)\.rb$"
    ),
    (
        r"""require(?:_relative)?\s*\(?\s*['"][^'"\n]*\b{stem}(?:\.rb)?['"]""",
        r"\b{camel}\b",
    ),
)
