"""Pure: the conversations of an agent, as its requests and their answers show them.

Agents write answers back in their own way: parallel calls in several messages, completed arguments.
So an answer is known again by its texts and the names of its calls, in their order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

from swe_retry.llm.chat import REPLY, Message, Reply

# Bytes of the place of a message in a file that has its text already.
_PLACE = 64


@dataclass
class Lane:
    """One conversation of an agent: its main one, or that of a sub-agent."""

    messages: list[Message]
    calls: list[Reply] = field(default_factory=list)


@dataclass
class Lanes:
    """All conversations of an agent, in the order in which they began.

    Attributes:
        size: bytes of their record; equal messages count once.
    """

    lanes: list[Lane] = field(default_factory=list)
    size: int = 0
    _unique: dict[Message, Message] = field(default_factory=dict)

    def keep(self, messages: Sequence[Message]) -> list[Message]:
        """Count the messages that are new, and return equal ones of which each is held once."""
        kept = []
        for message in messages:
            if message not in self._unique:
                self._unique[message] = message
                self.size += len(json.dumps(asdict(message)))
            kept.append(self._unique[message])
        return kept

    def add(
        self, conversation: Sequence[Message], answer: Message, call: Reply
    ) -> None:
        """Add an answer to the conversation that its request goes on with, or to a new one."""
        lane = self._find(conversation)
        if lane:
            answered = len(_answer_parts(lane.messages[:-1]))
            following = _messages_after(conversation, answered)
        else:
            lane = Lane([])
            following = list(conversation)
            self.lanes.append(lane)
        following.append(answer)
        lane.messages += self.keep(following)
        lane.calls.append(call)
        self.size += len(json.dumps(REPLY.dump_python(call, mode="json")))
        self.size += _PLACE * len(following)

    def messages(self, first_lane: int) -> list[Message]:
        messages = []
        for number, lane in enumerate(self.lanes, first_lane):
            messages += [replace(message, lane=number) for message in lane.messages]
        return messages

    def _find(self, conversation: Sequence[Message]) -> Lane | None:
        parts = _answer_parts(conversation)
        if not parts:
            # A new one: sub-agents may have equal tasks.
            return None
        lanes = [lane for lane in self.lanes if _answer_parts(lane.messages) == parts]
        return max(
            lanes,
            key=lambda lane: common_length(lane.messages, conversation),
            default=None,
        )


def common_length(messages: Sequence[Message], others: Sequence[Message]) -> int:
    """Return how many messages two conversations have in common at their beginning."""
    length = 0
    for message, other in zip(messages, others, strict=False):
        same_text = message.content.strip() == other.content.strip()
        if message.role != other.role or not same_text:
            break
        length += 1
    return length


def _answer_parts(messages: Sequence[Message]) -> list[str]:
    parts = []
    for message in messages:
        if message.role == "assistant":
            parts.append(message.content.strip())
            parts += [call.name for call in message.tool_calls]
    return list(filter(None, parts))


def _messages_after(conversation: Sequence[Message], answered: int) -> list[Message]:
    """Return what stands behind the first part of the last answer, without the answer."""
    seen = 0
    messages = []
    for message in conversation:
        if message.role == "assistant":
            seen += len(_answer_parts([message]))
        elif seen > answered:
            messages.append(message)
    return messages
