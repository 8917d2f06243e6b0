"""The runners of tests, recognized by their commands or by the names of their parsers. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum


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

_SCRIPTS = (".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts")
_JVM = (".java", ".kt", ".groovy", ".scala")
_SUFFIXES: Mapping[Runner, tuple[str, ...]] = {
    **dict.fromkeys(OF_PYTHON, (".py",)),
    **dict.fromkeys((Runner.JEST, Runner.VITEST, Runner.MOCHA, Runner.NODE), _SCRIPTS),
    **dict.fromkeys((Runner.MAVEN, Runner.GRADLE), _JVM),
    **dict.fromkeys((Runner.RSPEC, Runner.MINITEST), (".rb",)),
    Runner.GO: (".go",),
    Runner.CARGO: (".rs",),
    Runner.PHPUNIT: (".php",),
}
# The words of each runner in a command; the first that is found decides.
_START = r"(?:^|[\s/;&|(])"
_PATTERNS = (
    (re.compile(r"\bruntests\.py\b"), Runner.DJANGO),
    (re.compile(r"(^|[\s/])bin/test\b"), Runner.SYMPY),
    (re.compile(r"\b(pytest|py\.test|tox)\b"), Runner.PYTEST),
    (re.compile(r"\bunittest\b"), Runner.UNITTEST),
    (re.compile(_START + r"go(?:\.exe)?\s+test(?!\S)"), Runner.GO),
    (re.compile(_START + r"cargo(?:\s+\+\S+)?\s+(?:nextest\s+run|test)(?!\S)"), Runner.CARGO),
    (re.compile(_START + r"vitest(?:\.mjs)?(?!\S)"), Runner.VITEST),
    (re.compile(_START + r"jest(?:\.js)?(?!\S)"), Runner.JEST),
    (re.compile(_START + r"_?mocha(?:\.js)?(?!\S)"), Runner.MOCHA),
    (re.compile(_START + r"node\s+(?:\S+\s+)*?--test(?!\S)"), Runner.NODE),
    (re.compile(_START + r"mvn[dw]?(?:\.sh)?(?!\S)"), Runner.MAVEN),
    (re.compile(_START + r"gradlew?(?!\S)"), Runner.GRADLE),
    (re.compile(_START + r"phpunit(?:\.phar)?(?!\S)"), Runner.PHPUNIT),
    (re.compile(_START + r"rspec(?!\S)"), Runner.RSPEC),
    (
        re.compile(_START + r"(?:rake(?:\s+\S+)*?\s+test|rails\s+test|ruby\s+(?:\S+\s+)*?\S*test)"),
        Runner.MINITEST,
    ),
    (re.compile(_START + r"ctest(?!\S)"), Runner.CTEST),
)

# By a part of the names that task sets give to parsers, such as parse_log_gotest.
_PARSERS = (
    ("gotest", Runner.GO),
    ("cargo", Runner.CARGO),
    ("vitest", Runner.VITEST),
    ("jest", Runner.JEST),
    ("mocha", Runner.MOCHA),
    ("gradle", Runner.GRADLE),
    ("maven", Runner.MAVEN),
    ("mvn", Runner.MAVEN),
    ("phpunit", Runner.PHPUNIT),
    ("rspec", Runner.RSPEC),
    ("minitest", Runner.MINITEST),
    ("ruby_unit", Runner.MINITEST),
    ("ctest", Runner.CTEST),
    ("googletest", Runner.CTEST),
)


def runner_of(command: str) -> Runner | None:
    """Return the runner that ``command`` starts; None for an unknown one."""
    return next((runner for pattern, runner in _PATTERNS if pattern.search(command)), None)


def can_take(runner: Runner, path: str) -> bool:
    return path.endswith(_SUFFIXES.get(runner, ("",)))


def pattern_of(runner: Runner) -> re.Pattern[str]:
    return next(pattern for pattern, one in _PATTERNS if one is runner)


def runner_of_parser(name: str) -> Runner | None:
    """Return the runner whose output the parser called ``name`` reads; None for an unknown one."""
    return next((runner for part, runner in _PARSERS if part in name.lower()), None)
