"""Pure: the two protocols of OpenAI."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from swe_retry.core.jsontypes import (
    JsonObject,
    count_at,
    first_object,
    object_at,
    objects,
    text_at,
    value_at,
)
from swe_retry.llm.chat import Message, ToolCall
from swe_retry.llm.dialects.answer import Tokens
from swe_retry.llm.dialects.dialect import (
    AnswerOutcome,
    Dialect,
    PartContent,
    Thought,
    Turns,
)
from swe_retry.llm.dialects.pieces import (
    as_json,
    join_parts,
    join_texts,
    parse_json,
    result_text,
    texts_in,
)


class _OpenAI(Dialect):
    api = "openai"

    def refusal(self, message: str, status: int) -> JsonObject:
        kind = "invalid_request_error" if status < 500 else "server_error"
        error = {"message": message, "type": kind, "param": None, "code": kind}
        return {"error": error}

    def _tokens(self, answer: JsonObject, prompt: str, completion: str) -> Tokens:
        """Return the counts, whose names begin with ``prompt`` and ``completion``."""
        usage = object_at(answer, "usage")
        details = object_at(usage, f"{prompt}_tokens_details")
        answer_details = object_at(usage, f"{completion}_tokens_details")
        return Tokens(
            prompt=count_at(usage, f"{prompt}_tokens"),
            completion=count_at(usage, f"{completion}_tokens"),
            cached=count_at(details, "cached_tokens"),
            written=count_at(details, "cache_write_tokens"),
            reasoning=count_at(answer_details, "reasoning_tokens"),
            cost=value_at(usage, "cost"),
        )


def _without_index(call: JsonObject) -> JsonObject:
    return {key: value for key, value in call.items() if key != "index"}


def _thought_in(message: JsonObject) -> str:
    """Return what servers add to the protocol, under one of two names or under both."""
    names = ("reasoning_content", "reasoning")
    return "".join(dict.fromkeys(text_at(message, name) for name in names))


class Chat(_OpenAI):
    """OpenAI's chat completions (https://platform.openai.com/docs/api-reference/chat)."""

    name = "chat"
    common = True
    limit_keys = ("max_tokens", "max_completion_tokens")
    path_pattern = re.compile(r"(/v1)?/chat/completions")
    path_ends: tuple[str, ...] = ("/completions",)  # of texts as well
    _THOUGHT = "thought"

    def is_client_tool(self, tool: JsonObject) -> bool:
        return tool.get("type") in ("function", "custom")

    def turns(self, body: JsonObject) -> Turns:
        for message in objects(body, "messages"):
            calls = objects(message, "tool_calls")
            yield text_at(message, "role"), [message, *calls]

    def part(self, part: JsonObject) -> PartContent:
        if part.get("role") == "tool":
            text = result_text(part.get("content"))
            return Message("tool", text, tool_call_id=text_at(part, "tool_call_id"))
        if self._THOUGHT in part:
            return Thought(text_at(part, self._THOUGHT))
        if "function" not in part:
            return join_texts(part.get("content"))
        return ToolCall(
            name=text_at(part, "function", "name"),
            arguments=text_at(part, "function", "arguments"),
            id=text_at(part, "id"),
        )

    def merge_events(self, events: Sequence[JsonObject]) -> JsonObject:
        answer: JsonObject = {}
        for event in events:
            # Some servers leave out the number of the only choice.
            numbered = [{"index": 0, **choice} for choice in objects(event, "choices")]
            if numbered:
                # Counts before the end are those of a part.
                answer.pop("usage", None)
            answer = join_parts(answer, {**event, "choices": numbered})
        if "object" in answer:
            answer["object"] = text_at(answer, "object").removesuffix(".chunk")
        choices = objects(answer, "choices") or [{"delta": {}}]
        answer["choices"] = [self._merge_choice(choice) for choice in choices]
        return answer

    def _merge_choice(self, choice: JsonObject) -> JsonObject:
        merged = {"finish_reason": None, **choice}
        delta = merged.pop("delta", None)
        if isinstance(delta, dict):
            message = {"role": "assistant", "content": None, **delta}
            calls = objects(delta, "tool_calls")
            if calls:
                # An index tells calls apart in streams alone.
                message["tool_calls"] = [_without_index(call) for call in calls]
            merged["message"] = message
        return merged

    def outcome(self, answer: JsonObject) -> AnswerOutcome:
        choice = first_object(answer, "choices")
        message = object_at(choice, "message")
        thought = {self._THOUGHT: _thought_in(message)}
        parts = [thought, message, *objects(message, "tool_calls")]
        tokens = self._tokens(answer, "prompt", "completion")
        return parts, text_at(choice, "finish_reason"), tokens

    def stream_body(
        self, body: JsonObject, *, reports_usage: bool = True
    ) -> JsonObject:
        body = super().stream_body(body)
        if reports_usage:
            options = object_at(body, "stream_options")
            body["stream_options"] = {**options, "include_usage": True}
        return body

    def _address_request(
        self,
        path: str,
        body: JsonObject,
        model: str,
    ) -> tuple[str, JsonObject]:
        body = {**body, "model": model}
        if body.get("stream") is True:
            body = self.stream_body(body)
        return path, body


class Responses(_OpenAI):
    """OpenAI's responses (https://platform.openai.com/docs/api-reference/responses)."""

    name = "responses"
    limit_keys = ("max_output_tokens",)
    path_pattern = re.compile(r"(/v1)?/responses")
    path_ends = ("/responses",)
    _CLIENT = frozenset({"function", "custom", "local_shell", "apply_patch"})
    _DONE = "response.output_item.done"
    _FAILED = "response.failed"

    def is_client_tool(self, tool: JsonObject) -> bool:
        if tool.get("type") == "namespace":
            return all(map(self.is_client_tool, objects(tool, "tools")))
        return tool.get("type") in self._CLIENT

    def turns(self, body: JsonObject) -> Turns:
        system = {"role": "system", "content": body.get("instructions")}
        yield "system", [system]
        content = body.get("input")
        items = objects(content)
        if isinstance(content, str):
            items = [{"role": "user", "content": content}]
        for item in items:
            # One answer has several items: its text, and each call.
            yield text_at(item, "role") or "assistant", [item]

    def part(self, part: JsonObject) -> PartContent:
        kind = text_at(part, "type")
        call_id = text_at(part, "call_id")
        if kind.endswith("_call_output"):
            output = result_text(part.get("output"))
            return Message("tool", output, tool_call_id=call_id)
        if kind == "reasoning":
            summary = join_texts(part.get("summary"))
            return Thought(summary or join_texts(part.get("content")))
        if kind.endswith("_call"):
            arguments: Any = ""
            # Later keys go before earlier ones.
            for key in ("action", "input", "arguments"):
                arguments = part.get(key, arguments)
            return ToolCall(text_at(part, "name") or kind, as_json(arguments), call_id)
        if "role" in part:
            return join_texts(part.get("content"))
        return None

    def merge_events(self, events: Sequence[JsonObject]) -> JsonObject:
        items = []
        answer = {}
        for event in events:
            kind = event.get("type")
            if kind == self._DONE:
                items.append(object_at(event, "item"))
            elif kind in ("error", self._FAILED):
                error = event.get("error") or value_at(event, "response", "error")
                answer["error"] = error or {"message": text_at(event, "message")}
            elif kind in ("response.completed", "response.incomplete"):
                answer |= object_at(event, "response")
        answer["output"] = objects(answer, "output") or items
        return answer

    def outcome(self, answer: JsonObject) -> AnswerOutcome:
        end = text_at(answer, "status")
        if end not in ("completed", "incomplete"):
            end = ""
        tokens = self._tokens(answer, "input", "output")
        return objects(answer, "output"), end, tokens

    def _event_of(self, error: JsonObject) -> JsonObject:
        return {"type": self._FAILED, "response": {"status": "failed", **error}}


class Ollama(Chat):
    """Ollama's own protocol, for the built-in agent (https://docs.ollama.com/api/chat).

    A stream has an object a line, each with a piece of the text; the last one counts the tokens.
    """

    name = "ollama"
    path_ends = ("/api/chat", "/api/generate")

    stream_body = Dialect.stream_body

    def read_events(self, text: str) -> Iterator[JsonObject]:
        for line in text.split("\n"):
            event = parse_json(line)
            if isinstance(event, dict):
                yield event

    def arrived_text(self, events: Iterable[JsonObject]) -> str:
        texts: list[str] = []
        for event in events:
            texts += texts_in([event.get("message"), event.get("response")])
        return "".join(texts)

    def merge_events(self, events: Sequence[JsonObject]) -> JsonObject:
        answer: JsonObject = {}
        for event in events:
            answer = join_parts(answer, event)
        return answer

    def outcome(self, answer: JsonObject) -> AnswerOutcome:
        end = text_at(answer, "done_reason") or ("stop" if answer.get("done") else "")
        tokens = Tokens(
            prompt=count_at(answer, "prompt_eval_count"),
            completion=count_at(answer, "eval_count"),
        )
        return [object_at(answer, "message")], end, tokens
