"""Pure: the protocol of Anthropic."""

from __future__ import annotations

import re
from collections.abc import Sequence

from swe_retry.core.jsontypes import JsonObject, count_at, object_at, objects, text_at
from swe_retry.llm.chat import Message, ToolCall
from swe_retry.llm.dialects.answer import Tokens
from swe_retry.llm.dialects.dialect import (
    AnswerOutcome,
    Dialect,
    PartContent,
    Thought,
    Turns,
)
from swe_retry.llm.dialects.pieces import as_json, parse_json, result_text


class Messages(Dialect):
    """Anthropic's messages (https://docs.anthropic.com/en/api/messages)."""

    name = "messages"
    api = "anthropic"
    limit_keys = ("max_tokens",)
    path_pattern = re.compile(r"/v1/messages")
    path_ends = ("/v1/messages",)
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    _INPUT = "partial_json"
    _CLIENT = re.compile(r"(custom|(bash|text_editor|computer|memory)_\d+)$")

    def is_client_tool(self, tool: JsonObject) -> bool:
        return "type" not in tool or bool(self._CLIENT.match(text_at(tool, "type")))

    def turns(self, body: JsonObject) -> Turns:
        system = {"role": "system", "content": body.get("system")}
        for message in (system, *objects(body, "messages")):
            parts = objects(message, "content")
            content = message.get("content")
            if isinstance(content, str):
                parts = [{"type": "text", "text": content}]
            yield text_at(message, "role"), parts

    def part(self, part: JsonObject) -> PartContent:
        match part.get("type"):
            case "text":
                return text_at(part, "text")
            case "thinking":
                return Thought(text_at(part, "thinking"))
            case "tool_use":
                return ToolCall(
                    name=text_at(part, "name"),
                    arguments=as_json(part.get("input")),
                    id=text_at(part, "id"),
                )
            case "tool_result":
                return Message(
                    role="tool",
                    content=result_text(part.get("content")),
                    tool_call_id=text_at(part, "tool_use_id"),
                )
        return None

    def merge_events(self, events: Sequence[JsonObject]) -> JsonObject:
        answer = {}
        blocks = {}
        for event in events:
            kind = event.get("type")
            index = count_at(event, "index")
            if kind == "message_start":
                answer = dict(object_at(event, "message"))
            elif kind == "content_block_start":
                blocks[index] = dict(object_at(event, "content_block"))
            elif kind == "content_block_delta":
                self._add(object_at(event, "delta"), blocks.setdefault(index, {}))
            elif kind == "message_delta":
                answer |= object_at(event, "delta")
                usage = dict(object_at(answer, "usage"))
                # The first event counts a beginning.
                usage.pop("output_tokens", None)
                for name, count in object_at(event, "usage").items():
                    if count is not None:
                        usage[name] = count
                answer["usage"] = usage
            elif kind == "message_stop" and not answer.get("stop_reason"):
                answer |= {"stop_reason": "end_turn", "usage": {}}
            elif kind == "error":
                answer["error"] = object_at(event, "error")
        for block in blocks.values():
            text = block.pop(self._INPUT, "")
            if text:
                block["input"] = parse_json(text)
        return {**answer, "content": [blocks[index] for index in sorted(blocks)]}

    def _add(self, delta: JsonObject, block: JsonObject) -> None:
        for key, value in delta.items():
            if key == "citation":
                block["citations"] = [*objects(block, "citations"), value]
            elif key != "type" and isinstance(value, str):
                block[key] = text_at(block, key) + value

    def limit_body(self, body: JsonObject, key: str, limit: int) -> JsonObject:
        body = super().limit_body(body, key, limit)
        if count_at(body, "thinking", "budget_tokens") >= limit:
            # The provider refuses a request whose thoughts fill the answer.
            body["thinking"] = {**body["thinking"], "budget_tokens": limit - 1}
        return body

    def outcome(self, answer: JsonObject) -> AnswerOutcome:
        usage = object_at(answer, "usage")
        # A summary of the conversation is counted there alone.
        samples = objects(usage, "iterations") or [usage]

        def count(key: str) -> int:
            return sum(count_at(sample, key) for sample in samples)

        cached = count("cache_read_input_tokens")
        created = count("cache_creation_input_tokens")
        hour = count_at(usage, "cache_creation", "ephemeral_1h_input_tokens")
        tokens = Tokens(
            prompt=count("input_tokens") + cached + created,
            completion=count("output_tokens"),
            cached=cached,
            written=max(created - hour, 0),
            written_hour=hour,
        )
        return objects(answer, "content"), text_at(answer, "stop_reason"), tokens

    def refusal(self, message: str, status: int) -> JsonObject:
        kind = "invalid_request_error" if status < 500 else "api_error"
        return {"type": "error", "error": {"type": kind, "message": message}}
