"""Pure: the protocol of Anthropic."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agent.gateway.dialects.base import (
    Dialect,
    Json,
    Tokens,
    count_at,
    dumped,
    joined,
    loaded,
    object_at,
    objects,
    text_at,
)
from llm.chat import Message, ToolCall


class Messages(Dialect):
    """Anthropic's messages (https://docs.anthropic.com/en/api/messages)."""

    name, api = "messages", "anthropic"
    parameters = (
        "model messages max_tokens system tools tool_choice temperature top_p top_k "
        "stop_sequences stream thinking metadata context_management output_config output_format"
    )
    place = re.compile(r"/v1/messages")
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    _CLIENT = re.compile(r"(custom|(bash|text_editor|computer|memory)_\d+)$")

    def is_client_tool(self, tool: Json) -> bool:
        return "type" not in tool or bool(self._CLIENT.match(text_at(tool, "type")))

    def turns(self, body: Json) -> Iterator[tuple[str, list[Json]]]:
        system = {"role": "system", "content": body.get("system")}
        for message in (system, *objects(body, "messages")):
            text = {"type": "text", "text": message.get("content")}
            parts = (
                [text] if isinstance(text["text"], str) else objects(message, "content")
            )
            yield text_at(message, "role"), parts

    def part(self, part: Json) -> str | ToolCall | Message | None:
        match part.get("type"):
            case "text":
                return text_at(part, "text")
            case "tool_use":
                name, call_id = text_at(part, "name"), text_at(part, "id")
                return ToolCall(name, dumped(part.get("input")), call_id)
            case "tool_result":
                text, call_id = (
                    joined(part.get("content")),
                    text_at(part, "tool_use_id"),
                )
                return Message("tool", text, tool_call_id=call_id)
        return None

    def folded(self, events: Sequence[Json]) -> Json:
        whole: Json = {}
        blocks: dict[int, Json] = {}
        for event in events:
            kind, index = event.get("type"), count_at(event, "index")
            if kind == "message_start":
                whole = dict(object_at(event, "message"))
            elif kind == "content_block_start":
                blocks[index] = dict(object_at(event, "content_block"))
            elif kind == "content_block_delta":
                block, delta = blocks.setdefault(index, {}), object_at(event, "delta")
                for key, into in (("text", "text"), ("partial_json", "_json")):
                    block[into] = text_at(block, into) + text_at(delta, key)
            elif kind == "message_delta":
                whole |= object_at(event, "delta")
                usage = {
                    k: v for k, v in object_at(event, "usage").items() if v is not None
                }
                whole["usage"] = {**object_at(whole, "usage"), **usage}
            elif kind == "message_stop":
                whole["stop_reason"] = whole.get("stop_reason") or "end_turn"
            elif kind == "error":
                whole["error"] = object_at(event, "error")
        for block in blocks.values():
            if block.get("_json"):
                block["input"] = loaded(block["_json"])
        return {**whole, "content": [blocks[index] for index in sorted(blocks)]}

    def outcome(self, answer: Json) -> tuple[list[Json], str, Tokens]:
        usage = object_at(answer, "usage")
        cached = count_at(usage, "cache_read_input_tokens")
        created = count_at(usage, "cache_creation_input_tokens")
        hour = count_at(usage, "cache_creation", "ephemeral_1h_input_tokens")
        tokens = Tokens(
            count_at(usage, "input_tokens") + cached + created,
            count_at(usage, "output_tokens"),
            cached,
            max(created - hour, 0),
            hour,
            searches=count_at(usage, "server_tool_use", "web_search_requests"),
        )
        return objects(answer, "content"), text_at(answer, "stop_reason"), tokens

    def refusal(self, words: str) -> Json:
        return {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": words},
        }
