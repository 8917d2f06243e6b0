"""Fatal problems in edited files, and only those that the edit brought in.

Python files are compiled and checked with pyflakes for the errors that make code fail when it
runs: undefined names and the like, the selection that the reference harness took from flake8
(E9, F821, F823, F831, F406, F407, F701, F702, F704, F706). Style is nobody's business here.
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from dataclasses import dataclass

from pyflakes import checker, messages

_FATAL = (
    messages.UndefinedName,
    messages.UndefinedLocal,
    messages.DuplicateArgument,
    messages.ImportStarNotPermitted,
    messages.FutureFeatureNotDefined,
    messages.ContinueOutsideLoop,
    messages.BreakOutsideLoop,
    messages.YieldOutsideFunction,
    messages.ReturnOutsideFunction,
)
_CONTEXT = 3
_MOST_FOR_PYFLAKES = 2_000_000


@dataclass(frozen=True)
class Finding:
    """A fatal problem: where it is (line from 1) and what it is."""

    path: str
    line: int
    problem: str


def has_linter(path: str) -> bool:
    """Tell whether files like ``path`` are checked at all."""
    return path.endswith((".py", ".pyi"))


def findings(path: str, text: str) -> tuple[Finding, ...]:
    """Return the fatal problems of ``text``, the content of ``path``, in order of lines."""
    if not has_linter(path):
        return ()
    try:
        tree = _parse(path, text)
    except SyntaxError as error:
        return (Finding(path, error.lineno or 1, f"{type(error).__name__}: {error.msg}"),)
    except (ValueError, RecursionError, MemoryError) as error:
        return (Finding(path, 1, f"cannot be compiled: {error}"),)
    return tuple(_pyflakes(path, tree, len(text)))


def _parse(path: str, text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text, path)
        # Some errors (`return` outside a function) only appear when code is made of the tree.
        compile(text, path, "exec", dont_inherit=True)
    return tree


def _pyflakes(path: str, tree: ast.Module, size: int) -> list[Finding]:
    """Return pyflakes' fatal findings; files of megabytes, which take minutes, are let off."""
    if size > _MOST_FOR_PYFLAKES:
        return []
    try:
        found = checker.Checker(tree, filename=path).messages
    except RecursionError:
        return []
    fatal = sorted((m for m in found if isinstance(m, _FATAL)), key=lambda m: (m.lineno, m.col))
    return [Finding(path, m.lineno, m.message % m.message_args) for m in fatal]


def new_findings(path: str, before: str | None, after: str) -> tuple[Finding, ...]:
    """Return the problems of ``after`` that ``before`` did not have; lines may have moved.

    A file that could not be compiled before (Python 2, a template) is not held against an edit.
    """
    old = findings(path, before) if before is not None else ()
    if any(_is_syntax(finding) for finding in old):
        return ()
    known = Counter(finding.problem for finding in old)
    fresh = []
    for finding in findings(path, after):
        known[finding.problem] -= 1
        if known[finding.problem] < 0:
            fresh.append(finding)
    return tuple(fresh)


def _is_syntax(finding: Finding) -> bool:
    return "Error: " in finding.problem or finding.problem.startswith("cannot be compiled")


def describe(found: tuple[Finding, ...], texts: dict[str, str]) -> str:
    """Return ``found`` as a message for the model, each with the lines around it."""
    return "\n\n".join(_describe_one(finding, texts[finding.path]) for finding in found)


def _describe_one(finding: Finding, text: str) -> str:
    lines = text.split("\n")
    first = max(0, finding.line - 1 - _CONTEXT)
    shown = [
        f"{'>' if number == finding.line else ' '}{number:5d}  {line}"
        for number, line in enumerate(lines[first : finding.line + _CONTEXT], first + 1)
    ]
    return "\n".join([f"{finding.path}:{finding.line}: {finding.problem}", *shown])
