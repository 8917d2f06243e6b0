"""The test runners: one table says how each is recognized, started, reported and read. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bench.regression.runners import compiled, documents, javascript, native, scripting
from bench.regression.runners.base import (
    LONGEST_LINE,
    OF_PYTHON,
    Convention,
    ParsedOutput,
    Runner,
    RunnerSupport,
    plain,
)

__all__ = [
    "CONVENTIONS", "OF_PYTHON", "SUPPORT", "ParsedOutput", "Runner", "can_take", "parse_output",
    "runner_of", "runner_of_parser",
]  # fmt: skip

_BY_LINES = (
    compiled.GO, compiled.CARGO, javascript.JEST, javascript.VITEST, javascript.MOCHA,
    javascript.NODE, compiled.MAVEN, compiled.GRADLE, scripting.PHPUNIT, scripting.RSPEC,
    scripting.MINITEST,
)  # fmt: skip
_EVERY = [parser for support in _BY_LINES for parser in support.parsers]
SUPPORT: Mapping[Runner, RunnerSupport] = {
    Runner.DJANGO: RunnerSupport(
        re.compile(r"\bruntests\.py\b"), (".py",), swebench_parser="parse_log_django"
    ),
    Runner.SYMPY: RunnerSupport(
        re.compile(r"(^|[\s/])bin/test\b"), (".py",), swebench_parser="parse_log_sympy"
    ),
    Runner.PYTEST: RunnerSupport(
        re.compile(r"\b(pytest|py\.test|tox)\b"),
        (".py",),
        # pytest's -rA summary, names with spaces kept whole
        swebench_parser="parse_log_sphinx",
    ),
    Runner.UNITTEST: RunnerSupport(
        re.compile(r"\bunittest\b"), (".py",), swebench_parser="parse_log_django"
    ),
    Runner.GO: compiled.GO,
    Runner.CARGO: compiled.CARGO,
    Runner.VITEST: javascript.VITEST,
    Runner.JEST: javascript.JEST,
    Runner.MOCHA: javascript.MOCHA,
    Runner.NODE: javascript.NODE,
    Runner.MAVEN: compiled.MAVEN,
    Runner.GRADLE: compiled.GRADLE,
    Runner.PHPUNIT: scripting.PHPUNIT,
    Runner.RSPEC: scripting.RSPEC,
    Runner.MINITEST: scripting.MINITEST,
    Runner.CTEST: native.CTEST,
    # A script may print in any format.
    Runner.SCRIPT: RunnerSupport(
        re.compile(r"(?!)"),
        parsers=tuple(dict.fromkeys((*_EVERY, *native.OTHERS, *native.CTEST.parsers))),
        report_parsers=(compiled.parse_go_json, documents.parse_json),
        writes_reports=True,
    ),
}
"""By runner; the first that is found in a command decides."""

CONVENTIONS: tuple[Convention, ...] = (
    compiled.GO_TESTS,
    compiled.RUST_TESTS,
    compiled.JVM_TESTS,
    javascript.JAVASCRIPT_TESTS,
    native.C_TESTS,
    scripting.PHP_TESTS,
    scripting.RUBY_TESTS,
)
"""How languages name tests; those of Python are chosen by ``related``."""


def runner_of(command: str) -> Runner | None:
    """Return the runner that ``command`` starts; None for an unknown one."""
    return next(
        (runner for runner, one in SUPPORT.items() if one.command.search(command)), None
    )


def runner_of_parser(name: str) -> Runner | None:
    """Return the runner whose output the parser called ``name`` reads; None for an unknown one."""
    named = (
        (part, runner) for runner, one in SUPPORT.items() for part in one.parser_names
    )
    return next((runner for part, runner in named if part in name.lower()), None)


def can_take(runner: Runner, path: str) -> bool:
    """Return whether ``path`` may hold tests of ``runner``."""
    return path.endswith(SUPPORT[runner].suffixes)


def parse_output(output: str, runner: Runner) -> ParsedOutput:
    """Return the results in ``output``; empty where it holds none or contradicts itself.

    A runner may print in several formats. The one with the most results counts, because lines of
    one format may look like those of another.
    """
    text = plain(output)
    cut = "\n".join(line[:LONGEST_LINE] for line in text.split("\n"))
    found = [parser(text) for parser in SUPPORT[runner].report_parsers]
    found += [parser(cut) for parser in SUPPORT[runner].parsers]
    return max(found, key=lambda one: len(one.results), default=ParsedOutput())
