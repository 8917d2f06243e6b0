"""Pure: the two protocols of OpenAI."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

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
    object_in,
    objects,
    text_of,
    words,
)
from llm.chat import Message, ToolCall


class _OpenAI(Dialect):
    api = "openai"

    def refusal(self, words: str) -> Json:
        kind = "invalid_request_error"
        return {"error": {"message": words, "type": kind, "param": None, "code": kind}}


class Chat(_OpenAI):
    """OpenAI's chat completions (https://platform.openai.com/docs/api-reference/chat)."""

    name, providers = "chat", None
    parameters = words(
        "model messages tools tool_choice temperature top_p max_tokens max_completion_tokens stop "
        "seed stream stream_options reasoning reasoning_effort thinking parallel_tool_calls "
        "response_format frequency_penalty presence_penalty logit_bias logprobs top_logprobs user "
        "prompt_cache_key safety_identifier store metadata verbosity n chat_template_kwargs"
    )
    place = re.compile(r"(/v1)?/chat/completions")

    def is_client_tool(self, tool: Json) -> bool:
        return tool.get("type") in ("function", "custom")

    def conversation(self, body: Json) -> list[Message]:
        found = []
        for message in objects(body.get("messages")):
            role, text = text_of(message.get("role")), joined(message.get("content"))
            role = "system" if role == "developer" else role
            answers = text_of(message.get("tool_call_id"))
            found.append(Message(role, text, self._calls(message), answers))
        return found

    def _calls(self, message: Json) -> tuple[ToolCall, ...]:
        calls = [(c, object_in(c, "function")) for c in objects(message.get("tool_calls"))]
        return tuple(
            ToolCall(text_of(f.get("name")), text_of(f.get("arguments")), text_of(c.get("id")))
            for c, f in calls
        )

    def folded(self, events: Sequence[Json]) -> Json:
        message: Json = {"content": ""}
        calls: dict[int, Json] = {}
        whole: Json = {}
        finish = None
        for event in events:
            whole |= {k: event[k] for k in ("model", "usage", "error") if event.get(k)}
            for choice in objects(event.get("choices"))[:1]:
                delta = object_in(choice, "delta")
                message["content"] += text_of(delta.get("content"))
                for part in objects(delta.get("tool_calls")):
                    call = calls.setdefault(count_of(part.get("index")), {"function": {}})
                    call["id"] = text_of(part.get("id")) or call.get("id", "")
                    for key, value in object_in(part, "function").items():
                        call["function"][key] = call["function"].get(key, "") + text_of(value)
                finish = choice.get("finish_reason") or finish
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
        return {**whole, "choices": [{"message": message, "finish_reason": finish}]}

    def read(self, answer: Json) -> Answer:
        choice = next(iter(objects(answer.get("choices"))), {})
        message, usage = object_in(choice, "message"), object_in(answer, "usage")
        into = object_in(usage, "prompt_tokens_details")
        out = object_in(usage, "completion_tokens_details")
        tokens = Tokens(
            count_of(usage.get("prompt_tokens")), count_of(usage.get("completion_tokens")),
            count_of(into.get("cached_tokens")), reasoning=count_of(out.get("reasoning_tokens")),
        )  # fmt: skip
        finish = choice.get("finish_reason")
        return Answer(
            joined(message.get("content")), self._calls(message), if_possible(tokens),
            text_of(answer.get("model")), finish == "length", bool(finish), error_in(answer),
        )  # fmt: skip

    def burst(self, answer: Json) -> list[Json]:
        choice = next(iter(objects(answer.get("choices"))), {})
        message = object_in(choice, "message")
        delta = {key: value for key, value in message.items() if value is not None}
        if calls := objects(delta.get("tool_calls")):
            delta["tool_calls"] = [{**call, "index": n} for n, call in enumerate(calls)]
        last = {"index": 0, "delta": delta, "finish_reason": choice.get("finish_reason")}
        return [{**answer, "object": "chat.completion.chunk", "choices": [last]}]

    def streamed(self, answer: Json) -> bytes:
        return super().streamed(answer) + b"data: [DONE]\n\n"

    def acts(self, event: Json) -> bool:
        choices = objects(event.get("choices"))
        calls = (object_in(choice, "delta").get("tool_calls") for choice in choices)
        return any(calls) or any(choice.get("finish_reason") for choice in choices)

    def _asking(self, body: Json, model: str, *, streamed: bool) -> Json:
        asking = super()._asking(body, model, streamed=streamed)
        if streamed:
            asking["stream_options"] = {**object_in(body, "stream_options"), "include_usage": True}
        return asking


class Responses(_OpenAI):
    """OpenAI's responses (https://platform.openai.com/docs/api-reference/responses)."""

    name, providers = "responses", frozenset({"openai"})
    # A stored prompt, conversation or answer may hold tools that are not seen here.
    parameters = words(
        "model input instructions tools tool_choice temperature top_p max_output_tokens stream "
        "store include reasoning parallel_tool_calls text prompt_cache_key metadata "
        "client_metadata truncation user safety_identifier stream_options"
    )
    place = re.compile(r"(/v1)?/responses")
    _CLIENT = frozenset({"function", "custom", "local_shell", "apply_patch"})
    _DONE, _FAILED = "response.output_item.done", "response.failed"
    _ENDS = frozenset({"response.completed", "response.incomplete"})

    def is_client_tool(self, tool: Json) -> bool:
        if tool.get("type") == "namespace":
            return all(map(self.is_client_tool, objects(tool.get("tools"))))
        return tool.get("type") in self._CLIENT

    def conversation(self, body: Json) -> list[Message]:
        system, asked = text_of(body.get("instructions")), body.get("input")
        found = [Message("system", system)] if system else []
        items = [{"role": "user", "content": asked}] if isinstance(asked, str) else objects(asked)
        for item in items:
            if text_of(item.get("type")).endswith("_call_output"):
                text, answers = joined(item.get("output")), text_of(item.get("call_id"))
                found.append(Message("tool", text, tool_call_id=answers))
            elif call := self._call(item):
                # One answer has several items: its text, and each call.
                said = found.pop() if found and found[-1].role == "assistant" else None
                said = said or Message("assistant", "")
                found.append(replace(said, tool_calls=(*said.tool_calls, call)))
            elif "content" in item and "role" in item:
                role = text_of(item["role"])
                role = "system" if role == "developer" else role
                found.append(Message(role, joined(item["content"])))
        return found

    def _call(self, item: Json) -> ToolCall | None:
        if not text_of(item.get("type")).endswith("_call"):
            return None
        said = next((item[k] for k in ("arguments", "input", "action") if k in item), "")
        name = text_of(item.get("name")) or text_of(item["type"])
        return ToolCall(name, dumped(said), text_of(item.get("call_id")))

    def folded(self, events: Sequence[Json]) -> Json:
        done = [object_in(e, "item") for e in events if e.get("type") == self._DONE]
        whole: Json = {}
        for event in events:
            if event.get("type") in ("error", self._FAILED):
                error = event.get("error") or object_in(event, "response").get("error")
                whole["error"] = error or {"message": text_of(event.get("message"))}
            elif event.get("type") in self._ENDS:
                whole |= object_in(event, "response")
        return {**whole, "output": objects(whole.get("output")) or done}

    def read(self, answer: Json) -> Answer:
        output, usage = objects(answer.get("output")), object_in(answer, "usage")
        said = "".join(joined(i.get("content")) for i in output if i.get("type") == "message")
        into = object_in(usage, "input_tokens_details")
        out = object_in(usage, "output_tokens_details")
        tokens = Tokens(
            count_of(usage.get("input_tokens")), count_of(usage.get("output_tokens")),
            count_of(into.get("cached_tokens")), reasoning=count_of(out.get("reasoning_tokens")),
        )  # fmt: skip
        status = answer.get("status")
        return Answer(
            said, tuple(call for item in output if (call := self._call(item))), if_possible(tokens),
            text_of(answer.get("model")), status == "incomplete",
            status in ("completed", "incomplete"), error_in(answer),
        )  # fmt: skip

    def burst(self, answer: Json) -> list[Json]:
        opened = {**answer, "output": [], "status": "in_progress"}
        events: list[Json] = [{"type": "response.created", "response": opened}]
        for index, item in enumerate(objects(answer.get("output"))):
            for kind in ("response.output_item.added", self._DONE):
                events.append({"type": kind, "output_index": index, "item": item})
        return [*events, {"type": "response.completed", "response": answer}]

    def acts(self, event: Json) -> bool:
        return event.get("type") in {*self._ENDS, self._DONE, self._FAILED}

    def stream_error(self, words: str) -> bytes:
        response = {"status": "failed", **self.refusal(words)}
        failed = json.dumps({"type": self._FAILED, "response": response})
        return f"event: {self._FAILED}\ndata: {failed}\n\n".encode()
