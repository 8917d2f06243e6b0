"""From test output to results per test: by report files, swebench's parsers or those for others.

pytest writes its report outside the tree under a random name, and it is printed after the run. Code
in pytest's process could still find the file: see docs/environments.md. Of unittest and Django's
runner the results are those that their result object got. sympy's mixes its lines with the output
of the code under test, which can only add lines: it also counts the tests at the end and prints a
heading per failure, and its results are checked against these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from types import SimpleNamespace
from typing import Any
from xml.etree.ElementTree import Element

from swe_retry.frameworks import (
    OF_PYTHON,
    SUPPORT,
    ParsedOutput,
    Runner,
    parse_output,
    runner_of,
)
from swe_retry.frameworks.documents import (
    XML_STATUSES,
    cases_of,
    parse_xml,
    problems_of,
)
from swe_retry.frameworks.results import (
    FAILED,
    PASSED,
    XFAIL,
    limit_lines,
    worst_statuses,
)
from swe_retry.instances.instance import Instance
from swe_retry.testing.origins import Statements, split_statements, with_statements

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
# pytest before 4.1 gives no type, and this message.
_OLD_XFAIL = "expected test failure"


def split_report(output: str, token: str) -> tuple[str, str]:
    """Split the output of ``with_report_file`` into pytest's and the report, empty if missing.

    The line in which pytest names the report is removed, because it differs in each run.
    """
    log, separator, report = output.rpartition(f"\n{token}\n")
    if not separator:
        log = output
        report = ""
    lines = [line for line in log.splitlines(keepends=True) if token not in line]
    return "".join(lines), report.strip()


def report_results(report: str, files: Collection[str]) -> dict[str, str]:
    """Return swebench's status per node id; empty for an incomplete report.

    ``files`` are those of the tree: the report does not say where the name of a file ends.
    """
    # Files by their names in the report: ``docs.a.txt`` for doctests, and ``tests.test_a``.
    modules = {path.replace("/", "."): path for path in files}
    for path in files:
        if path.endswith(".py"):
            module = path.removesuffix(".py")
            modules[module.replace("/", ".")] = path
    pairs = []
    for case in cases_of(report):
        classname = case.get("classname", "")
        name = _node_id(classname, case.get("name", ""), modules)
        if name:  # the test that pytest.exit or an interrupt ended has none
            problems = problems_of(case)
            if not problems:
                pairs.append((name, PASSED))
            for problem in problems:
                pairs.append((name, _status_of(problem)))
    return worst_statuses(pairs)


def _status_of(problem: Element) -> str:
    expected = problem.get("type") == _XFAIL
    if problem.get("type") is None:
        expected = problem.get("message") == _OLD_XFAIL
    if problem.tag == "skipped" and expected:
        return XFAIL
    return XML_STATUSES[problem.tag]


def _node_id(classname: str, name: str, modules: Mapping[str, str]) -> str:
    """Return ``tests/test_a.py::TestX::test_b[1]`` for ``tests.test_a.TestX`` and ``test_b[1]``."""
    if not classname:
        return modules.get(name, name)  # a file that cannot be imported
    module = classname
    parts = [name]
    while module and module not in modules:
        module, _, inner = module.rpartition(".")
        if inner != "()":  # pytest before 4.0 counts the instance of a nested class
            parts.insert(0, inner)
    if not module:
        return f"{classname}::{name}"
    return "::".join([modules[module], *parts])


# In a pipe, sympy wraps its closing line at 80 columns and ignores COLUMNS.
_SYMPY_END = re.compile(
    r"(?m)^[= ]*tests finished: (\d+) passed,(?:[ \n]+[\w ]{1,60},){0,8}[ \n]+in [\d.]+ seconds",
)
# There are no underscores around a name as long as the line.
_SYMPY_HEADING = re.compile(r"(?m)^_* (\S+\.py:(\w+)) _*$")
# sympy puts the result of a long name on the next line, and a file's result after its last test.
_SYMPY_WRAPPED = re.compile(r"(?m)^(test_\w+) \n(?=(?:ok|E|F)(?: +\[\w+\])?$)")
_SYMPY_LAST = re.compile(r"(?m)^(test_\w+ (?:ok|E|F)) +\[(?:OK|FAIL)\]$")
_MAX_LINE = 500
_NOTE = "Testing against Django installed in"
_MAX_NOTES = 100


def limited_output(output: str) -> str:
    """Limit ``output`` so that swebench's parsers end in time.

    Some of their patterns take time by the square of a line's length, or of the number of lines
    that look like a certain note of Django. Lines that name a test are shorter.
    """
    if output.count(_NOTE) > _MAX_NOTES:
        return ""
    return limit_lines(output, _MAX_LINE)


def one_per_line(output: str) -> str:
    """Return sympy's ``output`` with each test and its result on one line.

    Otherwise swebench's parser misses tests with long names and the last test of each file.
    """
    output = _SYMPY_WRAPPED.sub(r"\1 ", output)
    return _SYMPY_LAST.sub(r"\1", output)


def cross_check(results: Mapping[str, str], output: str) -> dict[str, str]:
    """Return the ``results`` that the rest of sympy's ``output`` confirms.

    A test with an explained failure has failed, whatever its result line says. Nothing is known if
    more tests passed than the runner counted, or without exactly one count.
    """
    corrected = dict(results)
    failed = chain.from_iterable(_SYMPY_HEADING.findall(output))
    corrected.update(dict.fromkeys(corrected.keys() & failed, FAILED))
    counts = _SYMPY_END.findall(output)
    if len(counts) != 1:
        return {}
    if len(passing_tests(corrected)) > int(counts[0]):
        return {}
    return corrected


Results = Mapping[str, str]
"""Test name to swebench's status: PASSED, FAILED, ERROR, SKIPPED, XFAIL."""


def fallback_parser(repo: str, command: str) -> str:
    """Return the name of swebench's parser for ``repo``, or for the output of ``command``."""
    name = _parser_names().get(repo, "")
    if name in _registry():
        return name
    return SUPPORT[runner_of(command) or Runner.PYTEST].swebench_parser


LogParser = Callable[[str, Any], dict[str, str]]
"""A parser of swebench, which takes a log and a test specification."""


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
    stated: Statements = field(default_factory=dict)
    report: str = ""


def with_report_file(
    command: str,
    runner: Runner,
    token: str,
    show: Sequence[str] = (),
) -> str:
    """Return the command whose output ``read_run`` reads with the same ``token``.

    Code under test prints into this output. ``token`` is a new random word per run, unknown to it.
    The shell lines ``show`` print what the command has written elsewhere.
    """
    if runner in OF_PYTHON:
        command = with_statements(command, token, runner)
    suffix = "".join(f"\n{line}" for line in show)
    script = "{command}{show}"
    if SUPPORT[runner].writes_reports:
        script = _SCRIPT_OF_MANY
    elif runner is Runner.PYTEST:
        script = _SCRIPT
    return script.format(command=command, token=token, show=suffix)


def read_run(
    output: str,
    instance: Instance,
    runner: Runner,
    token: str,
    files: Collection[str],
) -> TestRun:
    """Read the output of a command of ``with_report_file``; ``files`` are those of the tree."""
    if runner not in OF_PYTHON:
        return _other_run(output, instance, runner, token)
    output, stated = split_statements(output, token)
    if runner is Runner.PYTEST:
        log, report = split_report(output, token)
        results = report_results(report, files)
        return TestRun(log, results, stated=stated, report=report)
    if runner is not Runner.SYMPY:
        results = results_in(stated)
        return TestRun(output, results, stated=stated)
    text = limited_output(output)
    parsers = _registry()
    usual = SUPPORT[runner].swebench_parser
    parse = parsers.get(instance.log_parser or usual, parsers[usual])
    parsed = parse(one_per_line(text), _specification(instance))
    results = cross_check(parsed, text)
    return TestRun(output, results, stated=stated)


def results_in(stated: Statements) -> dict[str, str]:
    """Return the results that unittest's runner got; empty for a run without an end."""
    tests = stated.get("end", {}).get("tests", ())
    try:
        return worst_statuses((str(name), status) for name, status in tests)
    except (TypeError, ValueError):
        return {}


def _other_run(output: str, instance: Instance, runner: Runner, token: str) -> TestRun:
    log = output
    parsed = ParsedOutput()
    if SUPPORT[runner].writes_reports:
        log, reports = split_report(output, token)
        parsed = parse_xml(reports)
    # The set knows better than a guess what a script prints.
    if not parsed.results and runner is Runner.SCRIPT:
        parsed = ParsedOutput(_results_by_set(log, instance))
    if not parsed.results:
        parsed = parse_output(log, runner)
    return TestRun(log, parsed.results, parsed.details)


def _results_by_set(log: str, instance: Instance) -> dict[str, str]:
    """Return what the parser reads that the row names; empty without one, or if it fails."""
    parse = _registry().get(instance.log_parser)
    if parse is None:
        return {}
    try:
        return dict(parse(limited_output(log), _specification(instance)))
    except (ValueError, LookupError, TypeError, AttributeError, SyntaxError):
        return {}


def _specification(instance: Instance) -> SimpleNamespace:
    """Return what stands in for the specification, which parsers for Python ignore."""
    return SimpleNamespace(repo=instance.repo, version=instance.version)


@cache
def _registry() -> Mapping[str, LogParser]:
    from swebench.harness.log_parsers import PARSER_REGISTRY

    registry: Mapping[str, LogParser] = PARSER_REGISTRY
    return registry


@cache
def _parser_names() -> Mapping[str, str]:
    """Return the names of swebench's parsers by repository, from its tables for each language."""
    from swebench.harness import log_parsers

    names = {}
    for module in vars(log_parsers).values():
        for table in dir(module):
            if table.startswith("MAP_REPO_TO_PARSER_"):
                for repo, parse in getattr(module, table).items():
                    names[repo] = parse.__name__
    return names


def passing_tests(results: Results) -> frozenset[str]:
    return frozenset(name for name in results if results[name] == PASSED)


def failed_test_names(results: Results) -> list[str]:
    """Return the names of the tests that fail, sorted."""
    return sorted(name for name in results if results[name] in ("FAILED", "ERROR"))


def describe_results(results: Results) -> str:
    """Return how many tests pass, fail and are skipped."""
    passed = len(passing_tests(results))
    failed = len(failed_test_names(results))
    skipped = len(results) - passed - failed
    text = f"{passed} pass, {failed} fail"
    if skipped:
        text += f", {skipped} are skipped"
    return text


def missing_passes(before: Results, after: Results) -> frozenset[str]:
    """Return the tests that pass in ``before``, and of which ``after`` does not say that."""
    return passing_tests(before) - passing_tests(after)
