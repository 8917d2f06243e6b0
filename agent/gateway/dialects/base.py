"""Pure: a protocol in which coding agents call models, as far as the gateway reads it.

Answers pass through byte for byte. The gateway reads which model is asked, what the conversation
holds, and what the answer says and costs. It writes a request again, without tools that the
provider itself would run and parameters that are not listed, and asks for a report of the usage.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from llm.chat import Message, ToolCall

Json = dict[str, Any]
_MOST_TOKENS = 1_000_000_000
_LINE = re.compile(r"\r\n|\n|\r")


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
    """

    dialect: Dialect
    path: str
    body: Json
    streamed: bool
    removed: tuple[str, ...] = ()
    data: bytes = field(default=b"", repr=False)


class Dialect(ABC):
    """One protocol.

    Attributes:
        api: the name for ``--agent-api``.
        providers: litellm's names of providers that speak it; None: each but those of others.
        parameters: what an agent may say at the top of a request. Others can make the provider
            search the web, call another model, or charge another price.
    """

    name: ClassVar[str]
    api: ClassVar[str]
    providers: ClassVar[frozenset[str] | None]
    place: ClassVar[re.Pattern[str]]
    parameters: ClassVar[frozenset[str]]
    ping: ClassVar[bytes] = b": waiting\n\n"

    @abstractmethod
    def is_client_tool(self, tool: Json) -> bool:
        """Return whether the agent runs ``tool`` itself, so that it needs no network."""

    @abstractmethod
    def conversation(self, body: Json) -> list[Message]:
        """Return the messages of a request."""

    @abstractmethod
    def folded(self, events: Sequence[Json]) -> Json:
        """Return the events of a stream as the answer that is not streamed."""

    @abstractmethod
    def read(self, answer: Json) -> Answer:
        """Return what an answer that is not streamed says."""

    @abstractmethod
    def burst(self, answer: Json) -> list[Json]:
        """Return the least events of a stream that say what ``answer`` does."""

    @abstractmethod
    def acts(self, event: Json) -> bool:
        """Return whether an agent may act on ``event`` before the stream ends."""

    @abstractmethod
    def refusal(self, words: str) -> Json:
        """Return the body of an error that the agent will not try again."""

    def streamed(self, answer: Json) -> bytes:
        """Return ``answer`` as a stream."""
        return b"".join(sse(event, text_of(event.get("type"))) for event in self.burst(answer))

    def stream_error(self, words: str) -> bytes:
        return b"data: " + json.dumps(self.refusal(words)).encode() + b"\n\n"

    def model(self, path: str, body: Json) -> str:
        """Return the model that a request asks."""
        return text_of(body.get("model"))

    def streams(self, path: str, body: Json) -> bool:
        return body.get("stream") is True

    def output_limit(self, body: Json) -> int | None:
        """Return the most tokens of an answer, None where the request sets no limit."""
        names = ("max_tokens", "max_completion_tokens", "max_output_tokens")
        return max(count_of(body.get(name)) for name in names) or None

    def answers(self, body: Json) -> int:
        """Return how many answers a request asks for."""
        return count_of(body.get("n")) or 1

    def query(self, request: AgentRequest) -> dict[str, str]:
        """Return what a request needs in its address."""
        return {}

    def tools(self, body: Json) -> list[Json]:
        return objects(body.get("tools"))

    def tool_names(self, body: Json) -> list[str]:
        return sorted(tool_name(tool) for tool in self.tools(body))

    def prepared(self, path: str, body: Json, model: str, *, web: bool) -> AgentRequest:
        """Return the request for the provider's ``model``; ``web`` keeps the provider's tools."""
        streamed, removed = self.streams(path, body), list[str]()
        kept = body
        if not web:
            kept, removed = self._without_provider_tools(body)
        sent = self._asking(kept, model, streamed=streamed)
        # Not the agent's bytes: of a key that stands twice others may read the first value.
        data = json.dumps(sent, ensure_ascii=False).encode("utf-8", "replace")
        return AgentRequest(self, self._path(path, model), sent, streamed, tuple(removed), data)

    def _path(self, path: str, model: str) -> str:
        return path

    def _asking(self, body: Json, model: str, *, streamed: bool) -> Json:
        return {**body, "model": model}

    def _without_provider_tools(self, body: Json) -> tuple[Json, list[str]]:
        """Leave out what the provider would do itself: unknown parameters and tools."""
        removed = [name for name in body if name not in self.parameters]
        kept = {name: value for name, value in body.items() if name in self.parameters}
        if "tools" not in body:
            return kept, removed
        tools = objects(body["tools"])
        mine = [tool for tool in tools if self.is_client_tool(tool)]
        theirs = [tool_name(tool) for tool in tools if not self.is_client_tool(tool)]
        whole = isinstance(body["tools"], list)
        removed += theirs if whole else ["tools"]
        kept["tools"] = mine
        named = kept.get("tool_choice")
        if not mine or (isinstance(named, dict) and theirs):
            kept.pop("tool_choice", None)
        if not mine:
            del kept["tools"]
        return kept, removed


def sse(event: Json, name: str = "") -> bytes:
    """Return one server-sent event."""
    named = f"event: {name}\n" if name else ""
    return f"{named}data: {json.dumps(event)}\n\n".encode()


def events_of(text: str) -> Iterator[Json]:
    """Yield the JSON objects in a stream of server-sent events."""
    # Only these end a line, and JSON may hold others as they are.
    for block in re.split(r"\r\n\r\n|\n\n|\r\r", text):
        lines = (line[5:].strip() for line in _LINE.split(block) if line.startswith("data:"))
        found = loaded("\n".join(lines))
        if isinstance(found, dict):
            yield found


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def object_in(value: Mapping[str, Any], key: str) -> Json:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


def count_of(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def if_possible(tokens: Tokens) -> Tokens | None:
    return tokens if tokens.possible else None


def tool_name(tool: Json) -> str:
    name = tool.get("name") or object_in(tool, "function").get("name") or tool.get("type")
    return text_of(name) or next(iter(tool), "")


def error_in(answer: Json) -> str:
    error = answer.get("error")
    if not error:
        return ""
    words = text_of(error.get("message")) if isinstance(error, dict) else ""
    return words or dumped(error)


def joined(content: object) -> str:
    """Return a content that is a text, or a list of parts with texts."""
    if isinstance(content, str):
        return content
    return "\n".join(text_of(part.get("text")) for part in objects(content) if part.get("text"))


def dumped(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def loaded(text: str) -> Any:  # noqa: ANN401
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
