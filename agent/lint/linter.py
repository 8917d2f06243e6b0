"""Lint edits: Python with compilers and pyflakes, other languages with tree-sitter."""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pyflakes import checker, messages

from swe_retry.agent.grammars import language_of, parser
from swe_retry.agent.lint.compilers import (
    Compiler,
    CompilerFailedError,
    OwnCompiler,
    RememberingCompiler,
)
from swe_retry.agent.lint.findings import Change, Finding, SourceText, as_bytes

if TYPE_CHECKING:
    from tree_sitter import Node


_Compiled = tuple[Finding | None, Finding | None]
"""What a compiler finds before the edits, and after them."""


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
        checked = []
        for change in changes:
            if not (change.before or "").strip():
                change = replace(change, before=None)
            if not is_exempt(change):
                checked.append(change)
        python = [change for change in checked if language_of(change.path) == "python"]
        findings: list[Finding] = []
        own_results = _compile_changes(self.own, python)
        results = own_results
        if self.compiler and python:
            with suppress(CompilerFailedError):
                results = _compile_changes(self.compiler, python)
        for change, result, own_result in zip(
            python, results, own_results, strict=True
        ):
            findings += _python_findings(change, result, own_result)
        for change in checked:
            if language_of(change.path) != "python" and not excuses_syntax(change):
                findings += new_syntax_errors(change)
        findings.sort(key=lambda finding: (finding.path, finding.line))
        return tuple(findings)


def _compile_changes(compiler: Compiler, changes: Sequence[Change]) -> list[_Compiled]:
    """Compile all files in one batch, because starting an interpreter takes time."""
    files = [(change.path, change.before or "") for change in changes]
    files += [(change.path, change.after) for change in changes]
    findings = compiler.check(files)
    count = len(changes)
    return list(zip(findings[:count], findings[count:], strict=True))


def _python_findings(
    change: Change, result: _Compiled, own_result: _Compiled
) -> Sequence[Finding]:
    """Return the findings by the first compiler that could compile the file before."""
    for before, after in (result, own_result):
        if before:
            continue
        if after:
            return () if excuses_syntax(change) else (after,)
        if own_result == (None, None):
            return new_name_errors(change)
        return ()
    return new_syntax_errors(change)


_MAX_MARK_LINES = 15
_MAX_SCRIPT_LINE = 5_000
_MAX_LENGTH = 2_000_000
# Marks and tags stand at the beginning of short lines.
_MAX_MARK_COLUMN = 400
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
    if max(len(text), len(change.after)) > _MAX_LENGTH:
        return True
    if "{{" in change.path or "{%" in change.path:
        return True
    # Translations of Qt are XML in files that are called `.ts`, too.
    if text.lstrip().startswith(("<?xml", "<!DOCTYPE TS")):
        return True
    if _GENERATED_NAMES.search(change.path) or _TEMPLATE_MARK.search(text):
        return True
    lines = text.split("\n")
    for line in lines[:_MAX_MARK_LINES]:
        if _GENERATED_MARK.search(line[:_MAX_MARK_COLUMN]):
            return True
    is_script = PurePosixPath(change.path).suffix in (".js", ".mjs", ".cjs")
    return is_script and any(len(line) > _MAX_SCRIPT_LINE for line in lines)


def excuses_syntax(change: Change) -> bool:
    """Return whether a new file that cannot be parsed is likely a template or a notebook.

    Such lines are common inside strings, so they do not count in files that can be parsed. An
    existing template is excused because it could not be parsed before the edit either.
    """
    if change.before is not None:
        return False
    lines = change.after.split("\n")
    return any(_TEMPLATE_LINE.match(line[:_MAX_MARK_COLUMN]) for line in lines)


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
        "raw_input",
        "reduce",
        "reload",
        "unichr",
        "unicode",
        "xrange",
    }
)
# Of one name, of `global`, or of `import *` in one file; no real file has a tenth of it.
_MAX_REPEATED = 500
_FORKS = (ast.If, ast.Try, ast.match_case)
# Statements directly below an `if` or a `try`: pyflakes compares each rebound name with all.
_MAX_FORK = 200
# Each is searched for among all definitions of its file.
_MAX_COMPARED = 300
# Texts: each attempt edits the same few files and often restores an earlier text.
_CACHE_SIZE = 256
_KeyOf = Callable[[SourceText, int], Hashable]


def new_name_errors(change: Change) -> tuple[Finding, ...]:
    """Return the findings of ``change.after`` that ``change.before`` does not have.

    A finding is old when the same problem was on an equal line, else in the same scope: lines,
    functions and classes may move or be renamed. One old finding excuses one new finding. Both
    texts must be Python that compiles here.
    """
    after = SourceText(change.path, change.after)
    new = list(_name_errors(change.path, change.after))
    if change.before is None or not new:
        return tuple(new)
    before = SourceText(change.path, change.before)
    old = list(_name_errors(change.path, change.before))
    new, old = _without_pairs(new, after, old, before, SourceText.line)
    if max(len(new), len(old)) <= _MAX_COMPARED and old:
        new, old = _without_pairs(new, after, old, before, SourceText.scope)
    return tuple(new)


@lru_cache(maxsize=_CACHE_SIZE)
def _name_errors(path: str, text: str) -> tuple[Finding, ...]:
    """Return the fatal findings of pyflakes in order of lines; none where pyflakes fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, path)
        if _repeats_itself(tree):
            return ()
        all_messages = checker.Checker(tree, filename=path).messages
    except RecursionError:
        return ()
    fatal = [message for message in all_messages if isinstance(message, _FATAL)]
    if _FOR_BOTH.search(text):
        fatal = [message for message in fatal if not _is_python_2_name(message)]
    fatal.sort(key=lambda message: (message.lineno, message.col))
    findings = []
    for message in fatal:
        problem = message.message % message.message_args
        findings.append(Finding(path, message.lineno, problem))
    return tuple(findings)


def _is_python_2_name(message: messages.Message) -> bool:
    if not isinstance(message, messages.UndefinedName):
        return False
    return message.message_args[0] in _PYTHON_2_BUILTINS


def _repeats_itself(tree: ast.AST) -> bool:
    counts: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            counts[node.name] += 1
        elif isinstance(node, ast.Global | ast.Nonlocal):
            counts["global"] += 1
        elif isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            counts["import *"] += 1
        elif isinstance(node, _FORKS) and len(node.body) > _MAX_FORK:
            return True
    return max(counts.values(), default=0) > _MAX_REPEATED


def _without_pairs(
    new: list[Finding],
    after: SourceText,
    old: list[Finding],
    before: SourceText,
    key_of: _KeyOf,
) -> tuple[list[Finding], list[Finding]]:
    """Return the new and the old findings without pairs of the same problem and key."""
    partners = defaultdict(list)
    for finding in old:
        key = key_of(before, finding.line)
        partners[finding.problem, key].append(finding)
    unpaired = []
    for finding in new:
        key = key_of(after, finding.line)
        same = partners[finding.problem, key]
        if same:
            same.pop(0)
        else:
            unpaired.append(finding)
    return unpaired, list(chain.from_iterable(partners.values()))


_HAS_MACROS = frozenset({"c", "cpp"})
_OPENING_OF = {")": "(", "]": "[", "}": "{"}
_MAX_QUOTED = 60


def new_syntax_errors(change: Change) -> tuple[Finding, ...]:
    """Return the syntax errors that ``change`` introduces; none for files without a grammar."""
    languages = _languages(change)
    if not languages:
        return ()
    fitting = []
    for language in languages:
        if change.before is None or not _parse(language, change.before).has_error:
            if not _parse(language, change.after).has_error:
                return ()
            fitting.append(language)
    language = (fitting or languages)[0]
    after = _parse(language, change.after)
    errors = _syntax_errors(after, change.path)
    if change.before is None:
        if language not in _HAS_MACROS:
            return errors
        if "#el" in change.after:
            return ()  # each branch of an `#if` may open the same bracket
        return _bracket_errors(after, change.path)
    if fitting:
        return errors
    before = _parse(language, change.before)
    if language in _HAS_MACROS:
        return () if _unbalanced_line(before) else _bracket_errors(after, change.path)
    if len(errors) <= len(_syntax_errors(before, change.path)):
        return ()
    old_lines = set(change.before.split("\n"))
    lines = change.after.split("\n")
    return tuple(e for e in errors if lines[e.line - 1] not in old_lines)


def _languages(change: Change) -> list[str]:
    language = language_of(change.path)
    if not language:
        return []
    if change.path.lower().endswith(".h"):
        return ["cpp", "c", "objc"]
    if language == "javascript" and "@flow" in (change.before or change.after):
        # There is no grammar for the types of Flow; that of TypeScript reads most of them.
        return ["tsx", language]
    return [language]


def _parse(language: str, text: str) -> Node:
    return parser(language).parse(as_bytes(text)).root_node


def _syntax_errors(root: Node, path: str) -> tuple[Finding, ...]:
    """Return the first error of each line: a missing node, or an innermost one not parsed."""
    by_line: dict[int, Finding] = {}
    pending = [root]
    while pending:
        node = pending.pop()
        inner = []
        for child in node.children:
            if child.has_error or child.is_missing:
                inner.append(child)
        pending += inner
        is_innermost = node.type == "ERROR" and not inner
        if node.is_missing or is_innermost:
            line = node.start_point.row + 1
            by_line.setdefault(line, Finding(path, line, _describe_error(node)))
    return tuple(by_line[line] for line in sorted(by_line))


def _describe_error(node: Node) -> str:
    if node.is_missing:
        return f"syntax error: `{node.type}` is missing"
    text = (node.text or b"").decode("utf-8", "replace").strip()
    if "\n" in text:
        last = node.end_point.row + 1
        return f"syntax error: cannot be parsed from here to line {last}"
    return f"syntax error at `{text[:_MAX_QUOTED]}`"


def _bracket_errors(root: Node, path: str) -> tuple[Finding, ...]:
    line = _unbalanced_line(root)
    if line is None:
        return ()
    return (Finding(path, line, "syntax error: a bracket without its partner"),)


def _unbalanced_line(root: Node) -> int | None:
    """Return the first line, counted from 1, of a bracket without its partner."""
    openings = []
    pending = [root]
    while pending:
        node = pending.pop()
        pending += reversed(node.children)
        if node.child_count or node.is_missing:
            continue
        if node.type in _OPENING_OF.values():
            openings.append(node)
            continue
        opening_type = _OPENING_OF.get(node.type)
        if opening_type and (not openings or openings.pop().type != opening_type):
            return node.start_point.row + 1
    if not openings:
        return None
    return openings[-1].start_point.row + 1
