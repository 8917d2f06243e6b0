"""From test output to results per test: by report files, swebench's parsers or those for others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from bench.instances.instance import Instance
from bench.regression.crosscheck import cross_checked, limited_output, one_per_line
from bench.regression.junit import report_results, split_report, with_report, with_reports
from bench.regression.runners import (
    OF_PYTHON,
    SUPPORT,
    ParsedOutput,
    Runner,
    parse_output,
    runner_of,
)
from bench.regression.runners.documents import parse_xml
from bench.regression.statements import Stated, split_statements, stating

Results = Mapping[str, str]
"""Test name to swebench's status: PASSED, FAILED, ERROR, SKIPPED, XFAIL."""

_PASSING = frozenset({"PASSED", "XFAIL"})
# As in swebench's grading of PASS_TO_PASS: a skipped test is not a regression.
_MAINTAINED = _PASSING | {"SKIPPED"}


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


def with_report_file(command: str, runner: Runner, token: str, show: Sequence[str] = ()) -> str:
    """Return the command whose output ``read_run`` reads with the same ``token``.

    Code under test prints into this output. ``token`` is a new random word per run, unknown to it.
    The shell lines ``show`` print what the command has written elsewhere.
    """
    if SUPPORT[runner].writes_reports:
        return with_reports(command, token, show)
    if runner is Runner.PYTEST:
        return with_report(stating(command, token, runner), token, show)
    if runner in OF_PYTHON:
        command = stating(command, token, runner)
    return "\n".join([command, *show])


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
    text = limited_output(output)
    parsed = _parsed(one_per_line(text, runner), instance, runner)
    return TestRun(output, cross_checked(parsed, text, runner), stated=stated)


def _other_run(output: str, instance: Instance, runner: Runner, token: str) -> TestRun:
    """Read the output of a runner of another language: its reports, or else what it printed."""
    log, reports = split_report(output, token) if SUPPORT[runner].writes_reports else (output, "")
    parsed = parse_xml(reports)
    # The set knows better than a guess what a script prints.
    if not parsed.results and runner is Runner.SCRIPT and instance.log_parser in _registry():
        parsed = ParsedOutput(_by_name(log, instance))
    if not parsed.results:
        parsed = parse_output(log, runner)
    return TestRun(log, parsed.results, parsed.details)


def _by_name(output: str, instance: Instance) -> dict[str, str]:
    parser = _registry()[instance.log_parser]
    try:
        return dict(parser(limited_output(output), _Parsed(instance.repo, instance.version)))
    except (ValueError, LookupError, TypeError, AttributeError, SyntaxError):
        return {}


def _parsed(output: str, instance: Instance, runner: Runner) -> dict[str, str]:
    parsers = _registry()
    usual = SUPPORT[runner].swebench_parser
    parser = parsers.get(instance.log_parser or usual, parsers[usual])
    return dict(parser(output, _Parsed(instance.repo, instance.version)))


@cache
def _registry() -> Mapping[str, Callable[[str, Any], dict[str, str]]]:
    from swebench.harness.log_parsers import PARSER_REGISTRY

    registry: Mapping[str, Callable[[str, Any], dict[str, str]]] = PARSER_REGISTRY
    return registry


def passing(results: Results) -> frozenset[str]:
    return frozenset(name for name, status in results.items() if status in _PASSING)


def broken(before: Results, after: Results) -> tuple[str, ...]:
    """Return the sorted tests that pass in ``before`` and neither pass nor skip in ``after``."""
    fine = {name for name, status in after.items() if status in _MAINTAINED}
    return tuple(sorted(passing(before) - fine))
