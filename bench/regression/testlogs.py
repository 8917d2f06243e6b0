"""From test output to results per test: by report files, swebench's parsers or those for others.

pytest writes its report outside the tree under a random name, and it is printed after the run. Code
in pytest's process could still find the file: see docs/environments.md. Other runners of Python mix
their lines with the output of the code under test, which can only add lines: they also count the
tests at the end and print a heading per failure, and their results are checked against these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from bench.instances.instance import Instance
from bench.regression.runners import (
    OF_PYTHON,
    SUPPORT,
    ParsedOutput,
    Runner,
    parse_output,
    runner_of,
)
from bench.regression.runners.base import PASSED, XFAIL, worst
from bench.regression.runners.documents import XML_STATUSES, cases_of, parse_xml
from bench.regression.statements import Stated, split_statements, stating

_SCRIPT = """{command} --junitxml=/tmp/{token}.xml
code=$?{show}
printf '\\n%s\\n' {token}
cat /tmp/{token}.xml 2>/dev/null
rm -f /tmp/{token}.xml
exit $code"""
# Reports of an earlier build may lie in the image.
_SCRIPT_OF_MANY = """: >/tmp/{token}
{command}
code=$?{show}
printf '\\n%s\\n' {token}
find . \\( -path '*/surefire-reports/TEST-*.xml' -o -path '*/failsafe-reports/TEST-*.xml' \
-o -path '*/build/test-results/*.xml' \\) -newer /tmp/{token} -exec cat {{}} + 2>/dev/null
rm -f /tmp/{token}
exit $code"""
_XFAIL = "pytest.xfail"
_OLD_XFAIL = (
    "expected test failure"  # pytest before 4.1 gives no type, and this message
)


def split_report(output: str, token: str) -> tuple[str, str]:
    """Split the output of ``with_report_file`` into pytest's and the report, empty if missing.

    The line in which pytest names the report is removed, because it differs in each run.
    """
    before, found, after = output.rpartition(f"\n{token}\n")
    log, report = (before, after.strip()) if found else (output, "")
    return "".join(
        line for line in log.splitlines(keepends=True) if token not in line
    ), report


def report_results(report: str, files: Collection[str]) -> dict[str, str]:
    """Return swebench's status per node id; empty for an incomplete report.

    ``files`` are those of the tree: the report does not say where the name of a file ends.
    """
    # Files by their names in the report: ``tests.test_a``, and ``docs.a.txt`` for doctests.
    modules = {path.replace("/", "."): path for path in files}
    modules |= {
        p.removesuffix(".py").replace("/", "."): p for p in files if p.endswith(".py")
    }
    found: list[tuple[str, str]] = []
    for case in cases_of(report):
        name = _node_id(case.get("classname", ""), case.get("name", ""), modules)
        if name:  # the test that pytest.exit or an interrupt ended has none
            statuses = []
            for child in (one for one in case if one.tag in XML_STATUSES):
                kind, message = child.get("type"), child.get("message")
                expected = kind == _XFAIL or (kind is None and message == _OLD_XFAIL)
                failed_as_expected = child.tag == "skipped" and expected
                statuses.append(
                    XFAIL if failed_as_expected else XML_STATUSES[child.tag]
                )
            found += [(name, status) for status in statuses or [PASSED]]
    return worst(found)


def _node_id(classname: str, name: str, modules: dict[str, str]) -> str:
    """Return ``tests/test_a.py::TestX::test_b[1]`` for ``tests.test_a.TestX`` and ``test_b[1]``."""
    if not classname:
        return modules.get(name, name)  # a file that cannot be imported
    module, classes = classname, list[str]()
    while module and module not in modules:
        module, _, last = module.rpartition(".")
        if last != "()":  # pytest before 4.0 counts the instance of a nested class
            classes.insert(0, last)
    return "::".join([modules[module], *classes, name] if module else [classname, name])


_UNITTEST_END = re.compile(
    r"^Ran (\d+) tests? in [\d.]+s\n\n(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$", re.M
)
_UNITTEST_HEADING = re.compile(r"^=+\n(?:FAIL|ERROR): ((?:.+\n){1,3}?)-{10,}$", re.M)
_STEP_OF_CLASS = re.compile(r"^(?:setUp|tearDown)(?:Class|Module) ")
_SUBTEST = re.compile(r"^(\S+ \(\S+\)) [\[(].*")
_SKIPPED = re.compile(r"\bskipped=(\d+)")
# In a pipe, sympy wraps its closing line at 80 columns and ignores COLUMNS.
_SYMPY_END = re.compile(
    r"^[= ]*tests finished: (\d+) passed,(?:[ \n]+[\w ]{1,60},){0,8}[ \n]+in [\d.]+ seconds",
    re.M,
)
# There are no underscores around a name as long as the line.
_SYMPY_HEADING = re.compile(r"^_* (\S+\.py:(\w+)) _*$", re.M)
# sympy puts the result of a long name on the next line, and a file's result after its last test.
_SYMPY_WRAPPED = re.compile(r"^(test_\w+) \n(?=(?:ok|E|F)(?: +\[\w+\])?$)", re.M)
_SYMPY_LAST = re.compile(r"^(test_\w+ (?:ok|E|F)) +\[(?:OK|FAIL)\]$", re.M)
# Before 3.11 Python prints no line end after failing subtests: "a (A) ... b (A) ... ok".
_UNITTEST_GLUED = re.compile(r"^.* \.\.\. (?=\w+ \([\w.]+\)(?: \.\.\. |$))", re.M)
_LONGEST_LINE = 500
_NOTE, _MOST_NOTES = "Testing against Django installed in", 100


def limited_output(output: str) -> str:
    """Limit ``output`` so that swebench's parsers end in time.

    Some of their patterns take time by the square of a line's length, or of the number of lines
    that look like a certain note of Django. Lines that name a test are shorter.
    """
    if output.count(_NOTE) > _MOST_NOTES:
        return ""
    return "\n".join(line[:_LONGEST_LINE] for line in output.split("\n"))


def one_per_line(output: str, runner: Runner) -> str:
    """Return ``output`` with each test and its result on one line, as swebench's parsers expect.

    Otherwise they miss sympy's tests with long names and the last test of each file, and merge two
    tests of unittest into one, which disappears once a failing subtest is fixed.
    """
    if runner is Runner.SYMPY:
        return _SYMPY_LAST.sub(r"\1", _SYMPY_WRAPPED.sub(r"\1 ", output))
    return _UNITTEST_GLUED.sub("", output)


def cross_checked(
    results: Mapping[str, str], output: str, runner: Runner
) -> dict[str, str]:
    """Return the ``results`` that the rest of ``output`` confirms.

    A test with an explained failure has failed, whatever its result line says. Nothing is known if
    more tests passed or were skipped than the runner counted, or without exactly one count.
    """
    if runner is Runner.SYMPY:
        names = {name for pair in _SYMPY_HEADING.findall(output) for name in pair}
        kept = _with_failed(results, names)
        counts = [int(number) for number in _SYMPY_END.findall(output)]
        return kept if len(counts) == 1 and _count(kept, PASSING) <= counts[0] else {}
    headings = [heading.splitlines() for heading in _UNITTEST_HEADING.findall(output)]
    failed = {_SUBTEST.sub(r"\1", lines[0]) for lines in headings}
    # In one of the two places the first line of a docstring may replace the name.
    kept = _with_failed(
        results, failed | {line for lines in headings for line in lines[1:]}
    )
    ends = _UNITTEST_END.findall(output)
    if len(ends) != 1:
        return {}
    (ran, remarks) = ends[0]
    counted = {name for name in failed if not _STEP_OF_CLASS.match(name)}
    skipped = _SKIPPED.search(remarks)
    may_skip = int(skipped.group(1)) if skipped else 0
    enough = _count(kept, PASSING) <= int(ran) - len(counted)
    return kept if enough and _count(kept, ("SKIPPED",)) <= may_skip else {}


def _with_failed(results: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {
        name: "FAILED" if name in names else status for name, status in results.items()
    }


def _count(results: Mapping[str, str], statuses: Collection[str]) -> int:
    return sum(status in statuses for status in results.values())


Results = Mapping[str, str]
"""Test name to swebench's status: PASSED, FAILED, ERROR, SKIPPED, XFAIL."""

PASSING = frozenset({"PASSED", "XFAIL"})
# As in swebench's grading of PASS_TO_PASS: a skipped test is not a regression.
_MAINTAINED = PASSING | {"SKIPPED"}


def fallback_parser(command: str) -> str:
    """Return the name of swebench's parser for the output of ``command``."""
    return SUPPORT[runner_of(command) or Runner.PYTEST].swebench_parser


@dataclass(frozen=True)
class _Parsed:
    """Stands in for the test specification, which swebench's parsers for Python ignore."""

    repo: str = ""
    version: str = ""


@dataclass(frozen=True)
class TestRun:
    """The output of a runner and its results.

    Attributes:
        results: status per test; empty if the output contradicts itself or was cut off.
        details: why tests failed, where the parser knows; not for runners of Python.
        stated: where its modules come from; only for runners of Python.
    """

    __test__ = False

    log: str
    results: Results
    details: Mapping[str, str] = field(default_factory=dict)
    stated: Stated = field(default_factory=dict)
    report: str = ""


def with_report_file(
    command: str, runner: Runner, token: str, show: Sequence[str] = ()
) -> str:
    """Return the command whose output ``read_run`` reads with the same ``token``.

    Code under test prints into this output. ``token`` is a new random word per run, unknown to it.
    The shell lines ``show`` print what the command has written elsewhere.
    """
    shown = "".join(f"\n{line}" for line in show)
    if runner in OF_PYTHON:
        command = stating(command, token, runner)
    if SUPPORT[runner].writes_reports:
        return _SCRIPT_OF_MANY.format(command=command, token=token, show=shown)
    if runner is Runner.PYTEST:
        return _SCRIPT.format(command=command, token=token, show=shown)
    return command + shown


def read_run(
    output: str, instance: Instance, runner: Runner, token: str, files: Collection[str]
) -> TestRun:
    """Read the output of a command of ``with_report_file``; ``files`` are those of the tree."""
    if runner not in OF_PYTHON:
        return _other_run(output, instance, runner, token)
    output, stated = split_statements(output, token)
    if runner is Runner.PYTEST:
        log, report = split_report(output, token)
        return TestRun(log, report_results(report, files), stated=stated, report=report)
    text, parsers = limited_output(output), _registry()
    usual = SUPPORT[runner].swebench_parser
    parser = parsers.get(instance.log_parser or usual, parsers[usual])
    parsed = parser(
        one_per_line(text, runner), _Parsed(instance.repo, instance.version)
    )
    return TestRun(output, cross_checked(parsed, text, runner), stated=stated)


def _other_run(output: str, instance: Instance, runner: Runner, token: str) -> TestRun:
    log, reports = (
        split_report(output, token) if SUPPORT[runner].writes_reports else (output, "")
    )
    parsed = parse_xml(reports)
    # The set knows better than a guess what a script prints.
    if (
        not parsed.results
        and runner is Runner.SCRIPT
        and instance.log_parser
        and instance.log_parser in _registry()
    ):
        parser = _registry()[instance.log_parser]
        with suppress(ValueError, LookupError, TypeError, AttributeError, SyntaxError):
            found = parser(
                limited_output(log), _Parsed(instance.repo, instance.version)
            )
            parsed = ParsedOutput(dict(found))
    if not parsed.results:
        parsed = parse_output(log, runner)
    return TestRun(log, parsed.results, parsed.details)


@cache
def _registry() -> Mapping[str, Callable[[str, Any], dict[str, str]]]:
    from swebench.harness.log_parsers import PARSER_REGISTRY

    registry: Mapping[str, Callable[[str, Any], dict[str, str]]] = PARSER_REGISTRY
    return registry


def passing(results: Results) -> frozenset[str]:
    return frozenset(name for name, status in results.items() if status in PASSING)


def failing(results: Results) -> list[str]:
    """Return the names of the tests that fail, sorted."""
    return sorted(
        name for name, status in results.items() if status in ("FAILED", "ERROR")
    )


def results_in_words(results: Results) -> str:
    """Return how many tests pass, fail and are skipped."""
    passed, failed = len(passing(results)), len(failing(results))
    skipped = len(results) - passed - failed
    return f"{passed} pass, {failed} fail" + (
        f", {skipped} are skipped" if skipped else ""
    )


def broken(before: Results, after: Results) -> tuple[str, ...]:
    """Return the sorted tests that pass in ``before`` and neither pass nor skip in ``after``."""
    fine = {name for name, status in after.items() if status in _MAINTAINED}
    return tuple(sorted(passing(before) - fine))
