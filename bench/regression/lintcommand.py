"""The lint command of a repository of one's own, compared with what it says at the base commit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from agent.lint import Change, Finding, Linter
from core.plaintext import one_line
from core.processes import CommandResult
from core.worktree import Changes
from environments.base import Session, run_once

_SECONDS = 600.0
# What a shell ends with where it cannot start a command.
_NOT_STARTED = (126, 127)
_PLACE = re.compile(
    r"(?:\./)?(?P<path>[^\s:()]+)[:(](?P<line>\d+)(?:[:,]\d+)?\)?:?\s*(?P<words>.*)"
)
_NUMBERS = re.compile(r"\d+")
_MOST = 20


@dataclass(frozen=True)
class LintCommand:
    """Runs a lint command on trees of one project; ``warn`` takes why it cannot be used."""

    session: Session
    command: str
    warn: Callable[[str], None]

    def run(self, changes: Changes) -> CommandResult:
        return run_once(self.session, changes, self.command, _SECONDS)

    @cached_property
    def base(self) -> CommandResult | None:
        """The result at the base commit; None where the command cannot be used."""
        result = self.run({})
        if result.exit_code in (None, *_NOT_STARTED):
            why = "does not end in time" if result.timed_out else "is not found"
            self.warn(f"lint: `{self.command}` {why} at the base commit; it is not used")
            return None
        return result


@dataclass(frozen=True)
class CommandLinter(Linter):
    """Finds what ``Linter`` finds, and what a lint command newly complains about."""

    lint: LintCommand | None = None

    def new_findings(self, changes: Sequence[Change]) -> tuple[Finding, ...]:
        found = super().new_findings(changes)
        if found or not changes or self.lint is None or self.lint.base is None:
            return found
        data = {one.path: one.after.encode("utf-8", "surrogateescape") for one in changes}
        result = self.lint.run(data)
        if result.exit_code == 0:
            return ()
        complaints = new_complaints(self.lint.base.output, result.output, changes)
        if complaints or self.lint.base.exit_code != 0:
            return complaints
        return (Finding(changes[0].path, 0, f"`{self.lint.command}` fails with these edits"),)


def new_complaints(before: str, after: str, changes: Sequence[Change]) -> tuple[Finding, ...]:
    """Return the lines of a linter's output that another output lacks, as findings.

    Lines move, so a complaint is old when the same was made of an equal line before. One that names
    no place in a changed file belongs to the first of ``changes``, and counts only without others.
    """
    old = {one.path: (one.before or "").split("\n") for one in changes}
    known = Counter(_key(line, old) for line in _lines(before))
    new = {one.path: one.after.split("\n") for one in changes}
    found: list[Finding] = []
    for line in _lines(after):
        key = _key(line, new)
        known[key] -= 1
        if known[key] < 0:
            path, number, words = _placed(line, new)
            found.append(Finding(path or changes[0].path, number, words))
    placed = [one for one in found if one.line]
    return tuple(sorted((placed or found)[:_MOST], key=lambda one: (one.path, one.line)))


def _lines(output: str) -> list[str]:
    return [line for line in map(one_line, output.splitlines()) if line]


def _key(line: str, texts: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    path, number, _ = _placed(line, texts)
    source = texts[path][number - 1] if path and number <= len(texts[path]) else ""
    return _NUMBERS.sub("0", line), source.strip()


def _placed(line: str, texts: Mapping[str, Sequence[str]]) -> tuple[str, int, str]:
    """Return the changed file, the line in it and the words of a complaint; "" and 0 for none."""
    place = _PLACE.match(line)
    path = next((p for p in texts if place and place["path"].endswith(p)), "")
    if place is None or not path:
        return "", 0, line
    return path, int(place["line"]), place["words"] or line
