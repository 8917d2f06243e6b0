"""The test runners: one table says how each is recognized, started, reported and read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from swe_retry.frameworks import compiled, documents, javascript, jvm, native, scripting
from swe_retry.frameworks.noise import without_escapes
from swe_retry.frameworks.results import ParsedOutput, limit_lines
from swe_retry.frameworks.support import OF_PYTHON, Runner, RunnerSupport, support_of

__all__ = [
    "OF_PYTHON", "SUPPORT", "ParsedOutput", "Runner", "may_hold_tests",
    "parse_output", "runner_of", "runner_of_parser",
]  # fmt: skip

# Before all others, and in this order.
_BY_STATEMENTS = (Runner.DJANGO, Runner.SYMPY, Runner.PYTEST, Runner.UNITTEST)
_BY_LINES = (
    compiled.GO,
    compiled.CARGO,
    javascript.VITEST,
    javascript.JEST,
    javascript.MOCHA,
    javascript.NODE,
    jvm.MAVEN,
    jvm.GRADLE,
    scripting.PHPUNIT,
    scripting.RSPEC,
    scripting.MINITEST,
)
_LINE_PARSERS = chain.from_iterable(support.parsers for support in _BY_LINES)
# A script may print in any format.
_SCRIPT = support_of(
    Runner.SCRIPT,
    parsers=tuple(
        dict.fromkeys((*_LINE_PARSERS, *native.OTHERS, *native.CTEST.parsers))
    ),
    report_parsers=(compiled.parse_go_json, documents.parse_json),
)
SUPPORT: Mapping[Runner, RunnerSupport] = {
    support.runner: support
    for support in (
        *map(support_of, _BY_STATEMENTS),
        *_BY_LINES,
        native.CTEST,
        _SCRIPT,
    )
}
"""By runner; the first that is found in a command decides."""


def runner_of(command: str) -> Runner | None:
    """Return the runner that ``command`` starts; None for an unknown one."""
    for runner, support in SUPPORT.items():
        if support.command.search(command):
            return runner
    return None


def runner_of_parser(name: str) -> Runner | None:
    """Return the runner whose output the parser called ``name`` reads; None for an unknown one."""
    for runner, support in SUPPORT.items():
        if any(part in name.lower() for part in support.parser_names):
            return runner
    return None


def may_hold_tests(runner: Runner, path: str) -> bool:
    """Return whether ``path`` may hold tests of ``runner``."""
    return path.endswith(SUPPORT[runner].suffixes)


def parse_output(output: str, runner: Runner) -> ParsedOutput:
    """Return the results in ``output``; empty where it holds none or contradicts itself.

    A runner may print in several formats. The one with the most results counts, because lines of
    one format may look like those of another.
    """
    text = without_escapes(output)
    short_lines = limit_lines(text)
    support = SUPPORT[runner]
    outputs = [ParsedOutput()]
    outputs += [parse(text) for parse in support.report_parsers]
    outputs += [parse(short_lines).if_consistent() for parse in support.parsers]
    return max(outputs, key=lambda parsed: len(parsed.results))
