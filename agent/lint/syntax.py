"""Find syntax errors with tree-sitter: in every language of the map, and in Python 2.

The first rule that fits decides:

- If a grammar read the file without an error before, every error of it counts after. Where several
  grammars may fit a suffix (a C++, C or Objective-C header), one without errors is enough.
- No grammar knows a C file's macros, and half of all real headers have errors. In a C or C++ file
  that is new or had errors, only brackets count that were balanced before and are not after.
- In any other new file, every error counts.
- In any other file with errors before, errors count that begin on a line of the edit, and only
  when there are more errors than before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agent.grammars import language_of, parser
from agent.lint.findings import Change, Finding
from agent.lint.source import encoded

if TYPE_CHECKING:
    from tree_sitter import Node

_HAS_MACROS = frozenset({"c", "cpp"})
_CLOSES = {")": "(", "]": "[", "}": "{"}
_SHOWN = 60


def new_errors(change: Change) -> tuple[Finding, ...]:
    """Return the syntax errors that ``change`` introduces; none for files without a grammar."""
    languages = _languages(change)
    fitting = [language for language in languages if _took_before(language, change)]
    if any(not _parse(language, change.after).has_error for language in fitting) or not languages:
        return ()
    language = (fitting or languages)[0]
    found = _errors(_parse(language, change.after), change)
    if fitting and change.before is not None:
        return found
    if language in _HAS_MACROS:
        return _lost_balance(change, language)
    return found if change.before is None else _written(found, change, language)


def _took_before(language: str, change: Change) -> bool:
    """Return whether ``language`` parsed the file before the edit; in a new file any counts."""
    return change.before is None or not _parse(language, change.before).has_error


def _languages(change: Change) -> list[str]:
    """Return the grammars that may fit, the likeliest first."""
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
    """Return one finding for each line in which an error begins, in order."""
    by_line: dict[int, Finding] = {}
    for node in _innermost(root):
        line = node.start_point.row + 1
        by_line.setdefault(line, Finding(change.path, line, _problem(node)))
    return tuple(by_line[line] for line in sorted(by_line))


def _innermost(root: Node) -> Iterator[Node]:
    """Yield the missing tokens and the innermost errors."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        inner = [child for child in node.children if child.has_error or child.is_missing]
        waiting += inner
        if node.is_missing or (node.type == "ERROR" and not inner):
            yield node


def _problem(node: Node) -> str:
    if node.is_missing:
        return f"syntax error: `{node.type}` is missing"
    text = (node.text or b"").decode("utf-8", "replace").strip()
    if "\n" in text:
        return f"syntax error: cannot be parsed from here to line {node.end_point.row + 1}"
    return f"syntax error at `{text[:_SHOWN]}`"


def _written(found: tuple[Finding, ...], change: Change, language: str) -> tuple[Finding, ...]:
    """Return those of ``found`` on lines of the edit, if there are more than before."""
    before = change.before or ""
    if len(found) <= len(_errors(_parse(language, before), change)):
        return ()
    known = set(before.split("\n"))
    lines = change.after.split("\n")
    return tuple(finding for finding in found if lines[finding.line - 1] not in known)


def _lost_balance(change: Change, language: str) -> tuple[Finding, ...]:
    if change.before is not None and _unbalanced(_parse(language, change.before)):
        return ()
    if change.before is None and "#el" in change.after:
        return ()  # each branch of an `#if` may open the same bracket
    line = _unbalanced(_parse(language, change.after))
    if line is None:
        return ()
    return (Finding(change.path, line, "syntax error: a bracket without its partner"),)


def _unbalanced(root: Node) -> int | None:
    """Return the line (from 1) of the first bracket without a partner, None when all have one."""
    stack: list[Node] = []
    for node in _leaves(root):
        if node.type in _CLOSES.values():
            stack.append(node)
        elif node.type in _CLOSES and (not stack or stack.pop().type != _CLOSES[node.type]):
            return node.start_point.row + 1
    return stack[-1].start_point.row + 1 if stack else None


def _leaves(root: Node) -> Iterator[Node]:
    """Yield the tokens in order, without those that the parser inserted."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += reversed(node.children)
        if node.child_count == 0 and not node.is_missing:
            yield node
