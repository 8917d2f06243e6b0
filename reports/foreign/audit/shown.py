"""Pure: hidden texts that a conversation showed to the model before the model wrote them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reports.foreign.audit.commands import command_texts
from reports.foreign.audit.findings import Leak, LeakKind
from reports.foreign.model import Action, AgentAttempt
from reports.submission.checks.conversations import texts_in
from reports.submission.checks.hidden import Hidden, StandInBase
from reports.submission.checks.traces import evidence

_KINDS = {
    "the gold patch": LeakKind.GOLD,
    "the hidden tests": LeakKind.TESTS,
    "the hints": LeakKind.HINTS,
    "the dataset's lists of tests": LeakKind.LISTS,
}
_WORD = re.compile(r"\w+")
# Commands by which an agent changes files without writing the lines that result.
_WRITES = re.compile(
    r"\bsed\b.*\s-i|\bperl\b.*\s-p?i|\bpatch\b|\bgit\s+(apply|stash|checkout|restore)\b|>|\btee\b"
    r"|\bpython[\d.]*\b|\bmv\b|\bcp\b|\bruff\b|\bblack\b|\bawk\b|\bed\b|\bex\b"
)
_EDITS = re.compile(r"edit|write|replace|insert|patch|create", re.IGNORECASE)


@dataclass(frozen=True)
class Utterance:
    """A text of a conversation.

    Attributes:
        place: of its step in the file.
        writes: whether it holds an action that may change files.
    """

    text: str
    by_model: bool
    place: str
    writes: bool = False


def utterances(attempt: AgentAttempt) -> tuple[Utterance, ...]:
    """Return the texts of an attempt in their order; what actions return follows them."""
    found = []
    for step in attempt.steps or ():
        said = [step.text, step.reasoning, *(t for a in step.actions for t in _texts(a))]
        writes = any(map(_may_write, step.actions))
        found.append(Utterance("\n".join(said), step.by_model, step.place, writes))
        found += (Utterance(o.text, False, o.place or step.place) for o in step.observations)
    return tuple(found)


def _texts(action: Action) -> Iterator[str]:
    arguments: Mapping[str, Any] = action.arguments
    yield from texts_in(dict(arguments))


def _may_write(action: Action) -> bool:
    return bool(_EDITS.search(action.name)) or any(map(_WRITES.search, command_texts(action)))


@dataclass(frozen=True)
class _Conversation:
    said: Sequence[Utterance]
    patch: str | None
    literal: bool

    def shown(self, line: str) -> Utterance | None:
        """Return where ``line`` was shown before the model wrote it; None if it was not."""
        if line not in self._given:
            return None
        at = next(n for n, one in enumerate(self.said) if line in one.text)
        first = self.said[at]
        if first.by_model or (not self.literal and self._made(line, at)):
            return None
        return first

    def _made(self, line: str, at: int) -> bool:
        """Tell whether the model made ``line`` by earlier commands, such as ``sed``.

        Then its patch, if known, has the line, it acted before, and each word of the line was said
        before: a command makes a line of the file's words and of those in the command.
        """
        before = self.said[:at]
        patched = self.patch is None or line in self.patch
        if not patched or not any(one.writes for one in before):
            return False
        known = {word for one in before for word in _WORD.findall(one.text)}
        return known.issuperset(_WORD.findall(line))

    @cached_property
    def _given(self) -> str:
        return "\n".join(one.text for one in self.said if not one.by_model)


def shown_leaks(
    name: str,
    attempt: AgentAttempt,
    fields: Sequence[Hidden],
    base: StandInBase | None,
) -> Iterator[Leak]:
    """Yield a finding for each step that first shows texts of a hidden field.

    Args:
        name: the instance.
        attempt: with its conversation.
        fields: the instance's hidden fields (``hidden_of``).
        base: returns the lines that are in the base commit; None without a mirror.
    """
    conversation = _Conversation(utterances(attempt), attempt.patch, attempt.literal)
    for hidden in fields:
        places = {line: conversation.shown(line) for line in (*hidden.marks, *hidden.lines)}
        marks, lines = (
            [line for line in texts if places[line]] for texts in (hidden.marks, hidden.lines)
        )
        by_place: dict[str, list[str]] = {}
        for line in evidence(hidden, marks, lines, base):
            if (first := places[line]) is not None:
                by_place.setdefault(first.place, []).append(line)
        for place, found in by_place.items():
            kind = _KINDS[hidden.what]
            yield Leak(kind, name, attempt.attempt, attempt.source, place, found[0], len(found) - 1)
