"""Pure: the messages of an instance's attempts, as its page shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.plaintext import shortened
from reports.data.jsonvalues import mapping, objects, text, whole

_START = 90
_ISSUE = ("\n<issue>\n", "\n</issue>\n")


@dataclass(frozen=True)
class MessageView:
    """One message.

    Attributes:
        same_as: an earlier message of the instance with the same text, if any.
    """

    attempt: int
    number: int
    role: str
    content: str
    same_as: MessageView | None = None

    @property
    def anchor(self) -> str:
        """The HTML id of the message."""
        return f"message-{self.attempt}-{self.number}"

    @property
    def start(self) -> str:
        """The first words of the message, in one line."""
        return shortened(self.content[: 4 * _START], _START)


def conversations(trajectory: Mapping[str, Any]) -> dict[int, tuple[MessageView, ...]]:
    """Return the messages by attempt number; repeated texts refer to their first message."""
    seen: dict[str, MessageView] = {}
    return {
        number: tuple(_messages(number, objects(attempt.get("messages")), seen))
        for attempt in objects(trajectory.get("attempts"))
        if (number := whole(attempt.get("attempt")))
    }


def _messages(
    attempt: int, messages: Iterable[Mapping[str, Any]], seen: dict[str, MessageView]
) -> Iterator[MessageView]:
    for number, message in enumerate(messages, 1):
        content = _content(message)
        view = MessageView(
            attempt=attempt,
            number=number,
            role=text(message.get("role")) or "unknown",
            content=content,
            same_as=seen.get(content),
        )
        seen.setdefault(content, view)
        yield view


def _content(message: Mapping[str, Any]) -> str:
    """Return the text of a message, followed by its tool calls."""
    parts = [text(message.get("content"))]
    for call in objects(message.get("tool_calls")):
        # The older protocol nests the name and the arguments in `function`.
        called = {**call, **mapping(call.get("function"))}
        parts.append(f"{text(called.get('name'))}({text(called.get('arguments'))})")
    return "\n".join(part for part in parts if part)


def issue_in(views: Mapping[int, tuple[MessageView, ...]]) -> str:
    """Return the text of the issue in the first request (``agent/prompts/opening.md``)."""
    for message in (message for messages in views.values() for message in messages):
        _, start, rest = message.content.partition(_ISSUE[0])
        issue, end, _ = rest.rpartition(_ISSUE[1])
        if message.role == "user" and start and end:
            return issue
    return ""
