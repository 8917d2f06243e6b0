"""The linter of an instance, and the lint command of one's own repository.

What the command says is compared with what it says at the base commit.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from agent.lint import (
    Change,
    Finding,
    InterpreterCompiler,
    Linter,
    OwnCompiler,
    RememberingCompiler,
)
from bench.instances.instance import Instance
from core.plaintext import one_line
from core.processes import CommandResult
from core.worktree import Changes
from environments.base import Session, run_once
from environments.local.venvs import find_python

_NOT_STARTED = (
    None,
    126,
    127,
)  # no end in time, and a shell's codes for no such command
_SECONDS = 600.0
_NUMBER = re.compile(r"\d+")
_PLACE = r"(?<![\w/.-])(?:\./)?%s[:(](\d+)"


def make_linter(
    instance: Instance,
    session: Session | None,
    warn: Callable[[str], None],
) -> Linter:
    """Return the linter of an instance; its lint command runs in ``session``, if there is one."""
    linter = linter_for(instance)
    commands = instance.commands
    if session is None or commands is None or not commands.lint:
        return linter

    def run(changes: Changes) -> CommandResult:
        return run_once(session, changes, commands.lint, _SECONDS)

    return CommandLinter(
        linter.compiler, linter.own, run=run, command=commands.lint, warn=warn
    )


def linter_for(instance: Instance) -> Linter:
    """Return a linter that compiles as the interpreter does which the instance's spec names.

    Any interpreter of that version on this machine is enough, because code is only compiled.
    Without one the harness's own compiler is used.
    """
    version = instance.spec.python if instance.spec else ""
    if version == ".".join(map(str, sys.version_info[:2])):
        # No process has to be started.
        return Linter(RememberingCompiler(OwnCompiler(version)))
    python = find_python(version) if version else None
    if python is None:
        return Linter()
    return Linter(RememberingCompiler(InterpreterCompiler(python)))


@dataclass(frozen=True)
class CommandLinter(Linter):
    """Finds what ``Linter`` finds, else what a lint command newly complains about.

    Attributes:
        run: runs the command on the base commit with changes.
        command: for messages.
        warn: takes why it cannot be used.
    """

    run: Callable[[Changes], CommandResult] = field(kw_only=True)
    command: str = field(kw_only=True)
    warn: Callable[[str], None] = field(kw_only=True)

    @cached_property
    def base(self) -> CommandResult | None:
        """The result at the base commit; None where the command cannot be used."""
        result = self.run({})
        if result.exit_code not in _NOT_STARTED:
            return result
        self.warn(
            f"lint: `{self.command}` does not run at the base commit; it is not used"
        )
        return None

    def new_findings(self, changes: Sequence[Change]) -> tuple[Finding, ...]:
        found = super().new_findings(changes)
        if found or not changes or self.base is None:
            return found
        data = {
            one.path: one.after.encode("utf-8", "surrogateescape") for one in changes
        }
        result = self.run(data)
        if result.exit_code == 0:
            return ()
        fails = Finding(changes[0].path, 0, f"`{self.command}` fails with these edits")
        new = new_complaints(self.base.output, result.output, changes)
        placed = tuple(one for one in new if one.line)
        return placed or (() if self.base.exit_code else new or (fails,))


def new_complaints(
    before: str, after: str, changes: Sequence[Change]
) -> tuple[Finding, ...]:
    """Return the lines of a linter's output that it did not print before, as findings.

    Lines move, so numbers do not count, but the text of the line that a complaint is about. What
    names no place in a changed file has the line 0 of the first of ``changes``.
    """
    old = {one.path: (one.before or "").split("\n") for one in changes}
    new = {one.path: one.after.split("\n") for one in changes}
    known = Counter(key for key, _ in _complaints(before, old))
    found = []
    for key, complaint in _complaints(after, new):
        known[key] -= 1
        found += [complaint] if known[key] < 0 else []
    return tuple(sorted(found, key=lambda one: (one.path, one.line)))


def _complaints(
    output: str, texts: dict[str, list[str]]
) -> list[tuple[tuple[str, str], Finding]]:
    found = []
    for line in filter(None, map(one_line, output.splitlines())):
        places = ((path, re.search(_PLACE % re.escape(path), line)) for path in texts)
        path, named = next((one for one in places if one[1]), ("", None))
        place = int(named[1]) if named else 0
        about = texts[path][place - 1 : place] if path else []
        key = (_NUMBER.sub("0", line), "".join(about).strip())
        found.append((key, Finding(path or next(iter(texts)), place, line)))
    return found
