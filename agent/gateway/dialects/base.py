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
Turns = Iterator[tuple[str, list[Json]]]
"""The role and the parts of each message of a request."""


class Thought(str):
    """What a model says before its answer."""


PartContent = str | Thought | ToolCall | Message | None
"""What a part is: a text, a thought, a call of a tool, or a message with its result."""
_MAX_TOKENS = 1_000_000_000
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
        cost: dollars as the provider states them, where it does.
    """

    prompt: int
    completion: int
    cached: int = 0
    written: int = 0
    written_hour: int = 0
    reasoning: int = 0
    searches: int = 0
    cost: float | None = None

    @property
    def is_possible(self) -> bool:
        if not self.prompt or max(self.prompt, self.completion) > _MAX_TOKENS:
            return False
        if self.reasoning > self.completion:
            return False
        stored = self.cached + self.written + self.written_hour
        return stored <= self.prompt


AnswerOutcome = tuple[list[Json], str, Tokens]
"""The parts of an answer, why it ended (empty where it broke off), its tokens."""


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
    reasoning: str = ""


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
    def answer_identities(self) -> list[list[Any]]:
        """What identifies the answers of the model in it."""
        answers = [m for m in self.conversation if m.role == "assistant"]
        return list(map(answer_identity, answers))

    @cached_property
    def tools(self) -> list[str]:
        """The names of the tools that it offers."""
        declarations: list[Json] = []
        for tool in objects(self.body, "tools"):
            declarations += objects(tool, "functionDeclarations") or [tool]
        return sorted(map(tool_name, declarations))


def answer_identity(message: Message) -> list[Any]:
    """Return what identifies an answer of the model; agents complete arguments of calls."""
    tools = [call.name for call in message.tool_calls]
    return [message.content.strip(), tools]


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
    path_pattern: ClassVar[re.Pattern[str]]
    parameters: ClassVar[str]
    ping: ClassVar[bytes] = b": waiting\n\n"

    @abstractmethod
    def is_client_tool(self, tool: Json) -> bool:
        """Return whether the agent runs ``tool`` itself, so that it needs no network."""

    @abstractmethod
    def turns(self, body: Json) -> Turns:
        """Return the messages of a request."""

    @abstractmethod
    def part(self, part: Json) -> PartContent:
        """Return what a part is."""

    @abstractmethod
    def merge_events(self, events: Sequence[Json]) -> Json:
        """Return the events of a stream as the answer that is not streamed."""

    @abstractmethod
    def outcome(self, answer: Json) -> AnswerOutcome:
        """Return what an answer has, and how it ended."""

    @abstractmethod
    def refusal(self, message: str, status: int = 400) -> Json:
        """Return the body of an error that the agent will try again from 500 upwards only."""

    def error_event(self, data: bytes) -> bytes:
        """Return the event in a stream that says what the body of an error says."""
        body = parse_json(data)
        if not isinstance(body, dict):
            body = self.refusal(data.decode("utf-8", "replace"), 502)
        return sse(self._event_of(body))

    def _event_of(self, error: Json) -> Json:
        return error

    def is_error(self, event: Json) -> bool:
        """Return whether ``event``, or an answer, says that the call failed."""
        return bool(event.get("error") or self.merge_events([event]).get("error"))

    def conversation(self, body: Json) -> list[Message]:
        """Return the messages of a request; one answer may stand in several."""
        messages: list[Message] = []
        for role_name, parts in self.turns(body):
            role = _ROLES.get(role_name, role_name)
            texts, calls, results, _ = self._read_parts(parts)
            messages += results
            separator = "" if role == "assistant" else "\n"
            text = separator.join(texts)
            if not text and not calls:
                continue
            if messages and messages[-1].role == role == "assistant":
                last = messages.pop()
            else:
                last = Message(role, "")
            message = replace(
                last,
                content=last.content + text,
                tool_calls=(*last.tool_calls, *calls),
            )
            messages.append(message)
        return messages

    def _read_parts(
        self, parts: Iterable[Json]
    ) -> tuple[list[str], list[ToolCall], list[Message], list[str]]:
        """Return the texts, calls of tools, messages with results, and thoughts in ``parts``."""
        texts = []
        calls = []
        results = []
        thoughts: list[str] = []
        for part in parts:
            content = self.part(part)
            if isinstance(content, Thought):
                thoughts.append(content)
            elif isinstance(content, str):
                texts.append(content)
            elif isinstance(content, ToolCall):
                calls.append(content)
            elif content is not None:
                results.append(content)
        return texts, calls, results, thoughts

    def read_text(self, text: str) -> Answer:
        """Return what a whole answer says, as it came."""
        answer = parse_json(text)
        if not isinstance(answer, dict):
            answer = self.merge_events(list(events_of(text)))
        return self.read_answer(answer)

    def read_answer(self, answer: Json) -> Answer:
        """Return what an answer that is not streamed says."""
        parts, end, tokens = self.outcome(answer)
        texts, calls, _, thoughts = self._read_parts(parts)
        error = answer.get("error")
        error_message = ""
        if error:
            error_message = text_at(error, "message") or as_json(error)
        return Answer(
            content="".join(texts),
            tool_calls=tuple(calls),
            tokens=tokens if tokens.is_possible else None,
            model=text_at(answer, "model") or text_at(answer, "modelVersion"),
            truncated=end in _CUT_OFF,
            complete=bool(end),
            error=error_message,
            reasoning="\n".join(filter(None, thoughts)),
        )

    def is_actionable(self, event: Json) -> bool:
        """Return whether an agent may act on ``event`` before the stream ends.

        An error counts: a call that failed at once can be repeated, where nothing was passed on.
        """
        answer = self.merge_events([event])
        parts, end, _ = self.outcome(answer)
        _, calls, _, _ = self._read_parts(parts)
        return bool(calls or end) or self.is_error(event)

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
        return _max_count(body, names) or None

    def answer_count(self, body: Json) -> int:
        """Return how many answers a request asks for."""
        return _max_count(body, ("n", "candidateCount")) or 1

    def prepare_request(
        self,
        path: str,
        body: Json,
        model: str,
        *,
        web: bool,
    ) -> AgentRequest:
        """Return the request for the provider's ``model``; ``web`` keeps the provider's tools."""
        streamed = body.get("stream") is True
        if path.endswith(":streamGenerateContent"):
            streamed = True
        removed: list[str] = []
        if not web:
            body, removed = self._without_provider_tools(body)
        path, body = self._address_request(path, body, model, streamed=streamed)
        # Not the agent's bytes: of a key that stands twice others may read the first value.
        text = json.dumps(body, ensure_ascii=False)
        data = text.encode("utf-8", "replace")
        return AgentRequest(
            dialect=self,
            path=path,
            body=body,
            streamed=streamed,
            removed=tuple(removed),
            data=data,
        )

    def _address_request(
        self,
        path: str,
        body: Json,
        model: str,
        *,
        streamed: bool,
    ) -> tuple[str, Json]:
        """Return path and body of the request to the provider."""
        return path, {**body, "model": model}

    def _without_provider_tools(self, body: Json) -> tuple[Json, list[str]]:
        """Leave out what the provider would do itself: unknown parameters and tools."""
        parameters = self.parameters.split()
        allowed = dict(body)
        removed = []
        for name in body:
            if name not in parameters:
                del allowed[name]
                removed.append(name)
        tools = allowed.pop("tools", [])
        if not isinstance(tools, list):
            removed.append("tools")
        client_tools = []
        has_provider_tools = False
        for tool in objects(tools):
            if self.is_client_tool(tool):
                client_tools.append(tool)
            else:
                has_provider_tools = True
                removed.append(tool_name(tool))
        if client_tools:
            allowed["tools"] = client_tools
        # It may name a tool that is removed.
        names_a_tool = isinstance(allowed.get("tool_choice"), dict)
        if not client_tools or (has_provider_tools and names_a_tool):
            allowed.pop("tool_choice", None)
        return allowed, removed


def sse(event: Json) -> bytes:
    """Return one server-sent event, whose name is its type."""
    lines = f"data: {json.dumps(event)}\n\n"
    if "type" in event:
        lines = f"event: {event['type']}\n{lines}"
    return lines.encode()


def events_of(text: str) -> Iterator[Json]:
    """Yield the JSON objects in a stream of server-sent events."""
    # Only these end a line, and JSON may hold others as they are.
    for block in re.split(r"\r\n\r\n|\n\n|\r\r", text):
        data = []
        for line in _LINE.split(block):
            if line.startswith("data:"):
                data.append(line.removeprefix("data:").strip())
        event = parse_json("\n".join(data))
        if isinstance(event, dict):
            yield event


def value_at(value: object, *path: str) -> Any:  # noqa: ANN401
    """Return what stands in nested objects, None where a key is missing."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def objects(value: object, *path: str) -> list[Json]:
    items = value_at(value, *path)
    if not isinstance(items, list):
        return []
    return [item for item in items if isinstance(item, dict)]


def first_object(value: Json, key: str) -> Json:
    for item in objects(value, key):
        return item
    return {}


def object_at(value: object, *path: str) -> Json:
    item = value_at(value, *path)
    if isinstance(item, dict):
        return item
    return {}


def text_at(value: object, *path: str) -> str:
    item = value_at(value, *path)
    if isinstance(item, str):
        return item
    return ""


def count_at(value: object, *path: str) -> int:
    item = value_at(value, *path)
    if isinstance(item, bool) or not isinstance(item, int):
        return 0
    return max(item, 0)


def _max_count(body: Json, names: Iterable[str]) -> int:
    settings = {**body, **object_at(body, "generationConfig")}
    return max(count_at(settings, name) for name in names)


def tool_name(tool: Json) -> str:
    name = tool.get("name") or value_at(tool, "function", "name") or tool.get("type")
    if name and isinstance(name, str):
        return name
    return next(iter(tool), "")


def join_texts(content: object) -> str:
    """Return a content that is a text, or a list of parts with texts."""
    if isinstance(content, str):
        return content
    texts = [text_at(part, "text") for part in objects(content)]
    return "\n".join(filter(None, texts))


def result_text(content: object) -> str:
    """Return the result of a tool; a part that is no text is named by its type."""
    if isinstance(content, str):
        return content
    lines = []
    for part in objects(content):
        name = text_at(part, "tool_name")
        kind = text_at(part, "type")
        if name:
            kind += f": {name}"
        lines.append(text_at(part, "text") or f"[{kind}]")
    return "\n".join(lines)


def as_json(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value)


def parse_json(text: str | bytes | bytearray) -> Any:  # noqa: ANN401
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
