"""Lint edits: Python with compilers and pyflakes, other languages with tree-sitter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from agent.grammars import language_of
from agent.lint.compilers import (
    Compiler,
    CompilerFailedError,
    OwnCompiler,
    RememberingCompiler,
)
from agent.lint.exempt import excuses_syntax, is_exempt
from agent.lint.findings import Change, Finding
from agent.lint.names import new_names
from agent.lint.syntax import new_errors


@dataclass(frozen=True)
class _Compiled:
    """The findings of one compiler before (None also for a new file) and after an edit."""

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
        checked = [change for change in map(_from_scratch, changes) if not is_exempt(change)]
        python = [change for change in checked if language_of(change.path) == "python"]
        found = [*self._python(python)]
        for change in checked:
            if language_of(change.path) != "python" and not excuses_syntax(change):
                found += new_errors(change)
        return tuple(sorted(found, key=lambda finding: (finding.path, finding.line)))

    def _python(self, changes: Sequence[Change]) -> Iterator[Finding]:
        own = _compiled(self.own, changes)
        for change, theirs, ours in zip(changes, self._theirs(changes) or own, own, strict=True):
            yield from _check_python(change, theirs, ours)

    def _theirs(self, changes: Sequence[Change]) -> list[_Compiled] | None:
        if self.compiler is None or not changes:
            return None
        try:
            return _compiled(self.compiler, changes)
        except CompilerFailedError:
            return None


def _from_scratch(change: Change) -> Change:
    """Return a change of a blank file as a new file, as there is no text to compare with."""
    return change if (change.before or "").strip() else replace(change, before=None)


def _compiled(compiler: Compiler, changes: Sequence[Change]) -> list[_Compiled]:
    """Compile all files in one batch, because starting an interpreter takes time."""
    before = [(change.path, change.before or "") for change in changes]
    found = compiler.check([*before, *((change.path, change.after) for change in changes)])
    return [
        _Compiled(*pair) for pair in zip(found[: len(before)], found[len(before) :], strict=True)
    ]


def _check_python(change: Change, theirs: _Compiled, ours: _Compiled) -> tuple[Finding, ...]:
    """Check a file with the first compiler that accepted it before the edit, then its names.

    A file that none accepted is Python 2, a template, or broken on purpose. Tree-sitter checks
    those, as its grammar accepts Python 2 as well.
    """
    fitting = next((found for found in (theirs, ours) if found.before is None), None)
    if fitting is None:
        return new_errors(change)
    if fitting.after is not None:
        return () if excuses_syntax(change) else (fitting.after,)
    compiles_here = ours.before is None and ours.after is None
    return new_names(change) if compiles_here else ()
