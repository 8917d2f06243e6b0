"""What an edit broke: Python by its compilers and pyflakes, other languages by tree-sitter."""

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
class _Verdict:
    """What one compiler says of a file before (None also for a new file) and after an edit."""

    before: Finding | None
    after: Finding | None


@dataclass(frozen=True)
class Linter:
    """Finds fatal problems that edits brought in.

    Attributes:
        compiler: that of the Python which the edited project runs on; without one, or where it
            fails, the harness's own judges.
        own: the harness's own compiler.
    """

    compiler: Compiler | None = None
    own: Compiler = field(default_factory=lambda: RememberingCompiler(OwnCompiler()))

    def new_findings(self, changes: Sequence[Change]) -> tuple[Finding, ...]:
        """Return what is fatal in the texts after the edits and was not before, in order."""
        judged = [change for change in map(_from_scratch, changes) if not is_exempt(change)]
        python = [change for change in judged if language_of(change.path) == "python"]
        found = [*self._python(python)]
        for change in judged:
            if language_of(change.path) != "python" and not excuses_syntax(change):
                found += new_errors(change)
        return tuple(sorted(found, key=lambda finding: (finding.path, finding.line)))

    def _python(self, changes: Sequence[Change]) -> Iterator[Finding]:
        own = _verdicts(self.own, changes)
        for change, theirs, ours in zip(changes, self._theirs(changes) or own, own, strict=True):
            yield from _judge(change, theirs, ours)

    def _theirs(self, changes: Sequence[Change]) -> list[_Verdict] | None:
        if self.compiler is None or not changes:
            return None
        try:
            return _verdicts(self.compiler, changes)
        except CompilerFailedError:
            return None


def _from_scratch(change: Change) -> Change:
    """Return a change of a blank file as a new file: there is nothing to compare with."""
    return change if (change.before or "").strip() else replace(change, before=None)


def _verdicts(compiler: Compiler, changes: Sequence[Change]) -> list[_Verdict]:
    """Return the verdicts on all changes; one batch, because starting an interpreter takes time."""
    before = [(change.path, change.before or "") for change in changes]
    found = compiler.check([*before, *((change.path, change.after) for change in changes)])
    return [
        _Verdict(*pair) for pair in zip(found[: len(before)], found[len(before) :], strict=True)
    ]


def _judge(change: Change, theirs: _Verdict, ours: _Verdict) -> tuple[Finding, ...]:
    """Hold a file to the first compiler that took it before the edit, then to its names.

    What none took before is Python 2, a template, or broken on purpose. Tree-sitter's grammar
    takes Python 2 as well, so it judges those.
    """
    fitting = next((verdict for verdict in (theirs, ours) if verdict.before is None), None)
    if fitting is None:
        return new_errors(change)
    if fitting.after is not None:
        return () if excuses_syntax(change) else (fitting.after,)
    compiles_here = ours.before is None and ours.after is None
    return new_names(change) if compiles_here else ()
