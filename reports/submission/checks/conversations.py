"""Read the messages of a trajectory and their authors, whichever harness wrote it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

# An agent that edits by commands can show its edits without having written them in a message.
_COMMANDS = "agent"
_WRITTEN = ("calls", "model_patch", "patch", "submission")


@dataclass(frozen=True)
class Said:
    """The text of one message."""

    text: str
    by_model: bool


@dataclass(frozen=True)
class Conversation:
    """The messages of a conversation in their order.

    Attributes:
        literal: the model's messages contain all of its edits, as in this harness's edit formats.
    """

    said: tuple[Said, ...]
    literal: bool

    def shows(self, line: str, patch: str) -> bool:
        """Return whether ``line`` was shown to the model before the model wrote it.

        If edits are not literal, a line of the model's own ``patch`` may be shown to it, for
        example by ``cat``, after its first message.
        """
        first = next((n for n, said in enumerate(self.said) if line in said.text), None)
        if first is None or self.said[first].by_model:
            return False
        after_reply = len(list(takewhile(lambda said: not said.by_model, self.said))) < first
        return self.literal or not after_reply or line not in patch


@dataclass(frozen=True)
class Trajectory:
    """The content of one file of a trajectory.

    Attributes:
        written: text that the model wrote.
        rest: text of unknown authors.
    """

    conversations: tuple[Conversation, ...] = ()
    written: str = ""
    rest: str = ""

    def shows(self, line: str, patch: str) -> bool:
        """Return whether ``line`` was not first written by the model; ``patch`` is predicted."""
        if any(conversation.shows(line, patch) for conversation in self.conversations):
            return True
        return line in self.rest and line not in self.written and line not in patch


def trajectory_of_json(data: object) -> Trajectory:
    """Return the content of a JSON trajectory; lists of messages with roles are conversations."""
    conversations: list[Conversation] = []
    written: list[str] = []
    rest: list[str] = []
    for value, literal, by_model in _parts(data):
        if isinstance(value, str):
            (written if by_model else rest).append(value)
        else:
            conversations.append(Conversation(tuple(map(_said, value)), literal))
    written += [s.text for c in conversations for s in c.said if s.by_model]
    return Trajectory(tuple(conversations), "\n".join(written), "\n".join(rest))


def _parts(data: object) -> Iterator[tuple[Any, bool, bool]]:
    waiting: list[tuple[Any, bool, bool]] = [(data, False, False)]
    while waiting:
        value, literal, by_model = waiting.pop()
        if isinstance(value, str) or (_are_messages(value) and not by_model):
            yield value, literal, by_model
        elif isinstance(value, list):
            waiting += [(item, literal, by_model) for item in value]
        elif isinstance(value, dict):
            if isinstance(value.get("edit_format"), str):
                literal = value["edit_format"] != _COMMANDS
            waiting += [(v, literal, by_model or k in _WRITTEN) for k, v in value.items()]


def _are_messages(value: object) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(m, dict) and isinstance(m.get("role"), str) for m in value)


def _said(message: Mapping[str, Any]) -> Said:
    return Said("\n".join(texts_in(message)), message["role"] == "assistant")


def texts_in(data: object) -> Iterator[str]:
    """Yield all texts in ``data`` except keys."""
    waiting = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            waiting += reversed(value)
        elif isinstance(value, dict):
            waiting += reversed(value.values())
