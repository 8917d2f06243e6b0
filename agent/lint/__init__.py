"""Find the fatal problems that an edit introduces."""

from swe_retry.agent.lint.compilers import (
    Compiler,
    InterpreterCompiler,
    OwnCompiler,
    RememberingCompiler,
)
from swe_retry.agent.lint.findings import Change, Finding, describe
from swe_retry.agent.lint.linter import Linter

__all__ = [
    "Change",
    "Compiler",
    "Finding",
    "InterpreterCompiler",
    "Linter",
    "OwnCompiler",
    "RememberingCompiler",
    "describe",
]
