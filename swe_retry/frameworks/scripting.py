"""PHPUnit, RSpec, minitest and test-unit: tests in commands, output and files. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import zip_longest

from swe_retry.frameworks.documents import parse_json
from swe_retry.frameworks.results import (
    FAILED,
    FORMATS,
    PASSED,
    SKIPPED,
    STATUSES,
    NamedStatus,
    Nesting,
    ParsedOutput,
    blocks_below,
    explain,
    limit_details,
    matching_lines,
    worst_statuses,
)
from swe_retry.frameworks.shell import SimpleCommand, index_of, is_plain, quote_path
from swe_retry.frameworks.support import BaseTree, Runner, support_of

_TESTDOX_TEST = re.compile(r"^ ([✔✘↩∅☢⚠]) (.+?)(?: \[[\d.]+ m?s\])?$")
_TESTDOX_SUITE = re.compile(r"^[^\W\d][^:]*$")
_TESTDOX_LINE = re.compile(r"^   [│┐├┴] ?(.*)$")
_TESTDOX_END = re.compile(r"^(?:Summary of non-successful|There (?:was|were) \d)")
# The closing line may count them as passed.
_TESTDOX_ODD = re.compile(r"^ [☢⚠] ")
_PHPUNIT_COUNT = re.compile(r"(?m)^(?:OK \((\d+) tests?,|Tests: (\d+), .*)")
_PHPUNIT_BAD = re.compile(r"\b(?:Errors|Failures|Skipped|Incomplete): (\d+)")


def parse_testdox(output: str) -> ParsedOutput:
    """Parse ``phpunit --testdox``: tests are named ``class > test``."""
    pairs = []
    reasons = defaultdict(list)
    suite = ""
    name = ""
    before = ""
    odd = 0
    for line in output.split("\n"):
        test = _TESTDOX_TEST.match(line)
        reason = _TESTDOX_LINE.match(line)
        if _TESTDOX_END.match(line):
            break
        if _TESTDOX_ODD.match(line):
            odd += 1
        if test:
            name = f"{suite} > {test[2]}"
            pairs.append((name, STATUSES[test[1]]))
        elif pairs and reason:
            reasons[name].append(reason[1])
        elif not before and _TESTDOX_SUITE.match(line):
            suite = line
        before = line.strip()
    details = limit_details(reasons)
    passed = _testdox_passed(output)
    if passed is not None:
        passed -= odd
    results = worst_statuses(pairs)
    return ParsedOutput(results, details, passed, counts=True)


def _testdox_passed(output: str) -> int | None:
    passed = None
    for count in _PHPUNIT_COUNT.finditer(output):
        numbers = _PHPUNIT_BAD.findall(count[0])
        bad = sum(map(int, numbers))
        passed = (passed or 0) + int(count[1] or count[2]) - bad
    return passed


PHPUNIT = support_of(Runner.PHPUNIT, parsers=(parse_testdox,))


_MINITEST_TEST = re.compile(r"^(\S.*?#test_\S.*?) = (.*)$")
_MINITEST_END = re.compile(r"^(?:.*?\D)?\d+\.\d+ s = ([.FES])$")
_MINITEST_STATUSES = {".": PASSED, "S": SKIPPED}
# Groups: tests, failures, errors, the rest of the line.
_MINITEST_COUNT = re.compile(
    r"(?m)^(\d+) (?:runs|tests), \d+ assertions, (\d+) failures, (\d+) errors(.*)$",
)
_NOT_PASSED = re.compile(r"(\d+) (?:skips|pendings|omissions)")
_MINITEST_REASON = re.compile(r"^([^\s:]\S*(?: \S+)*?#test_.+?)(?: \[.*\])?:$")
_MINITEST_BREAK = re.compile(r"^  \d+\) |^\d+ (?:runs|tests), ")
_TEST_UNIT_SUITE = re.compile(r"^( *)(\S.*): $")
_TEST_UNIT_TEST = re.compile(r"^( +)(\S.*?):\t+([.EFOPN])(?:: \([\d.]+\))?$")
_TEST_UNIT_STATUSES = {".": PASSED, "O": SKIPPED, "P": SKIPPED, "N": PASSED}
_TEST_UNIT_REASON = re.compile(r"^(?:Failure|Error): (test.*?\(\S+\))")
_TEST_UNIT_BREAK = re.compile(r"^={20,}$")
# Groups: indentation, title, mark.
_RSPEC_LINE = re.compile(r"^( *)(\S.*?)( \(FAILED - \d+\)| \(PENDING: .*\))?$")
_RSPEC_END = re.compile(r"^(?:Pending|Failures):|^Finished in ")
_RSPEC_COUNT = re.compile(r"(?m)^(\d+) examples?, (\d+) failures?(?:, (\d+) pending)?")
_RSPEC_REASON = re.compile(r"^  \d+\) (\S.*)$")
_RSPEC_BREAK = re.compile(r"^(?:Finished in |Failed examples:)")
_RAKE = re.compile("rake")
_RUBY = re.compile("rails|ruby")
_RAKE_TASK = re.compile(r"(?:test|spec)(?::\w+)*")


def ruby_file(command: SimpleCommand, path: str, _tree: BaseTree) -> str | None:
    """Run one file with ``rake test``, ``rails test`` or ``ruby``; None for other commands."""
    here = command.path_here(path)
    if not here:
        return None
    name = quote_path(here)
    if name is None:
        return None
    tokens = command.tokens
    rake = index_of(tokens, _RAKE)
    if rake is not None:
        has_task = any(map(_RAKE_TASK.fullmatch, tokens[rake + 1 :]))
        # rake reads a pattern.
        if not has_task or not is_plain(here):
            return None
        return command.with_tokens(*tokens, f"TEST={name}")
    program = index_of(tokens, _RUBY)
    if program is None or "-e" in tokens:
        return None
    arguments = tokens[program + 1 :]
    files = [token for token in arguments if token.endswith(".rb")]
    if tokens[program].endswith("rails"):
        others = [token for token in arguments if token not in files]
        return command.with_tokens(*tokens[: program + 1], *others, name)
    if len(files) != 1:
        return None
    index = tokens.index(files[0], program + 1)
    return command.with_tokens(*tokens[:index], name, *tokens[index + 1 :])


def _ruby_with_option(command: SimpleCommand, option: str) -> str:
    if index_of(command.tokens, _RAKE) is not None:
        option = f"TESTOPTS={option}"
    return command.with_option(option)


def parse_minitest(output: str) -> ParsedOutput:
    """Parse minitest with ``-v``: tests are named ``Class#test``."""
    lines = output.split("\n")
    pairs = []
    name = ""
    for line in lines:
        start = _MINITEST_TEST.match(line)
        if start:
            name = start[1]
        # The output of a test stands between its name and its result.
        end = _MINITEST_END.match(line)
        if name and end:
            status = _MINITEST_STATUSES.get(end[1], FAILED)
            pairs.append((name, status))
            name = ""
    results = worst_statuses(pairs)
    reasons = blocks_below(lines, _MINITEST_REASON, _MINITEST_BREAK)
    passed = _ruby_passed(output)
    return ParsedOutput(results, reasons, passed, counts=True)


def _ruby_passed(output: str) -> int | None:
    passed = None
    for tests, failures, errors, rest in _MINITEST_COUNT.findall(output):
        others = _NOT_PASSED.findall(rest)
        bad = sum(map(int, [failures, errors, *others]))
        passed = (passed or 0) + int(tests) - bad
    return passed


def parse_test_unit(output: str) -> ParsedOutput:
    """Parse test-unit with ``-v``: tests are named ``Class > test``."""
    lines = output.split("\n")
    pairs = []
    nesting = Nesting()
    for line in lines:
        test = _TEST_UNIT_TEST.match(line)
        suite = _TEST_UNIT_SUITE.match(line)
        if test:
            name = nesting.full_name(len(test[1]), test[2])
            status = _TEST_UNIT_STATUSES.get(test[3], FAILED)
            pairs.append((name, status))
        elif suite:
            nesting.enter(len(suite[1]), suite[2])
    results = worst_statuses(pairs)
    titles = {}
    for name in results:
        parts = name.split(" > ")
        suites = "::".join(parts[:-1])
        titles[name] = f"{parts[-1]}({suites})"  # test_a(A::B) for A > B > test_a
    details = explain(titles, blocks_below(lines, _TEST_UNIT_REASON, _TEST_UNIT_BREAK))
    passed = _ruby_passed(output)
    return ParsedOutput(results, details, passed, counts=True)


def parse_rspec(output: str) -> ParsedOutput:
    """Parse ``rspec --format documentation``: tests are named ``group > example``.

    Groups and passed examples look the same; what nothing is indented below is an example.
    """
    lines = output.split("\n")
    results = worst_statuses(_rspec_results(lines))
    titles = {name: name.replace(" > ", " ") for name in results}
    details = explain(titles, blocks_below(lines, _RSPEC_REASON, _RSPEC_BREAK))
    passed = None
    for examples, failures, pending in _RSPEC_COUNT.findall(output):
        bad = int(failures) + int(pending or 0)
        passed = (passed or 0) + int(examples) - bad
    return ParsedOutput(results, details, passed, counts=True)


def _rspec_results(lines: list[str]) -> Iterator[NamedStatus]:
    matches = matching_lines(_RSPEC_LINE, _rspec_lines(lines))
    groups: list[tuple[int, str]] = []
    for match, following in zip_longest(matches, matches[1:]):
        depth = len(match[1])
        if depth % 2:
            continue  # output of a test
        groups = [group for group in groups if group[0] < depth]
        if not match[3] and following and len(following[1]) > depth:
            groups.append((depth, match[2]))
        elif groups:
            titles = [title for _, title in groups]
            name = " > ".join([*titles, match[2]])
            yield name, _rspec_status(match[3])


def _rspec_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines that may name groups and examples."""
    before = ""
    for line in lines:
        if _RSPEC_END.match(line):
            return
        # A group that stands alone has an empty line above it; output of a test mostly has not.
        if line.startswith("  ") or not before:
            yield line
        before = line


def _rspec_status(mark: str | None) -> str:
    if not mark:
        return PASSED
    return FAILED if "FAILED" in mark else SKIPPED


RSPEC = support_of(
    Runner.RSPEC,
    parsers=(parse_rspec, FORMATS["suffixed"].parse),
    report_parsers=(parse_json,),
)


MINITEST = support_of(
    Runner.MINITEST,
    parsers=(parse_minitest, parse_test_unit),
    with_option=_ruby_with_option,
    one_file=ruby_file,
)
