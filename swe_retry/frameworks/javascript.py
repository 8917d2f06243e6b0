"""jest, vitest, mocha, Node and TAP: tests in commands, output and files. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from swe_retry.frameworks.documents import parse_json
from swe_retry.frameworks.results import (
    FAILED,
    FORMATS,
    MAX_LINE,
    PASSED,
    SKIPPED,
    STATUSES,
    NamedStatus,
    Nesting,
    ParsedOutput,
    blocks_below,
    explain,
    limit_detail,
    limit_details,
    matching_lines,
    sum_numbers,
    worst_statuses,
)
from swe_retry.frameworks.support import Runner, support_of

_DURATION = r"(?: \(?\d+(?:\.\d+)? ?m?s\)?)?"
_JEST_FILE = re.compile(r"^(PASS|FAIL) +(?:.* )?(\S+\.\S+)(?: \([\d.]+ m?s\))?$")
_JEST_TEST = re.compile(rf"^ +([✓✔√✕×○✎]) (?:skipped |todo )?(.+?){_DURATION}$")
_JEST_COUNT = re.compile(r"(?m)^Tests: +(?:.*?(\d+) passed)?.*\d+ total$")
_JEST_REASON = re.compile(r"^  ● (\S.*)$")
_JEST_UNLOADED = "Test suite failed to run"
_JEST_END = re.compile(r"^(?:PASS|FAIL|Test Suites:) ")
_VITEST_TEST = re.compile(
    rf"^ *([✓×✗↓□❯]) (?:\|.*?\| )?(\S+\.\S+ > .+?)(?: \(retry x\d+\))?{_DURATION}$"
)
_VITEST_FILE = re.compile(
    rf"^ *([✓×✗❯↓]) (?:\|.*?\| )?(\S+\.\S+) +\((\d+).*\){_DURATION}$"
)
_VITEST_SUITE = re.compile(r"^ FAIL  (?:\|.*?\| )?(\S+\.\S+) \[ .* \]$")
_VITEST_COUNT = re.compile(r"(?m)^ +Tests +(?:.*?(\d+) passed)?.*\(\d+\)$")
_VITEST_REASON = re.compile(r"^ FAIL  (?:\|.*?\| )?(\S.*?)(?: \[ .* \])?$")
_VITEST_END = re.compile(r"^⎯+")
# Groups: indentation, mark, number of a failure, dash of a pending test, title.
_SPEC_TEST = re.compile(
    r"^( *)(?:([✓✔√✖✗×﹣])|(\d+\))|(-)) (.+?)(?: \(\d+(?:\.\d+)? ?m?s\)(?: # .*)?)?$"
)
# Lines without indentation are output of tests.
_SPEC_SUITE = re.compile(r"^(  +)(\S.*)$")
_SPEC_OPEN = re.compile(r"^( *)▶ (\S.*)$")
# mocha's explanations of failures begin with a number, or are indented by more.
_SPEC_AGAIN = re.compile(r"^  [^\s\d]")
_SPEC_END = re.compile(r"^(?: +\d+ (?:passing\b|tests? passed)|ℹ tests )")
_SPEC_NUMBER = re.compile(r"(?m)^  \d+\) ")
_SPEC_COUNT = re.compile(r"^(?: +(\d+) (?:passing\b.*|tests? passed)|ℹ pass (\d+))$")
# Groups: indentation, not, number, title (in which `#` is escaped), directive.
_TAP_TEST = re.compile(
    r"^( *)(not )?ok\b *(\d*)(?: -)? ?([^#]*?(?:\\#[^#]*?)*)(?: +# *(.*))?$"
)
_TAP_SUBTEST = re.compile(r"^( *)# Subtest: (.+)$")
_TAP_NOISE = re.compile(
    r"^ *(?:---|\.\.\.|\d+\.\.\d+|duration_ms: .*|# (?:tests|pass|fail) +\d+)$"
)
_JEST_SPECIAL = re.compile(r"([\[\](){}^$*+?|\\])")


def parse_jest(output: str) -> ParsedOutput:
    """Parse jest with ``--verbose``: tests are named ``file > suite > test``.

    Without it, and where a file cannot be loaded, the file itself is the test.
    """
    lines = output.split("\n")
    results = worst_statuses(_jest_results(lines))
    reasons = blocks_below(lines, _JEST_REASON, _JEST_END)
    titles = {}
    tests = 0
    for name, status in results.items():
        title = name.partition(" > ")[2]
        if title:
            tests += 1
            if status == FAILED:
                titles[name] = title.replace(" > ", " › ")
        else:
            titles[name] = _JEST_UNLOADED
    passed = None
    if tests:
        passed = sum_numbers(_JEST_COUNT, output)
    return ParsedOutput(results, explain(titles, reasons), passed)


def _jest_results(lines: Iterable[str]) -> Iterator[NamedStatus]:
    file = ""
    status = PASSED
    tests = 0
    inside = False
    suites = Nesting()
    for line in [*lines, "PASS end.end"]:
        heading = _JEST_FILE.match(line)
        test = _JEST_TEST.match(line)
        depth = len(line) - len(line.lstrip())
        if heading:
            if file and not tests:
                yield file, status
            file = heading[2]
            status = FAILED if heading[1] == "FAIL" else PASSED
            tests = 0
            inside = True
            suites = Nesting(file)
        elif inside and test:
            tests += 1
            name = suites.full_name(depth, test[2])
            yield name, STATUSES[test[1]]
        elif inside and line.startswith("  ") and not line.startswith("  ●"):
            suites.enter(depth, line.strip())
        else:
            inside = False


def parse_vitest(output: str) -> ParsedOutput:
    """Parse vitest with ``--reporter=verbose``, with names as in ``parse_jest``.

    Other reporters name files that passed and no tests in them, so the files are the tests.
    """
    lines = output.split("\n")
    tests = matching_lines(_VITEST_TEST, lines)
    tested_files = {test[2].partition(" > ")[0] for test in tests}
    files = []
    for file in matching_lines(_VITEST_FILE, lines):
        if file[2] not in tested_files:
            files.append(file)
    pairs = []
    for match in [*tests, *files]:
        status = STATUSES.get(match[1], FAILED)
        pairs.append((match[2], status))
    for suite in matching_lines(_VITEST_SUITE, lines):
        pairs.append((suite[1], FAILED))
    results = worst_statuses(pairs)
    reasons = blocks_below(lines, _VITEST_REASON, _VITEST_END)
    details = explain({name: name for name in results}, reasons)
    passed = None
    if tests and not files:
        passed = sum_numbers(_VITEST_COUNT, output)
    return ParsedOutput(results, details, passed)


def parse_spec(output: str) -> ParsedOutput:
    """Parse the reporters called ``spec`` of mocha and Node: names are ``suite > test``."""
    lines = output.split("\n")
    passed = None
    for count in matching_lines(_SPEC_COUNT, lines):
        passed = (passed or 0) + int(count[1] or count[2])
    results = worst_statuses(_spec_results(lines))
    details = _spec_details(output)
    return ParsedOutput(results, details, passed, counts=True)


def _spec_results(lines: Iterable[str]) -> Iterator[NamedStatus]:
    nesting = Nesting()
    suites = set()
    inside = True
    for line in lines:
        opened = _SPEC_OPEN.match(line)
        test = _SPEC_TEST.match(line)
        suite = _SPEC_SUITE.match(line)
        if _SPEC_END.match(line):
            inside = False
        elif opened:
            depth = len(opened[1])
            suites.add(nesting.full_name(depth, opened[2]))
            nesting.enter(depth, opened[2])
        elif inside and test:
            name = nesting.full_name(len(test[1]), test[5])
            if name in suites:
                continue  # Node repeats a suite's name with its result
            if test[4] or line.endswith("# SKIP"):
                yield name, SKIPPED
            else:
                yield name, STATUSES.get(test[2], FAILED)
        elif suite:
            inside = inside or bool(_SPEC_AGAIN.match(line))
            nesting.enter(len(suite[1]), suite[2])


def _spec_details(output: str) -> dict[str, str]:
    """Return mocha's explanations: ``  1) suite``, ``       test:`` and the lines below."""
    details: dict[str, str] = {}
    explanations = output.partition(" failing\n")[2]
    for part in _SPEC_NUMBER.split(explanations)[1:]:
        titles, colon, reason = part.partition(":\n")
        if colon and len(titles) < MAX_LINE:
            parts = map(str.strip, titles.split("\n"))
            name = " > ".join(parts)
            details[name] = limit_detail(reason.split("\n"))
    return details


def parse_tap(output: str) -> ParsedOutput:
    """Parse TAP, with subtests as Node writes them."""
    pairs = []
    reasons = defaultdict(list)
    nesting = Nesting()
    failed = ""
    for line in output.split("\n")[:-1]:  # a line without its end may be cut off
        subtest = _TAP_SUBTEST.match(line)
        test = _TAP_TEST.match(line)
        if subtest:
            nesting.enter(len(subtest[1]), subtest[2])
            failed = ""
        elif test:
            title = test[4].strip() or f"test {test[3]}"
            name = nesting.full_name(len(test[1]), title)
            status = _tap_status(test)
            pairs.append((name, status))
            failed = name if status == FAILED else ""
        elif failed and not _TAP_NOISE.match(line):
            reasons[failed].append(line)
    details = limit_details(reasons)
    # Producers differ in whether suites and skipped tests count.
    return ParsedOutput(worst_statuses(pairs), details)


def _tap_status(test: re.Match[str]) -> str:
    directive = test[5] or ""
    if directive.upper().startswith(("SKIP", "TODO")):
        return SKIPPED
    return FAILED if test[2] else PASSED


JEST = support_of(
    Runner.JEST,
    parsers=(parse_jest, FORMATS["bracketed"].parse),
    report_parsers=(parse_json,),
    file_name=lambda path: _JEST_SPECIAL.sub(r"\\\1", path),
)


VITEST = support_of(
    Runner.VITEST,
    parsers=(parse_vitest,),
    report_parsers=(parse_json,),
)


MOCHA = support_of(
    Runner.MOCHA,
    parsers=(parse_spec, parse_tap),
    report_parsers=(parse_json,),
)


NODE = support_of(Runner.NODE, parsers=(parse_tap, parse_spec))
