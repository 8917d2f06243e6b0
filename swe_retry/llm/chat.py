"""Messages, replies, the protocol of models, and the ways in which a call can end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from swe_retry.core.hashing import sha256_of
from swe_retry.core.money import as_number, dollars_or_none

WINDOW_WORDS = "the request is longer than the model's window"
"""The words, after the model's name, that stand in records for a ``WindowExceededError``."""
_TOO_LONG = re.compile(rf"\S+: {WINDOW_WORDS}\b")

AnyText = Annotated[str, InstanceOf()]
"""A text in a file; pydantic's own accept no unpaired surrogates, which models write."""
Whole = Annotated[int, Field(strict=True, ge=0, le=2**53)]
IfAny = Field(exclude_if=lambda value: not value)
"""Of a value that files have only where it says something."""


def or_none(value: object, check: ValidatorFunctionWrapHandler) -> Any:  # noqa: ANN401
    """Return a value of a file that was checked; None where it is none of its type."""
    try:
        return check(value)
    except ValidationError:
        return None


OrUnknown = WrapValidator(or_none)
"""Of a value that is unknown where a file says nothing that can be read."""


def _dollars(value: object) -> object:
    """Return a number as dollars; true, false and texts are none, so they are unknown."""
    if isinstance(value, bool | str):
        return None
    if isinstance(value, Decimal):
        return value
    return dollars_or_none(value)  # type: ignore[arg-type]


DollarsNumber = Annotated[
    Decimal | None, BeforeValidator(_dollars), PlainSerializer(as_number)
]
"""Dollars; a number in a file."""

Tool = Mapping[str, Any]
"""A function that a model may call: ``name``, ``description`` and ``parameters`` (JSON schema)."""


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool; ``arguments`` is the model's JSON, which may be broken."""

    name: AnyText
    arguments: AnyText
    id: AnyText = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, in the roles of the OpenAI chat protocol.

    Attributes:
        tool_call_id: the call that a ``tool`` message answers.
        images: addresses of images that belong to the message.
        lane: the number of its conversation, where an agent held several; 0 is the first.
        reasoning: what a model said before its answer, to agents and harnesses of others.
    """

    role: AnyText
    content: AnyText = ""
    tool_calls: Annotated[tuple[ToolCall, ...], IfAny] = ()
    tool_call_id: Annotated[AnyText, IfAny] = ""
    images: Annotated[tuple[AnyText, ...], IfAny] = ()
    lane: Annotated[Whole, IfAny] = 0
    reasoning: Annotated[AnyText, IfAny] = ""

    @property
    def with_calls(self) -> str:
        """The thoughts, the content, and a line for each call of a tool."""
        thoughts = ""
        if self.reasoning:
            thoughts = f"[thoughts]\n{self.reasoning}\n[end of thoughts]"
        calls = [f"{call.name}({call.arguments})" for call in self.tool_calls]
        return "\n".join(filter(None, [thoughts, self.content, *calls]))


Request = Sequence[Message] | str
"""What a model is asked: a conversation, or a text to continue (a plain-text completion)."""


@dataclass(frozen=True)
class Usage:
    """Tokens that the provider counted; the prompt's include the cached ones; None is unknown."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    prompt_tokens: Whole | None = None
    completion_tokens: Whole | None = None
    cached_tokens: Whole | None = None

    @classmethod
    def known_sum(cls, usages: Iterable[Usage | None]) -> Usage:
        """Return the sums of what is known."""
        reported = [usage for usage in usages if usage is not None]
        return cls(
            sum(usage.prompt_tokens or 0 for usage in reported),
            sum(usage.completion_tokens or 0 for usage in reported),
            sum(usage.cached_tokens or 0 for usage in reported),
        )


@dataclass(frozen=True)
class Reply:
    """The answer of a model to one request.

    Attributes:
        truncated: the output limit cut it off.
        usage: tokens; None where the provider reports none.
        cost: dollars; None where the price is unknown.
        seconds: wall-clock time of the call without retries.
        model: the model's name from the provider.
        exchange_sha256: identifies what it answers, see the function of that name; None in records
            of earlier versions, and for a request that is not known in full.
        body: the provider's whole answer as it came, for a coding agent that reads it itself
            (``swe_retry.agent.gateway``); empty otherwise.
        request_sha256: identifies the request as a part of its attempt; empty where the record
            does not have it.
    """

    content: AnyText
    truncated: bool = False
    usage: Annotated[Usage | None, OrUnknown] = None
    cost: Annotated[DollarsNumber, OrUnknown] = None
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    model: AnyText = ""
    tool_calls: tuple[ToolCall, ...] = ()
    exchange_sha256: Annotated[AnyText | None, IfAny] = None
    body: Annotated[AnyText, IfAny] = ""
    request_sha256: Annotated[AnyText, IfAny] = ""

    @property
    def sha256_pair(self) -> tuple[str | None, str]:
        """The hashes of the exchange (None if unknown) and of the reply: do replies vary?"""
        return self.exchange_sha256, reply_sha256(self)


def redact_reply(reply: Reply, redact: Callable[[str], str]) -> Reply:
    """Return what of a reply is used and recorded: the same, so that a replay goes on equally."""
    calls = []
    for call in reply.tool_calls:
        words = map(redact, (call.name, call.arguments, call.id))
        calls.append(ToolCall(*words))
    return replace(
        reply,
        content=redact(reply.content),
        model=redact(reply.model),
        tool_calls=tuple(calls),
        body=redact(reply.body),
    )


REPLY = TypeAdapter(Reply)
"""Reads and writes replies in files."""


class Reminder(StrEnum):
    """The place of the edit format's rules in a request: the system or last user message."""

    SYSTEM = "system"
    USER = "user"
    BOTH = "both"
    NONE = "none"


@dataclass(frozen=True)
class Traits:
    """The properties of a model that matter to a conversation.

    Attributes:
        context: the most tokens of a request and its reply; None when unknown.
        prefill: the model continues a last message of the role ``assistant``.
    """

    context: Whole | None = None
    prefill: bool = False
    reminder: Reminder = Reminder.SYSTEM
    images: Annotated[bool, IfAny] = False


Waiting = Callable[[], AbstractContextManager[None]]
"""Surrounds what only waits for a model."""


class ChatModel(Protocol):
    """Answers the requests of a conversation."""

    @property
    def traits(self) -> Traits:
        """The properties of the model that matter to a conversation."""

    def count(self, text: str) -> int:
        """Return the number of tokens of ``text`` for this model, estimated if necessary."""

    def complete(
        self, messages: Sequence[Message], tools: Sequence[Tool] = ()
    ) -> Reply:
        """Return the reply to ``messages``; the model may call ``tools``.

        Raises:
            RequestRefusedError: the provider refuses this request for good.
            InfrastructureError: the provider did not answer, retries included.
            UserError: the provider refused the key or the account.
            BudgetUsedError: a budget is used up.
            StoppedError: the run is stopping.
            ReplayExhaustedError: a replay has no reply left.
        """


class RequestRefusedError(Exception):
    """A bad request or a content refusal: the attempt ends as ``error``, but see subclasses.

    Attributes:
        cost: dollars, where the provider bills refused requests; None when unknown.
    """

    def __init__(self, message: str, cost: Decimal | None = Decimal()) -> None:
        super().__init__(message)
        self.cost = cost


class WindowExceededError(RequestRefusedError):
    """The provider refuses a request that is too long for the model's window."""


class BudgetUsedError(Exception):
    """A budget is used up: the attempt ends with its current tree."""


class AttemptLimitError(BudgetUsedError):
    """The attempt may make no further call; other attempts may."""


class ReplayExhaustedError(Exception):
    """A replay was asked for more replies than were recorded."""


def estimate_tokens(text: str) -> int:
    """Return the usual estimate without a tokenizer: four characters a token."""
    return -(-len(text) // 4)


def refusal(error: str, cost: Decimal | None = Decimal()) -> RequestRefusedError:
    """Return the exception of which a record holds the words."""
    kind = WindowExceededError if _TOO_LONG.match(error) else RequestRefusedError
    return kind(error, cost)


def request_sha256(request: Request) -> str:
    """Return the hash that identifies a request: its text, or roles, contents and tool calls."""
    return sha256_of(json.dumps(_identity(request), ensure_ascii=True))


def exchange_sha256(
    model: str,
    request: Request,
    options: Mapping[str, Any],
    tools: Sequence[Tool] = (),
) -> str:
    """Return the hash of everything that is sent but keys (docs/trajectory.md has the layout).

    ``options`` are those of sampling and length, in the names of the OpenAI protocol.
    """
    exchange = {**options, "model": model}
    key = "prompt" if isinstance(request, str) else "messages"
    exchange[key] = _identity(request)
    if tools:
        exchange["tools"] = list(map(dict, tools))
    return canonical_sha256(exchange)


def reply_sha256(reply: Reply) -> str:
    """Return the hash of the content and the tool calls of ``reply``, without their ids."""
    calls = [[call.name, call.arguments] for call in reply.tool_calls]
    return canonical_sha256({"content": reply.content, "tool_calls": calls})


def canonical_sha256(value: object) -> str:
    """Return the hash of a JSON value, without regard to the order of its keys."""
    return sha256_of(
        json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    )


def _identity(request: Request) -> str | list[list[Any]]:
    if isinstance(request, str):
        return request
    parts = []
    for message in request:
        part: list[Any] = [message.role, message.content]
        # The ids of calls differ each time, so they do not count.
        calls = [[call.name, call.arguments] for call in message.tool_calls]
        if calls:
            part.append(calls)
        if message.images:
            part.append({"images": list(message.images)})
        parts.append(part)
    return parts
