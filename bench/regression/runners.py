"""The test runners of the benchmark's repositories, recognized by their commands. Pure."""

from __future__ import annotations

import re
from enum import Enum


class Runner(str, Enum):
    """A kind of test runner."""

    PYTEST = "pytest"
    DJANGO = "django"
    SYMPY = "sympy"
    UNITTEST = "unittest"


_COMMANDS = (
    (re.compile(r"\bruntests\.py\b"), Runner.DJANGO),
    (re.compile(r"(^|[\s/])bin/test\b"), Runner.SYMPY),
    (re.compile(r"\b(pytest|py\.test|tox)\b"), Runner.PYTEST),
    (re.compile(r"\bunittest\b"), Runner.UNITTEST),
)


def runner_of(command: str) -> Runner | None:
    """Return the runner that ``command`` starts; None for an unknown one."""
    return next((runner for pattern, runner in _COMMANDS if pattern.search(command)), None)
