"""Test output to results per test, with swebench's own parsers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

from bench.instances import Instance

Results = Mapping[str, str]
"""Test name to swebench's status: PASSED, FAILED, ERROR, SKIPPED, XFAIL."""

_PASSING = frozenset({"PASSED", "XFAIL"})
# As in swebench's grading of PASS_TO_PASS: a test that is skipped now is not a regression.
_MAINTAINED = _PASSING | {"SKIPPED"}


class Runner(str, Enum):
    """The kinds of test runners that the benchmark's repositories use."""

    PYTEST = "pytest"
    DJANGO = "django"
    SYMPY = "sympy"
    UNITTEST = "unittest"


_FALLBACK_PARSERS = {
    Runner.PYTEST: "parse_log_sphinx",  # pytest's -rA summary, names with spaces kept whole
    Runner.DJANGO: "parse_log_django",
    Runner.SYMPY: "parse_log_sympy",
    Runner.UNITTEST: "parse_log_django",
}
_COMMANDS = (
    (re.compile(r"\bruntests\.py\b"), Runner.DJANGO),
    (re.compile(r"(^|[\s/])bin/test\b"), Runner.SYMPY),
    (re.compile(r"\b(pytest|py\.test|tox)\b"), Runner.PYTEST),
    (re.compile(r"\bunittest\b"), Runner.UNITTEST),
)


def runner_of(command: str) -> Runner | None:
    """Return the kind of runner that ``command`` starts, None for an unknown one."""
    return next((runner for pattern, runner in _COMMANDS if pattern.search(command)), None)


def fallback_parser(command: str) -> str:
    """Return the name of swebench's parser for the output of ``command``."""
    return _FALLBACK_PARSERS[runner_of(command) or Runner.PYTEST]


@dataclass(frozen=True)
class _Parsed:
    """What swebench's parsers want to see of a test specification: nothing, for Python."""

    repo: str = ""
    version: str = ""


def parse_results(output: str, instance: Instance, runner: Runner) -> Results:
    """Return the results per test in ``output``: by the row's parser, else by the runner's."""
    parsers = _registry()
    name = instance.log_parser or _FALLBACK_PARSERS[runner]
    parser = parsers.get(name, parsers[_FALLBACK_PARSERS[runner]])
    return dict(parser(output, _Parsed(instance.repo, instance.version)))


@cache
def _registry() -> Mapping[str, Callable[[str, Any], dict[str, str]]]:
    from swebench.harness.log_parsers import PARSER_REGISTRY

    registry: Mapping[str, Callable[[str, Any], dict[str, str]]] = PARSER_REGISTRY
    return registry


def passing(results: Results) -> frozenset[str]:
    """Return the tests that pass."""
    return frozenset(name for name, status in results.items() if status in _PASSING)


def broken(before: Results, after: Results) -> tuple[str, ...]:
    """Return the tests that passed in ``before`` and neither pass nor skip in ``after``, sorted."""
    fine = {name for name, status in after.items() if status in _MAINTAINED}
    return tuple(sorted(passing(before) - fine))
