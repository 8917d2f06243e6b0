"""Find the fatal problems that an edit introduces."""

from agent.lint.compilers import (
    Compiler,
    InterpreterCompiler,
    OwnCompiler,
    RememberingCompiler,
)
from agent.lint.findings import Change, Finding, describe
from agent.lint.linter import Linter

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
