"""Pure: the protocol of Gemini."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote, unquote

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
from swe_retry.llm.dialects.pieces import as_json, join_parts


class Gemini(Dialect):
    """Gemini's generateContent (https://ai.google.dev/api/generate-content)."""

    name = "generateContent"
    api = "gemini"
    limit_keys = ("maxOutputTokens",)
    path_pattern = re.compile(
        r"/v1(?:beta)?/models/([^/:]+):(generateContent|streamGenerateContent)"
    )

    path_ends = (":generateContent", ":streamGenerateContent")

    def stream_address(self, address: str) -> str:
        path, _, query = address.partition("?")
        path = path.removesuffix(":generateContent") + ":streamGenerateContent"
        return f"{path}?{'&'.join(filter(None, ('alt=sse', query)))}"

    def stream_body(
        self, body: JsonObject, *, reports_usage: bool = True
    ) -> JsonObject:
        return body

    def is_client_tool(self, tool: JsonObject) -> bool:
        return set(tool) <= {"functionDeclarations", "function_declarations"}

    def read_limit(self, body: JsonObject) -> int:
        return super().read_limit(object_at(body, "generationConfig"))

    def limit_body(self, body: JsonObject, key: str, limit: int) -> JsonObject:
        config = object_at(body, "generationConfig")
        return {**body, "generationConfig": super().limit_body(config, key, limit)}

    def model(self, path: str, body: JsonObject) -> str:
        return unquote(self.path_pattern.fullmatch(path)[1])  # type: ignore[index]

    def _address_request(
        self,
        path: str,
        body: JsonObject,
        model: str,
    ) -> tuple[str, JsonObject]:
        method = path.rpartition(":")[2]
        if method == "streamGenerateContent":
            method += "?alt=sse"
        return f"/v1beta/models/{quote(model, safe='')}:{method}", body

    def turns(self, body: JsonObject) -> Turns:
        yield "system", objects(body, "systemInstruction", "parts")
        for content in objects(body, "contents"):
            yield text_at(content, "role"), objects(content, "parts")

    def part(self, part: JsonObject) -> PartContent:
        result = object_at(part, "functionResponse")
        if result:
            name = text_at(result, "name")
            return Message("tool", as_json(result.get("response")), tool_call_id=name)
        call = object_at(part, "functionCall")
        if call:
            name = text_at(call, "name")
            return ToolCall(name, as_json(call.get("args")), id=name)
        if part.get("thought"):
            return Thought(text_at(part, "text"))
        return text_at(part, "text")

    def merge_events(self, events: Sequence[JsonObject]) -> JsonObject:
        answer: JsonObject = {}
        merged: JsonObject = {}
        parts: list[JsonObject] = []
        for event in events:
            candidate = first_object(event, "candidates")
            if candidate:
                # Counts before the end are those of a part.
                answer.pop("usageMetadata", None)
            answer |= event
            for part in objects(candidate, "content", "parts"):
                if parts and part.keys() == parts[-1].keys() == {"text"}:
                    part = {"text": parts.pop()["text"] + text_at(part, "text")}
                parts.append(part)
            merged = join_parts(merged, candidate)
        content = {**object_at(merged, "content"), "parts": parts}
        answer["candidates"] = [{"finishReason": None, **merged, "content": content}]
        return answer

    def outcome(self, answer: JsonObject) -> AnswerOutcome:
        candidate = first_object(answer, "candidates")
        usage = object_at(answer, "usageMetadata")
        tool_use = count_at(usage, "toolUsePromptTokenCount")
        thoughts = count_at(usage, "thoughtsTokenCount")
        tokens = Tokens(
            prompt=count_at(usage, "promptTokenCount") + tool_use,
            completion=count_at(usage, "candidatesTokenCount") + thoughts,
            cached=count_at(usage, "cachedContentTokenCount"),
            reasoning=thoughts,
        )
        blocked = value_at(answer, "promptFeedback", "blockReason")
        end = candidate.get("finishReason") or blocked
        return objects(candidate, "content", "parts"), text_at(end), tokens

    def refusal(self, message: str, status: int) -> JsonObject:
        kind = "INVALID_ARGUMENT" if status < 500 else "UNAVAILABLE"
        return {"error": {"code": status, "message": message, "status": kind}}
