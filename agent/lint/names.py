"""Find undefined names and similar errors with pyflakes: they only show when the code runs.

The selection is that of the reference harness from flake8 (F821, F823, F831, F406, F407, F701,
F702, F704, F706). Style and ``__all__`` are not checked.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Callable, Hashable
from functools import lru_cache

from pyflakes import checker, messages

from agent.lint.findings import Change, Finding
from agent.lint.source import SourceText

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
# A file that checks Python's version may use the names of Python 2 and 3.
_FOR_BOTH = re.compile(r"\bversion_info\b|\bPY[23]\b|\bis_py[23]\b|\bhexversion\b")
_PYTHON_2_BUILTINS = frozenset(
    {"apply", "basestring", "buffer", "cmp", "coerce", "execfile", "file", "intern", "long"}
    | {"raw_input", "reduce", "reload", "unichr", "unicode", "xrange"}
)
# Of one name, of `global`, or of `import *` in one file; no real file has a tenth of it.
_MOST_REPEATED = 500
# Statements directly below an `if` or a `try`: pyflakes compares each rebound name with all.
_LONGEST_FORK = 200
# Each is searched for among all definitions of its file.
_MOST_PLACED = 300
# Texts: each attempt edits the same few files and often restores an earlier text.
_REMEMBERED = 256
_Key = Callable[[Finding, SourceText], Hashable]


def new_names(change: Change) -> tuple[Finding, ...]:
    """Return the findings of ``change.after`` that ``change.before`` does not have.

    A finding is old when the same problem was on an equal line, else in the same scope: lines,
    functions and classes may move or be renamed. One old finding excuses one new finding. Both
    texts must be Python that compiles here.
    """
    after = SourceText(change.path, change.after)
    found = list(_findings(change.path, change.after))
    if change.before is None or not found:
        return tuple(found)
    before = SourceText(change.path, change.before)
    old = list(_findings(change.path, change.before))
    found, old = _without_pairs(found, after, old, before, _by_line)
    if max(len(found), len(old)) <= _MOST_PLACED and old:
        found, old = _without_pairs(found, after, old, before, _by_scope)
    return tuple(found)


@lru_cache(maxsize=_REMEMBERED)
def _findings(path: str, text: str) -> tuple[Finding, ...]:
    """Return the fatal findings of pyflakes in order of lines; none where pyflakes fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, path)
        if _repeats_itself(tree):
            return ()
        found = checker.Checker(tree, filename=path).messages
    except RecursionError:
        return ()
    both = bool(_FOR_BOTH.search(text))
    fatal = sorted(
        (m for m in found if isinstance(m, _FATAL) and not (both and _is_of_python_2(m))),
        key=lambda m: (m.lineno, m.col),
    )
    return tuple(Finding(path, m.lineno, m.message % m.message_args) for m in fatal)


def _repeats_itself(tree: ast.AST) -> bool:
    """Return whether pyflakes would take quadratic time, as it looks back at each of these."""
    kinds: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            kinds[node.name] += 1
        elif isinstance(node, ast.Global | ast.Nonlocal):
            kinds["global"] += 1
        elif isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            kinds["import *"] += 1
        elif isinstance(node, ast.If | ast.Try | ast.match_case) and len(node.body) > _LONGEST_FORK:
            return True
    return max(kinds.values(), default=0) > _MOST_REPEATED


def _is_of_python_2(message: messages.Message) -> bool:
    undefined = isinstance(message, messages.UndefinedName)
    return undefined and message.message_args[0] in _PYTHON_2_BUILTINS


def _by_line(finding: Finding, source: SourceText) -> Hashable:
    return finding.problem, source.line(finding.line)


def _by_scope(finding: Finding, source: SourceText) -> Hashable:
    return finding.problem, source.scope(finding.line)


def _without_pairs(
    found: list[Finding], after: SourceText, old: list[Finding], before: SourceText, key: _Key
) -> tuple[list[Finding], list[Finding]]:
    """Return both lists without the findings that have a partner of the same key in the other."""
    known = Counter(key(finding, before) for finding in old)
    present = Counter(key(finding, after) for finding in found)
    return _surplus(found, after, key, known), _surplus(old, before, key, present)


def _surplus(
    findings: list[Finding], source: SourceText, key: _Key, partners: Counter[Hashable]
) -> list[Finding]:
    left = Counter(partners)
    alone = []
    for finding in findings:
        left[key(finding, source)] -= 1
        if left[key(finding, source)] < 0:
            alone.append(finding)
    return alone
