"""Pure: a protocol in which coding agents call models, as far as the gateway reads it.

Streamed answers pass through byte for byte, others are merged from a stream. The gateway reads
which model is asked, what the conversation holds, and what the answer says and costs. It writes a
request again: with the keys and parts that are listed, without tools that the provider itself would
run, with a limit of the answer, and with the wish for a report of the usage.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from swe_retry.core.jsontypes import (
    JsonObject,
    count_at,
    objects,
    text_at,
    value_at,
)
from swe_retry.core.redaction import Redactor
from swe_retry.llm.chat import Message, ToolCall
from swe_retry.llm.dialects.answer import Answer, Tokens
from swe_retry.llm.dialects.pieces import (
    as_json,
    events_of,
    parse_json,
    sse,
    texts_in,
    tool_name,
)
from swe_retry.llm.dialects.shapes import SHAPES, Rewriter
from swe_retry.llm.usage import is_priced

Turns = Iterator[tuple[str, list[JsonObject]]]
"""The role and the parts of each message of a request."""


class Thought(str):
    """What a model says before its answer."""


PartContent = str | Thought | ToolCall | Message | None
"""What a part is: a text, a thought, a call of a tool, or a message with its result."""
_ROLES = {"developer": "system", "model": "assistant", "": "user"}
_CUT_OFF = frozenset({"max_tokens", "length", "incomplete", "MAX_TOKENS"})


AnswerOutcome = tuple[list[JsonObject], str, Tokens]
"""The parts of an answer, why it ended (empty where it broke off), its tokens."""


@dataclass(frozen=True)
class AgentRequest:
    """One request of an agent, as the provider will get it.

    Attributes:
        path: of the dialect, with the real name of the model where it stands there.
        body: as it is sent, with the agent's own limit of the answer.
        removed: tools that the provider would have run itself, and keys and parts that are not
            listed.
        is_text: it holds nothing but text, so that its bytes limit its tokens.
        own_limit: tokens of the longest answer that the agent wants; 0 where unknown.
        limit: that is sent, at ``limit_key``.
        data: the body as it is sent, with ``limit``.
        headers: those that the provider gets; ``query`` likewise.
        redact: takes secrets out of what is recorded and compared.
    """

    dialect: Dialect
    path: str
    body: JsonObject
    streamed: bool
    removed: tuple[str, ...]
    is_text: bool
    own_limit: int
    limit: int = 0
    limit_key: str = ""
    data: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    redact: Redactor = field(default_factory=Redactor)

    def with_limit(self, limit: int) -> AgentRequest:
        """Return it with another limit of the answer."""
        body = self.dialect.limit_body(self.body, self.limit_key, limit)
        # Not the agent's bytes: of a key that stands twice others may read the first value.
        text = json.dumps(body, ensure_ascii=False)
        return replace(self, limit=limit, data=text.encode("utf-8", "replace"))

    @property
    def is_limited(self) -> bool:
        """Whether an answer may be cut off where the agent would not cut it off."""
        return self.limit < self.own_limit

    @cached_property
    def recorded_body(self) -> JsonObject:
        """The body as a replay may compare it: the agent gets recorded answers without secrets."""
        body: JsonObject = self.redact.of(self.body)
        return body

    @cached_property
    def conversation(self) -> list[Message]:
        return self.dialect.conversation(self.recorded_body)

    @cached_property
    def answer_identities(self) -> list[list[Any]]:
        """What identifies the answers of the model in it."""
        answers = [m for m in self.conversation if m.role == "assistant"]
        identities = []
        for message in answers:
            # Agents complete the arguments of calls.
            tools = [call.name for call in message.tool_calls]
            identities.append([message.content.strip(), tools])
        return identities

    @cached_property
    def tools(self) -> list[str]:
        """The names of the tools that it offers."""
        declarations = []
        for tool in objects(self.body, "tools"):
            declarations += objects(tool, "functionDeclarations") or [tool]
        return sorted(map(tool_name, declarations))


class Dialect(ABC):
    """One protocol.

    Attributes:
        api: the name for ``agent.api``, and litellm's for the provider whose protocol it is.
        common: it is spoken by each provider that has no protocol of its own here.
        path_ends: what the paths of its requests end with, at any provider.
        limit_keys: where a request limits its answer.
    """

    name: str
    api: str
    common: bool = False
    path_pattern: re.Pattern[str]
    path_ends: tuple[str, ...]
    limit_keys: tuple[str, ...]
    ping: bytes = b": waiting\n\n"

    @abstractmethod
    def is_client_tool(self, tool: JsonObject) -> bool:
        """Return whether the agent runs ``tool`` itself, so that it needs no network."""

    @abstractmethod
    def turns(self, body: JsonObject) -> Turns:
        """Return the messages of a request."""

    @abstractmethod
    def part(self, part: JsonObject) -> PartContent:
        """Return what a part is."""

    @abstractmethod
    def merge_events(self, events: Sequence[JsonObject]) -> JsonObject:
        """Return the events of a stream as the answer that is not streamed."""

    def read_events(self, text: str) -> Iterator[JsonObject]:
        """Yield the events of a stream."""
        return events_of(text)

    def stream_address(self, address: str) -> str:
        """Return the path or URL at which a request to ``address`` is answered by a stream."""
        return address

    def stream_body(
        self, body: JsonObject, *, reports_usage: bool = True
    ) -> JsonObject:
        """Return the body that asks for a stream, and for its usage if ``reports_usage``."""
        return {**body, "stream": True}

    @abstractmethod
    def outcome(self, answer: JsonObject) -> AnswerOutcome:
        """Return what an answer has, and how it ended."""

    @abstractmethod
    def refusal(self, message: str, status: int) -> JsonObject:
        """Return the body of an error that the agent will try again from 500 upwards only."""

    def error_event(self, data: bytes) -> bytes:
        """Return the event in a stream that says what the body of an error says."""
        body = parse_json(data)
        if not isinstance(body, dict):
            body = self.refusal(data.decode("utf-8", "replace"), 502)
        return sse(self._event_of(body))

    def _event_of(self, error: JsonObject) -> JsonObject:
        return error

    def is_error(self, event: JsonObject) -> bool:
        """Return whether ``event``, or an answer, says that the call failed."""
        return bool(event.get("error") or self.merge_events([event]).get("error"))

    def conversation(self, body: JsonObject) -> list[Message]:
        """Return the messages of a request; one answer may stand in several."""
        messages = []
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
        self, parts: Iterable[JsonObject]
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
            elif content:
                results.append(content)
        return texts, calls, results, thoughts

    def read_text(self, text: str) -> Answer:
        """Return what a whole answer says, as it came."""
        answer = parse_json(text)
        if not isinstance(answer, dict):
            answer = self.merge_events(list(events_of(text)))
        return self.read_answer(answer)

    def read_answer(self, answer: JsonObject) -> Answer:
        """Return what an answer that is not streamed says."""
        parts, end, tokens = self.outcome(answer)
        texts, calls, _, thoughts = self._read_parts(parts)
        error = answer.get("error")
        error_message = ""
        if error:
            error_message = text_at(error, "message") or as_json(error)
        usage = answer.get("usage") or answer.get("usageMetadata")
        content = "".join(texts)
        is_counted = tokens.completion or not (content or calls or thoughts)
        tier = answer.get("service_tier") or value_at(usage, "service_tier")
        tier = str(tier or value_at(usage, "trafficType") or "")
        tokens = replace(tokens, tier=tier.removeprefix("ON_DEMAND_"))
        is_known = tokens.is_possible and is_counted and is_priced(usage)
        return Answer(
            content=content,
            tool_calls=tuple(calls),
            tokens=tokens if is_known else None,
            model=text_at(answer, "model") or text_at(answer, "modelVersion"),
            truncated=end in _CUT_OFF,
            complete=bool(end),
            error=error_message,
            reasoning="\n".join(filter(None, thoughts)),
        )

    def arrived_text(self, events: Iterable[JsonObject]) -> str:
        """Return what the model said in the events of a stream that broke off."""
        texts: list[str] = []
        for event in events:
            choices = objects(event, "choices") + objects(event, "candidates")
            for part in (event, *choices):
                content = part.get("delta") or part.get("content") or part.get("text")
                texts += texts_in(content)
        return "".join(texts)

    def is_actionable(self, event: JsonObject) -> bool:
        """Return whether an agent may act on ``event`` before the stream ends.

        An error counts: a call that failed at once can be repeated, where nothing was passed on.
        """
        answer = self.merge_events([event])
        parts, end, _ = self.outcome(answer)
        calls = self._read_parts(parts)[1]
        return bool(calls or end) or self.is_error(event)

    def model(self, path: str, body: JsonObject) -> str:
        """Return the model that a request asks."""
        return text_at(body, "model")

    def read_limit(self, body: JsonObject) -> int:
        """Return the most tokens of an answer, 0 where the request sets no limit."""
        return max(count_at(body, key) for key in self.limit_keys)

    def limit_body(self, body: JsonObject, key: str, limit: int) -> JsonObject:
        """Return the body with ``limit`` as the most tokens of an answer."""
        body = {k: value for k, value in body.items() if k not in self.limit_keys}
        body[key] = limit
        return body

    def prepare_request(
        self,
        path: str,
        body: JsonObject,
        model: str,
        *,
        web: bool = False,
        own: bool = False,
        limit_key: str = "",
    ) -> AgentRequest:
        """Return the request for the provider's ``model``, without a limit of the answer.

        ``web``: the provider may fetch what the request names, and run tools. ``own``: it is a
        server of the user's own, which may sample in its own ways. ``limit_key``: where the limit
        stands, in a dialect that has this key.
        """
        streamed = body.get("stream") is True
        if path.endswith(":streamGenerateContent"):
            streamed = True
        shapes = SHAPES[self.name]
        shape = "web" if web else "request"
        if own:
            shapes = {**shapes, shape: f"{shapes[shape]} {shapes.get('own', '')}"}
        rewriter = Rewriter(shapes)
        body = rewriter.rewrite(body, shape) or {}
        if not web:
            body = self._without_provider_tools(body, rewriter.removed)
        keys = sorted(self.limit_keys, key=body.keys().__contains__, reverse=True)
        if limit_key not in keys:
            limit_key = keys[0]
        limit = self.read_limit(body)
        if limit:
            body = self.limit_body(body, limit_key, limit)
        path, body = self._address_request(path, body, model)
        return AgentRequest(
            dialect=self,
            path=path,
            body=body,
            streamed=streamed,
            removed=tuple(rewriter.removed),
            is_text=rewriter.is_text and not web,
            own_limit=limit,
            limit_key=limit_key,
        )

    def _address_request(
        self,
        path: str,
        body: JsonObject,
        model: str,
    ) -> tuple[str, JsonObject]:
        """Return path and body of the request to the provider."""
        return path, {**body, "model": model}

    def _without_provider_tools(
        self,
        body: JsonObject,
        removed: list[str],
    ) -> JsonObject:
        """Leave out the tools that the provider would run itself, and add their names."""
        allowed = dict(body)
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
        return allowed
