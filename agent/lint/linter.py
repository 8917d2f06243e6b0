"""Lint edits: Python with compilers and pyflakes, other languages with tree-sitter."""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pyflakes import checker, messages

from agent.grammars import language_of, parser
from agent.lint.compilers import (
    Compiler,
    CompilerFailedError,
    OwnCompiler,
    RememberingCompiler,
)
from agent.lint.findings import Change, Finding, SourceText, encoded

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True)
class _Compiled:
    before: Finding | None
    after: Finding | None


@dataclass(frozen=True)
class Linter:
    """Finds the fatal problems that edits introduce.

    Attributes:
        compiler: the compiler of the edited project's Python; ``own`` takes its place where there
            is none or it fails.
        own: the compiler of the harness's Python.
    """

    compiler: Compiler | None = None
    own: Compiler = field(default_factory=lambda: RememberingCompiler(OwnCompiler()))

    def new_findings(self, changes: Sequence[Change]) -> tuple[Finding, ...]:
        """Return the fatal findings after the edits that were not there before, in order."""
        fresh = (
            change if (change.before or "").strip() else replace(change, before=None)
            for change in changes
        )
        checked = [change for change in fresh if not is_exempt(change)]
        python = [change for change in checked if language_of(change.path) == "python"]
        found: list[Finding] = []
        own = _compiled(self.own, python)
        for change, theirs, ours in zip(
            python, self._theirs(python) or own, own, strict=True
        ):
            fitting = next(
                (result for result in (theirs, ours) if result.before is None), None
            )
            if fitting is None:
                found += new_errors(change)
            elif fitting.after is not None:
                found += [] if excuses_syntax(change) else [fitting.after]
            elif ours.before is None and ours.after is None:
                found += new_names(change)
        for change in checked:
            if language_of(change.path) != "python" and not excuses_syntax(change):
                found += new_errors(change)
        return tuple(sorted(found, key=lambda finding: (finding.path, finding.line)))

    def _theirs(self, changes: Sequence[Change]) -> list[_Compiled] | None:
        if self.compiler is None or not changes:
            return None
        try:
            return _compiled(self.compiler, changes)
        except CompilerFailedError:
            return None


def _compiled(compiler: Compiler, changes: Sequence[Change]) -> list[_Compiled]:
    """Compile all files in one batch, because starting an interpreter takes time."""
    before = [(change.path, change.before or "") for change in changes]
    found = compiler.check(
        [*before, *((change.path, change.after) for change in changes)]
    )
    return [
        _Compiled(*pair)
        for pair in zip(found[: len(before)], found[len(before) :], strict=True)
    ]


_HEAD_LINES = 15
_LONG_LINE = 5_000
_TOO_BIG = 2_000_000
# Marks and tags stand at the beginning of short lines.
_LOOKED_AT = 400
_GENERATED_NAMES = re.compile(
    r"(_pb2(_grpc)?\.pyi?|\.pb\.(go|cc|h)|(^|/)(parsetab|lextab|yacctab)\.py|[.-]min\.[cm]?js"
    r"|\.bundle\.js)$"
)
# Only at the start of a comment: much code mentions generated files.
_GENERATED_MARK = re.compile(
    r"^\s*(#|//|/?\*|<!--|;)[\s*#-]*(.*@generated\b|.*\bdo not (edit|modify)\b"
    r"|((this|the) [\w ]{2,30}(is|was|has been) )?(code )?(auto(matically)?[- ]?)?generated\b)",
    re.IGNORECASE,
)
_TEMPLATE_MARK = re.compile(r"\{\{-?\s*cookiecutter\.|^# In\[[\d ]*\]:$", re.MULTILINE)
# A tag alone on its line, perhaps behind a comment sign; a magic or shell command of a notebook.
_TEMPLATE_LINE = re.compile(
    r"\s*(#|//)?\s*\{%-?\s*(if|for|block|extends|include|import|from|set|macro|raw|end\w+|else"
    r"|elif)\b.*%\}\s*$|[%!]\w+ "
    # A placeholder, where no string can be open before it.
    r"|[^'\"`#]*\{\{-?\s*[A-Za-z_][\w.]*\s*(\|.*)?-?\}\}"
)


def is_exempt(change: Change) -> bool:
    """Return whether the file of ``change`` is not checked at all.

    For an existing file the text before the edit counts: an edit cannot excuse itself by adding a
    mark.
    """
    text = change.after if change.before is None else change.before
    lines = text.split("\n")
    is_script = PurePosixPath(change.path).suffix in (".js", ".mjs", ".cjs")
    return (
        max(len(text), len(change.after)) > _TOO_BIG
        or "{{" in change.path
        or "{%" in change.path
        or bool(_GENERATED_NAMES.search(change.path))
        or any(
            _GENERATED_MARK.search(line[:_LOOKED_AT]) for line in lines[:_HEAD_LINES]
        )
        or (is_script and any(len(line) > _LONG_LINE for line in lines))
        or bool(_TEMPLATE_MARK.search(text))
        # Translations of Qt are XML in files that are called `.ts`, too.
        or text.lstrip().startswith(("<?xml", "<!DOCTYPE TS"))
    )


def excuses_syntax(change: Change) -> bool:
    """Return whether a new file that cannot be parsed is likely a template or a notebook.

    Such lines are common inside strings, so they do not count in files that can be parsed. An
    existing template is excused because it could not be parsed before the edit either.
    """
    if change.before is not None:
        return False
    return any(
        _TEMPLATE_LINE.match(line[:_LOOKED_AT]) for line in change.after.split("\n")
    )


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
    {
        "apply",
        "basestring",
        "buffer",
        "cmp",
        "coerce",
        "execfile",
        "file",
        "intern",
        "long",
    }
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
_Place = Callable[[SourceText, int], Hashable]


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
    found, old = _without_pairs(found, after, old, before, SourceText.line)
    if max(len(found), len(old)) <= _MOST_PLACED and old:
        found, old = _without_pairs(found, after, old, before, SourceText.scope)
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
    fatal = [message for message in found if isinstance(message, _FATAL)]
    if _FOR_BOTH.search(text):
        undefined = messages.UndefinedName
        old = [
            m
            for m in fatal
            if isinstance(m, undefined) and m.message_args[0] in _PYTHON_2_BUILTINS
        ]
        fatal = [message for message in fatal if message not in old]
    fatal.sort(key=lambda m: (m.lineno, m.col))
    return tuple(Finding(path, m.lineno, m.message % m.message_args) for m in fatal)


def _repeats_itself(tree: ast.AST) -> bool:
    kinds: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            kinds[node.name] += 1
        elif isinstance(node, ast.Global | ast.Nonlocal):
            kinds["global"] += 1
        elif isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            kinds["import *"] += 1
        elif (
            isinstance(node, ast.If | ast.Try | ast.match_case)
            and len(node.body) > _LONGEST_FORK
        ):
            return True
    return max(kinds.values(), default=0) > _MOST_REPEATED


def _without_pairs(
    found: list[Finding],
    after: SourceText,
    old: list[Finding],
    before: SourceText,
    place: _Place,
) -> tuple[list[Finding], list[Finding]]:
    present = [(finding.problem, place(after, finding.line)) for finding in found]
    known = [(finding.problem, place(before, finding.line)) for finding in old]
    return _surplus(found, present, known), _surplus(old, known, present)


def _surplus(
    findings: list[Finding], keys: Sequence[Hashable], partners: Sequence[Hashable]
) -> list[Finding]:
    left = Counter(partners)
    alone = []
    for finding, key in zip(findings, keys, strict=True):
        left[key] -= 1
        if left[key] < 0:
            alone.append(finding)
    return alone


_HAS_MACROS = frozenset({"c", "cpp"})
_CLOSES = {")": "(", "]": "[", "}": "{"}
_SHOWN = 60


def new_errors(change: Change) -> tuple[Finding, ...]:
    """Return the syntax errors that ``change`` introduces; none for files without a grammar."""
    languages = _languages(change)
    fitting = [
        language
        for language in languages
        if change.before is None or not _parse(language, change.before).has_error
    ]
    if (
        any(not _parse(language, change.after).has_error for language in fitting)
        or not languages
    ):
        return ()
    language = (fitting or languages)[0]
    found = _errors(_parse(language, change.after), change)
    if fitting and change.before is not None:
        return found
    if language in _HAS_MACROS:
        if change.before is not None and _unbalanced(_parse(language, change.before)):
            return ()
        if change.before is None and "#el" in change.after:
            return ()  # each branch of an `#if` may open the same bracket
        line = _unbalanced(_parse(language, change.after))
        problem = "syntax error: a bracket without its partner"
        return (Finding(change.path, line, problem),) if line else ()
    if change.before is None:
        return found
    if len(found) <= len(_errors(_parse(language, change.before), change)):
        return ()
    known, lines = set(change.before.split("\n")), change.after.split("\n")
    return tuple(finding for finding in found if lines[finding.line - 1] not in known)


def _languages(change: Change) -> list[str]:
    language = language_of(change.path)
    if language is None:
        return []
    if change.path.lower().endswith(".h"):
        return ["cpp", "c", "objc"]
    if language == "javascript" and "@flow" in (change.before or change.after):
        # There is no grammar for the types of Flow; that of TypeScript reads most of them.
        return ["tsx", language]
    return [language]


def _parse(language: str, text: str) -> Node:
    return parser(language).parse(encoded(text)).root_node


def _errors(root: Node, change: Change) -> tuple[Finding, ...]:
    by_line: dict[int, Finding] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        inner = [
            child for child in node.children if child.has_error or child.is_missing
        ]
        waiting += inner
        if not (node.is_missing or (node.type == "ERROR" and not inner)):
            continue
        text = (node.text or b"").decode("utf-8", "replace").strip()
        problem = f"syntax error at `{text[:_SHOWN]}`"
        if node.is_missing:
            problem = f"syntax error: `{node.type}` is missing"
        elif "\n" in text:
            last = node.end_point.row + 1
            problem = f"syntax error: cannot be parsed from here to line {last}"
        line = node.start_point.row + 1
        by_line.setdefault(line, Finding(change.path, line, problem))
    return tuple(by_line[line] for line in sorted(by_line))


def _unbalanced(root: Node) -> int | None:
    stack: list[Node] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += reversed(node.children)
        if node.child_count or node.is_missing:
            continue
        if node.type in _CLOSES.values():
            stack.append(node)
        elif node.type in _CLOSES and (
            not stack or stack.pop().type != _CLOSES[node.type]
        ):
            return node.start_point.row + 1
    return stack[-1].start_point.row + 1 if stack else None
