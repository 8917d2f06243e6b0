"""The linter of an instance, and the lint command of one's own repository.

What the command says is compared with what it says at the base commit.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from swe_retry.agent.lint.compilers import (
    InterpreterCompiler,
    OwnCompiler,
    RememberingCompiler,
)
from swe_retry.agent.lint.findings import Change, Finding
from swe_retry.agent.lint.linter import Linter
from swe_retry.core.plaintext import Say, one_line
from swe_retry.core.processes import CommandResult
from swe_retry.core.worktree import Changes
from swe_retry.environments.base import Session, run_once
from swe_retry.environments.local.toolchains import find_python
from swe_retry.instances.instance import Instance

# No end in time, and a shell's codes for no such command.
_NOT_STARTED = (None, 126, 127)
_SECONDS = 600.0
_NUMBER = re.compile(r"\d+")
# A path of a complaint, and the number of the line.
_PLACE = r"(?<![\w/.-])(?:\./)?%s[:(](\d+)"


def make_linter(instance: Instance, session: Session | None, warn: Say) -> Linter:
    """Return the linter of an instance; its lint command runs in ``session``, if there is one."""
    linter = linter_for(instance)
    commands = instance.commands
    if session is None or commands is None or not commands.lint:
        return linter

    def run(changes: Changes) -> CommandResult:
        return run_once(session, changes, commands.lint, _SECONDS)

    return CommandLinter(
        linter.compiler,
        linter.own,
        run=run,
        command=commands.lint,
        warn=warn,
    )


def linter_for(instance: Instance) -> Linter:
    """Return a linter that compiles as the interpreter does which the instance's spec names.

    Any interpreter of that version on this machine is enough, because code is only compiled.
    Without one the harness's own compiler is used.
    """
    version = instance.spec.python if instance.spec else ""
    if not version:
        return Linter()
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        # No process has to be started.
        return Linter(RememberingCompiler(OwnCompiler(version)))
    python = find_python(version)
    if python is None:
        return Linter()
    return Linter(RememberingCompiler(InterpreterCompiler(python)))


@dataclass(frozen=True, kw_only=True)
class CommandLinter(Linter):
    """Finds what ``Linter`` finds, else what a lint command newly complains about.

    Attributes:
        run: runs the command on the base commit with changes.
        command: for messages.
        warn: takes why it cannot be used.
    """

    run: Callable[[Changes], CommandResult]
    command: str
    warn: Say

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
        findings = super().new_findings(changes)
        if findings or not changes or self.base is None:
            return findings
        data = {}
        for change in changes:
            data[change.path] = change.after.encode("utf-8", "surrogateescape")
        result = self.run(data)
        if result.exit_code == 0:
            return ()
        new = new_complaints(self.base.output, result.output, changes)
        placed = tuple(finding for finding in new if finding.line)
        if placed or self.base.exit_code:
            return placed
        if new:
            return new
        text = f"`{self.command}` fails with these edits"
        return (Finding(changes[0].path, 0, text),)


def new_complaints(
    before: str,
    after: str,
    changes: Sequence[Change],
) -> tuple[Finding, ...]:
    """Return the lines of a linter's output that it did not print before, as findings.

    Lines move, so numbers do not count, but the text of the line that a complaint is about. What
    names no place in a changed file has the line 0 of the first of ``changes``.
    """
    old = {}
    new = {}
    for change in changes:
        text = change.before or ""
        old[change.path] = text.split("\n")
        new[change.path] = change.after.split("\n")
    remaining = Counter(key for key, _ in _complaints(before, old))
    findings = []
    for key, finding in _complaints(after, new):
        remaining[key] -= 1
        if remaining[key] < 0:
            findings.append(finding)
    findings.sort(key=attrgetter("path", "line"))
    return tuple(findings)


def _complaints(
    output: str, texts: Mapping[str, list[str]]
) -> Iterator[tuple[tuple[str, str], Finding]]:
    """Yield the complaints in ``output``, each with what does not change when lines move."""
    for line in map(one_line, output.splitlines()):
        if line:
            path, number = _position(line, texts)
            subject = ""
            if 1 <= number <= len(texts[path]):
                subject = texts[path][number - 1]
            text = _NUMBER.sub("0", line)
            key = (text, subject.strip())
            yield key, Finding(path, number, line)


def _position(line: str, paths: Iterable[str]) -> tuple[str, int]:
    """Return the file and line that a complaint names; the first of ``paths`` and 0 without one."""
    for path in paths:
        match = re.search(_PLACE % re.escape(path), line)
        if match:
            return path, int(match[1])
    return next(iter(paths)), 0
