"""Keep a conversation within the model's window: the oldest rounds go first, files stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llm.chat import Message, Traits
from llm.tokens import Count, most_tokens, size

# A full conversation is cut to this share of the window: cutting a little each time would change
# the cached prefix with every message.
AFTER_CUT = 0.6
_MOST_FOR_REPLY = 8192


@dataclass(frozen=True)
class ContextWindow:
    """The number of tokens that a request may have; None when the model's limit is unknown."""

    tokens: int | None

    @classmethod
    def of(cls, traits: Traits) -> ContextWindow:
        """Return the window of a model without the tokens that its reply needs."""
        if traits.context is None:
            return cls(None)
        return cls(traits.context - min(traits.context // 4, _MOST_FOR_REPLY))

    def holds(self, messages: Sequence[Message], count: Count) -> bool:
        """Return whether ``messages`` fit; counts their tokens only if their bytes do not fit."""
        return (
            self.tokens is None
            or size(messages, most_tokens) <= self.tokens
            or size(messages, count) <= self.tokens
        )


def without_oldest(messages: Sequence[Message], room: int, count: Count) -> tuple[Message, ...]:
    """Return ``messages`` without as many of their oldest rounds as it takes to fit ``room``.

    The system message and the message with the issue stay. A round is a reply with the messages
    that answer it.
    """
    head, rest = tuple(messages[:2]), list(messages[2:])
    while rest and size((*head, *rest), count) > room:
        ends = [n for n in range(1, len(rest)) if rest[n].role == "assistant"]
        rest = rest[ends[0] :] if ends else []
    return (*head, *rest)
