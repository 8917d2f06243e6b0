"""The lint command of one's own repository, compared with what it says at the base commit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from agent.lint import Change, Finding, Linter
from core.plaintext import one_line
from core.processes import CommandResult
from core.worktree import Changes

_NOT_STARTED = (
    None,
    126,
    127,
)  # no end in time, and a shell's codes for no such command
_NUMBER = re.compile(r"\d+")
_PLACE = r"(?<![\w/.-])(?:\./)?%s[:(](\d+)"


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
