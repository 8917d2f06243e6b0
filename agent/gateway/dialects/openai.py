"""Pure: the two protocols of OpenAI."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agent.gateway.dialects.base import (
    Dialect,
    Json,
    Tokens,
    count_at,
    dumped,
    first,
    joined,
    object_at,
    objects,
    sse,
    text_at,
)
from llm.chat import Message, ToolCall


class _OpenAI(Dialect):
    api = "openai"

    def refusal(self, words: str) -> Json:
        kind = "invalid_request_error"
        return {"error": {"message": words, "type": kind, "param": None, "code": kind}}


def _tokens(answer: Json, into: str, out: str) -> Tokens:
    """Return the counts, whose names begin with ``into`` and ``out``."""
    usage = object_at(answer, "usage")
    return Tokens(
        count_at(usage, f"{into}_tokens"),
        count_at(usage, f"{out}_tokens"),
        count_at(usage, f"{into}_tokens_details", "cached_tokens"),
        reasoning=count_at(usage, f"{out}_tokens_details", "reasoning_tokens"),
    )


class Chat(_OpenAI):
    """OpenAI's chat completions (https://platform.openai.com/docs/api-reference/chat)."""

    name, common = "chat", True
    parameters = (
        "model messages tools tool_choice temperature top_p max_tokens max_completion_tokens stop "
        "seed stream stream_options reasoning reasoning_effort thinking parallel_tool_calls "
        "response_format frequency_penalty presence_penalty logit_bias logprobs top_logprobs user "
        "prompt_cache_key safety_identifier store metadata verbosity n chat_template_kwargs"
    )
    place = re.compile(r"(/v1)?/chat/completions")

    def is_client_tool(self, tool: Json) -> bool:
        return tool.get("type") in ("function", "custom")

    def turns(self, body: Json) -> Iterator[tuple[str, list[Json]]]:
        for message in objects(body, "messages"):
            yield text_at(message, "role"), [message, *objects(message, "tool_calls")]

    def part(self, part: Json) -> str | ToolCall | Message | None:
        text = joined(part.get("content"))
        if part.get("role") == "tool":
            return Message("tool", text, tool_call_id=text_at(part, "tool_call_id"))
        if "function" not in part:
            return text
        called = object_at(part, "function")
        return ToolCall(
            text_at(called, "name"), text_at(called, "arguments"), text_at(part, "id")
        )

    def folded(self, events: Sequence[Json]) -> Json:
        message: Json = {"content": ""}
        calls: dict[int, Json] = {}
        whole: Json = {}
        finish = None
        for event in events:
            whole |= {k: event[k] for k in ("model", "usage", "error") if event.get(k)}
            choice = first(event, "choices")
            message["content"] += text_at(choice, "delta", "content")
            for part in objects(choice, "delta", "tool_calls"):
                call = calls.setdefault(count_at(part, "index"), {"function": {}})
                call["id"] = text_at(part, "id") or call.get("id", "")
                for key, value in object_at(part, "function").items():
                    call["function"][key] = call["function"].get(key, "") + text_at(
                        value
                    )
            finish = choice.get("finish_reason") or finish
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
        return {**whole, "choices": [{"message": message, "finish_reason": finish}]}

    def outcome(self, answer: Json) -> tuple[list[Json], str, Tokens]:
        choice = first(answer, "choices")
        parts = [
            object_at(choice, "message"),
            *objects(choice, "message", "tool_calls"),
        ]
        tokens = _tokens(answer, "prompt", "completion")
        return parts, text_at(choice, "finish_reason"), tokens

    def _addressed(
        self, path: str, body: Json, model: str, *, streamed: bool
    ) -> tuple[str, Json]:
        path, asking = super()._addressed(path, body, model, streamed=streamed)
        if streamed:
            asking["stream_options"] = {
                **object_at(body, "stream_options"),
                "include_usage": True,
            }
        return path, asking


class Responses(_OpenAI):
    """OpenAI's responses (https://platform.openai.com/docs/api-reference/responses)."""

    name = "responses"
    # A stored prompt, conversation or answer may hold tools that are not seen here.
    parameters = (
        "model input instructions tools tool_choice temperature top_p max_output_tokens stream "
        "store include reasoning parallel_tool_calls text prompt_cache_key metadata "
        "client_metadata truncation user safety_identifier stream_options"
    )
    place = re.compile(r"(/v1)?/responses")
    _CLIENT = frozenset({"function", "custom", "local_shell", "apply_patch"})
    _DONE, _FAILED = "response.output_item.done", "response.failed"
    _ENDS = ("completed", "incomplete")

    def is_client_tool(self, tool: Json) -> bool:
        if tool.get("type") == "namespace":
            return all(map(self.is_client_tool, objects(tool, "tools")))
        return tool.get("type") in self._CLIENT

    def turns(self, body: Json) -> Iterator[tuple[str, list[Json]]]:
        yield "system", [{"role": "system", "content": body.get("instructions")}]
        asked = body.get("input")
        items = (
            [{"role": "user", "content": asked}]
            if isinstance(asked, str)
            else objects(asked)
        )
        for item in items:
            # One answer has several items: its text, and each call.
            yield text_at(item, "role") or "assistant", [item]

    def part(self, part: Json) -> str | ToolCall | Message | None:
        kind, call_id = text_at(part, "type"), text_at(part, "call_id")
        if kind.endswith("_call_output"):
            return Message("tool", joined(part.get("output")), tool_call_id=call_id)
        if kind.endswith("_call"):
            said = next(
                (part[k] for k in ("arguments", "input", "action") if k in part), ""
            )
            return ToolCall(text_at(part, "name") or kind, dumped(said), call_id)
        return joined(part.get("content")) if "role" in part else None

    def folded(self, events: Sequence[Json]) -> Json:
        done = [object_at(e, "item") for e in events if e.get("type") == self._DONE]
        whole: Json = {}
        for event in events:
            if event.get("type") in ("error", self._FAILED):
                error = event.get("error") or object_at(event, "response").get("error")
                whole["error"] = error or {"message": text_at(event, "message")}
            elif event.get("type") in [f"response.{end}" for end in self._ENDS]:
                whole |= object_at(event, "response")
        return {**whole, "output": objects(whole, "output") or done}

    def outcome(self, answer: Json) -> tuple[list[Json], str, Tokens]:
        end = text_at(answer, "status")
        tokens = _tokens(answer, "input", "output")
        return objects(answer, "output"), end if end in self._ENDS else "", tokens

    def stream_error(self, words: str) -> bytes:
        response = {"status": "failed", **self.refusal(words)}
        return sse({"type": self._FAILED, "response": response})
