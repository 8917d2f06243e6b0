"""Pure: the protocol of Anthropic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from agent.gateway.dialects.base import (
    Answer,
    Dialect,
    Json,
    Tokens,
    count_of,
    dumped,
    error_in,
    if_possible,
    joined,
    loaded,
    object_in,
    objects,
    text_of,
    words,
)
from llm.chat import Message, ToolCall


class Messages(Dialect):
    """Anthropic's messages (https://docs.anthropic.com/en/api/messages)."""

    name, api, providers = "messages", "anthropic", frozenset({"anthropic"})
    parameters = words(
        "model messages max_tokens system tools tool_choice temperature top_p top_k "
        "stop_sequences stream thinking metadata context_management output_config output_format"
    )
    place = re.compile(r"/v1/messages")
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    _CLIENT = re.compile(r"(custom|(bash|text_editor|computer|memory)_\d+)$")

    def is_client_tool(self, tool: Json) -> bool:
        return "type" not in tool or bool(self._CLIENT.match(text_of(tool["type"])))

    def conversation(self, body: Json) -> list[Message]:
        system = joined(body.get("system"))
        found = [Message("system", system)] if system else []
        for message in objects(body.get("messages")):
            role, parts = text_of(message.get("role")), message.get("content")
            blocks = [{"type": "text", "text": parts}] if isinstance(parts, str) else objects(parts)
            for block in blocks:
                if block.get("type") == "tool_result":
                    text = joined(block.get("content"))
                    found.append(
                        Message("tool", text, tool_call_id=text_of(block.get("tool_use_id")))
                    )
            said, calls = self._said(blocks)
            if said or calls:
                found.append(Message(role, said, calls))
        return found

    def _said(self, blocks: Iterable[Json]) -> tuple[str, tuple[ToolCall, ...]]:
        blocks = list(blocks)
        text = "".join(text_of(b.get("text")) for b in blocks if b.get("type") == "text")
        calls = (b for b in blocks if b.get("type") == "tool_use")
        return text, tuple(
            ToolCall(text_of(b.get("name")), dumped(b.get("input")), text_of(b.get("id")))
            for b in calls
        )

    def folded(self, events: Sequence[Json]) -> Json:
        whole: Json = {}
        blocks: dict[int, Json] = {}
        for event in events:
            kind, index = event.get("type"), count_of(event.get("index"))
            if kind == "message_start":
                whole = dict(object_in(event, "message"))
            elif kind == "content_block_start":
                blocks[index] = dict(object_in(event, "content_block"))
            elif kind == "content_block_delta":
                block, delta = blocks.setdefault(index, {}), object_in(event, "delta")
                for key, into in (("text", "text"), ("partial_json", "_json")):
                    block[into] = text_of(block.get(into)) + text_of(delta.get(key))
            elif kind == "message_delta":
                whole |= object_in(event, "delta")
                usage = {k: v for k, v in object_in(event, "usage").items() if v is not None}
                whole["usage"] = {**object_in(whole, "usage"), **usage}
            elif kind == "message_stop":
                whole["_complete"] = True
            elif kind == "error":
                whole["error"] = object_in(event, "error")
        for block in blocks.values():
            if block.get("_json"):
                block["input"] = loaded(block["_json"])
        return {**whole, "content": [blocks[index] for index in sorted(blocks)]}

    def read(self, answer: Json) -> Answer:
        content, calls = self._said(objects(answer.get("content")))
        usage = object_in(answer, "usage")
        cached = count_of(usage.get("cache_read_input_tokens"))
        created = count_of(usage.get("cache_creation_input_tokens"))
        hour = count_of(object_in(usage, "cache_creation").get("ephemeral_1h_input_tokens"))
        tokens = Tokens(
            count_of(usage.get("input_tokens")) + cached + created,
            count_of(usage.get("output_tokens")), cached, max(created - hour, 0), hour,
            searches=count_of(object_in(usage, "server_tool_use").get("web_search_requests")),
        )  # fmt: skip
        stop = answer.get("stop_reason")
        return Answer(
            content, calls, if_possible(tokens), text_of(answer.get("model")), stop == "max_tokens",
            bool(answer.get("_complete", stop)), error_in(answer),
        )  # fmt: skip

    def burst(self, answer: Json) -> list[Json]:
        events: list[Json] = []
        for index, block in enumerate(objects(answer.get("content"))):
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block.get("text")}
            if block.get("type") == "tool_use":
                empty = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": dumped(block.get("input"))}
            events += [
                {"type": "content_block_start", "index": index, "content_block": empty},
                {"type": "content_block_delta", "index": index, "delta": delta},
                {"type": "content_block_stop", "index": index},
            ]
        stop = {"stop_reason": answer.get("stop_reason"), "stop_sequence": None}
        usage = object_in(answer, "usage")
        return [
            {"type": "message_start", "message": {**answer, "content": [], "stop_reason": None}},
            *events,
            {"type": "message_delta", "delta": stop, "usage": usage},
            {"type": "message_stop"},
        ]

    def acts(self, event: Json) -> bool:
        block = object_in(event, "content_block")
        return event.get("type") == "message_delta" or block.get("type") == "tool_use"

    def refusal(self, words: str) -> Json:
        return {"type": "error", "error": {"type": "invalid_request_error", "message": words}}

    def stream_error(self, words: str) -> bytes:
        return b"event: error\n" + super().stream_error(words)
