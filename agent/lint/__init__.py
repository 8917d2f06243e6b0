"""Fatal problems in edited files, and only those that the edit brought in."""

from agent.lint.compilers import (
    Compiler,
    InterpreterCompiler,
    OwnCompiler,
    RememberingCompiler,
)
from agent.lint.context import describe
from agent.lint.findings import Change, Finding
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
