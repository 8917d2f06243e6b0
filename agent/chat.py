"""Messages, replies and what a model call can end in: the words that agent modules share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Message:
    """One message of a conversation, in the roles of the OpenAI chat protocol."""

    role: str
    content: str


@dataclass(frozen=True)
class Usage:
    """Tokens of one call as the provider counted them; cached ones are part of the prompt's."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True)
class Reply:
    """What a model answered to one request.

    Attributes:
        content: the text; empty when there was none.
        truncated: the output limit cut it off.
        usage: tokens, or None where the provider did not say.
        cost: dollars, or None where the price is unknown.
        seconds: wall-clock time of the call, retries not counted.
        model: the model's name as the provider returned it.
        tool_calls: raw tool calls as (name, arguments).
    """

    content: str
    truncated: bool = False
    usage: Usage | None = None
    cost: float | None = None
    seconds: float = 0.0
    model: str = ""
    tool_calls: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Call:
    """One call of an attempt, as the trajectory keeps it."""

    request_sha256: str
    reply: Reply

    def as_json(self) -> dict[str, Any]:
        """Return the call as it stands in a trajectory."""
        return {"request_sha256": self.request_sha256, **asdict(self.reply)}


class ChatModel(Protocol):
    """Something that answers a conversation."""

    def complete(self, messages: Sequence[Message]) -> Reply:
        """Return the reply to ``messages``.

        Raises:
            RequestRefusedError: the provider will not answer this request, now or later.
            InfrastructureError: it did not answer, retries included.
            UserError: it refused the key or the account.
            ReplayExhaustedError: replies are replayed and none is left.
        """


class RequestRefusedError(Exception):
    """A bad request or a content refusal: the attempt ends as ``error``."""


class ReplayExhaustedError(Exception):
    """More was asked than was recorded."""


def request_sha256(messages: Sequence[Message]) -> str:
    """Return the hash that identifies a request: roles and contents, in order."""
    plain = json.dumps([[m.role, m.content] for m in messages], ensure_ascii=True)
    return hashlib.sha256(plain.encode()).hexdigest()
