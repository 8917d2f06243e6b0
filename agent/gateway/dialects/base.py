"""Pure: a protocol in which coding agents call models, as far as the gateway reads it.

Answers pass through byte for byte. The gateway reads which model is asked, what the conversation
holds, and what the answer says and costs. It writes a request again, without tools that the
provider itself would run and parameters that are not listed, and asks for a report of the usage.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from llm.chat import Message, ToolCall

Json = dict[str, Any]
_MOST_TOKENS = 1_000_000_000
_LINE = re.compile(r"\r\n|\n|\r")
_ROLES = {"developer": "system", "model": "assistant", "": "user"}
_CUT_OFF = frozenset({"max_tokens", "length", "incomplete", "MAX_TOKENS"})


@dataclass(frozen=True)
class Tokens:
    """The provider's count of one call.

    Attributes:
        prompt: all tokens of the request, cached and newly cached ones included.
        completion: all tokens of the answer, reasoning included.
        cached: read from the provider's cache.
        written: written to the cache for five minutes.
        written_hour: written to it for an hour, which costs more.
        searches: of the web, by the provider, which litellm's prices of tokens leave out.
    """

    prompt: int
    completion: int
    cached: int = 0
    written: int = 0
    written_hour: int = 0
    reasoning: int = 0
    searches: int = 0

    @property
    def possible(self) -> bool:
        stored = self.cached + self.written + self.written_hour
        if not self.prompt or max(self.prompt, self.completion) > _MOST_TOKENS:
            return False
        return stored <= self.prompt and self.reasoning <= self.completion


@dataclass(frozen=True)
class Answer:
    """What an answer of a provider says.

    Attributes:
        tokens: None where the provider reports none, or impossible ones.
        complete: the answer has its end.
        error: of an answer that ends in an error although it began well.
    """

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tokens: Tokens | None = None
    model: str = ""
    truncated: bool = False
    complete: bool = False
    error: str = ""


@dataclass(frozen=True)
class AgentRequest:
    """One request of an agent, as the provider will get it.

    Attributes:
        path: of the dialect, with the real name of the model where it stands there.
        removed: tools that the provider would have run itself, and parameters that are not listed.
        data: the body as it is sent.
        headers: those that the provider gets; ``query`` likewise.
    """

    dialect: Dialect
    path: str
    body: Json
    streamed: bool
    removed: tuple[str, ...] = ()
    data: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def conversation(self) -> list[Message]:
        return self.dialect.conversation(self.body)

    @cached_property
    def spoken(self) -> list[list[Any]]:
        """What identifies the answers of the model in it."""
        return [
            spoken(message)
            for message in self.conversation
            if message.role == "assistant"
        ]

    @cached_property
    def tools(self) -> list[str]:
        """The names of the tools that it offers."""
        tools = objects(self.body, "tools")
        named = (
            one
            for tool in tools
            for one in objects(tool, "functionDeclarations") or [tool]
        )
        return sorted(map(tool_name, named))


def spoken(message: Message) -> list[Any]:
    """Return what identifies an answer of the model; agents complete arguments of calls."""
    return [message.content.strip(), [call.name for call in message.tool_calls]]


class Dialect(ABC):
    """One protocol.

    Attributes:
        api: the name for ``agent.api``, and litellm's for the provider whose protocol it is.
        common: it is spoken by each provider that has no protocol of its own here.
        parameters: what an agent may say at the top of a request. Others can make the provider
            search the web, call another model, or charge another price.
    """

    name: ClassVar[str]
    api: ClassVar[str]
    common: ClassVar[bool] = False
    place: ClassVar[re.Pattern[str]]
    parameters: ClassVar[str]
    ping: ClassVar[bytes] = b": waiting\n\n"

    @abstractmethod
    def is_client_tool(self, tool: Json) -> bool:
        """Return whether the agent runs ``tool`` itself, so that it needs no network."""

    @abstractmethod
    def turns(self, body: Json) -> Iterator[tuple[str, list[Json]]]:
        """Yield the role and the parts of each message of a request."""

    @abstractmethod
    def part(self, part: Json) -> str | ToolCall | Message | None:
        """Return what a part is: a text, a call of a tool, or a message with its result."""

    @abstractmethod
    def folded(self, events: Sequence[Json]) -> Json:
        """Return the events of a stream as the answer that is not streamed."""

    @abstractmethod
    def outcome(self, answer: Json) -> tuple[list[Json], str, Tokens]:
        """Return the parts of an answer, why it ended (empty where it broke off), its tokens."""

    @abstractmethod
    def refusal(self, words: str) -> Json:
        """Return the body of an error that the agent will not try again."""

    def stream_error(self, words: str) -> bytes:
        return sse(self.refusal(words))

    def conversation(self, body: Json) -> list[Message]:
        """Return the messages of a request; one answer may stand in several."""
        found: list[Message] = []
        for given, parts in self.turns(body):
            role = _ROLES.get(given, given)
            found += (
                part for part in map(self.part, parts) if isinstance(part, Message)
            )
            text, calls = self._said(parts, "" if role == "assistant" else "\n")
            if not text and not calls:
                continue
            same = found and found[-1].role == role == "assistant"
            last = found.pop() if same else Message(role, "")
            calls = (*last.tool_calls, *calls)
            found.append(replace(last, content=last.content + text, tool_calls=calls))
        return found

    def _said(
        self, parts: Iterable[Json], between: str
    ) -> tuple[str, tuple[ToolCall, ...]]:
        read = [self.part(part) for part in parts]
        text = between.join(part for part in read if isinstance(part, str))
        return text, tuple(part for part in read if isinstance(part, ToolCall))

    def read(self, answer: Json) -> Answer:
        """Return what an answer that is not streamed says."""
        parts, end, tokens = self.outcome(answer)
        content, calls = self._said(parts, "")
        model = text_at(answer, "model") or text_at(answer, "modelVersion")
        counted = tokens if tokens.possible else None
        error = answer.get("error")
        words = text_at(error, "message") or dumped(error) if error else ""
        return Answer(content, calls, counted, model, end in _CUT_OFF, bool(end), words)

    def acts(self, event: Json) -> bool:
        """Return whether an agent may act on ``event`` before the stream ends.

        An error counts: a call that failed at once can be repeated, where nothing was passed on.
        """
        parts, end, _ = self.outcome(whole := self.folded([event]))
        called = any(isinstance(self.part(part), ToolCall) for part in parts)
        return bool(called or end or whole.get("error") or event.get("error"))

    def model(self, path: str, body: Json) -> str:
        """Return the model that a request asks."""
        return text_at(body, "model")

    def output_limit(self, body: Json) -> int | None:
        """Return the most tokens of an answer, None where the request sets no limit."""
        names = (
            "max_tokens",
            "max_completion_tokens",
            "max_output_tokens",
            "maxOutputTokens",
        )
        return _most(body, names) or None

    def answers(self, body: Json) -> int:
        """Return how many answers a request asks for."""
        return _most(body, ("n", "candidateCount")) or 1

    def prepared(self, path: str, body: Json, model: str, *, web: bool) -> AgentRequest:
        """Return the request for the provider's ``model``; ``web`` keeps the provider's tools."""
        streamed = body.get("stream") is True or path.endswith(":streamGenerateContent")
        kept, removed = (body, []) if web else self._without_provider_tools(body)
        path, sent = self._addressed(path, kept, model, streamed=streamed)
        # Not the agent's bytes: of a key that stands twice others may read the first value.
        data = json.dumps(sent, ensure_ascii=False).encode("utf-8", "replace")
        return AgentRequest(self, path, sent, streamed, tuple(removed), data)

    def _addressed(
        self, path: str, body: Json, model: str, *, streamed: bool
    ) -> tuple[str, Json]:
        """Return path and body of the request to the provider."""
        return path, {**body, "model": model}

    def _without_provider_tools(self, body: Json) -> tuple[Json, list[str]]:
        """Leave out what the provider would do itself: unknown parameters and tools."""
        known = self.parameters.split()
        removed = [name for name in body if name not in known]
        kept = {name: value for name, value in body.items() if name in known}
        given = kept.pop("tools", [])
        mine = [tool for tool in objects(given) if self.is_client_tool(tool)]
        theirs = [
            tool_name(tool) for tool in objects(given) if not self.is_client_tool(tool)
        ]
        removed += theirs if isinstance(given, list) else ["tools"]
        if mine:
            kept["tools"] = mine
        # It may name a tool that is removed.
        if not mine or (theirs and isinstance(kept.get("tool_choice"), dict)):
            kept.pop("tool_choice", None)
        return kept, removed


def sse(event: Json) -> bytes:
    """Return one server-sent event, whose name is its type."""
    named = f"event: {event['type']}\n" if "type" in event else ""
    return f"{named}data: {json.dumps(event)}\n\n".encode()


def events_of(text: str) -> Iterator[Json]:
    """Yield the JSON objects in a stream of server-sent events."""
    # Only these end a line, and JSON may hold others as they are.
    for block in re.split(r"\r\n\r\n|\n\n|\r\r", text):
        lines = (
            line[5:].strip() for line in _LINE.split(block) if line.startswith("data:")
        )
        found = loaded("\n".join(lines))
        if isinstance(found, dict):
            yield found


def at(value: object, *path: str) -> Any:  # noqa: ANN401
    """Return what stands in nested objects, None where a key is missing."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def objects(value: object, *path: str) -> list[Json]:
    found = at(value, *path)
    return (
        [item for item in found if isinstance(item, dict)]
        if isinstance(found, list)
        else []
    )


def first(value: Json, key: str) -> Json:
    return next(iter(objects(value, key)), {})


def object_at(value: object, *path: str) -> Json:
    found = at(value, *path)
    return found if isinstance(found, dict) else {}


def text_at(value: object, *path: str) -> str:
    found = at(value, *path)
    return found if isinstance(found, str) else ""


def count_at(value: object, *path: str) -> int:
    found = at(value, *path)
    return (
        found
        if isinstance(found, int) and not isinstance(found, bool) and found > 0
        else 0
    )


def _most(body: Json, names: Iterable[str]) -> int:
    asked = {**body, **object_at(body, "generationConfig")}
    return max(count_at(asked, name) for name in names)


def tool_name(tool: Json) -> str:
    name = tool.get("name") or at(tool, "function", "name") or tool.get("type")
    return text_at(name) or next(iter(tool), "")


def joined(content: object) -> str:
    """Return a content that is a text, or a list of parts with texts."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, (text_at(part, "text") for part in objects(content))))


def dumped(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def loaded(text: str | bytes) -> Any:  # noqa: ANN401
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
