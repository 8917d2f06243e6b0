"""Pure: the protocol of Gemini."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import quote, unquote

from agent.gateway.dialects.base import (
    Dialect,
    Json,
    Tokens,
    at,
    count_at,
    dumped,
    first,
    object_at,
    objects,
    text_at,
)
from llm.chat import Message, ToolCall


class Gemini(Dialect):
    """Gemini's generateContent (https://ai.google.dev/api/generate-content)."""

    name, api = "generateContent", "gemini"
    parameters = (
        "contents tools toolConfig systemInstruction generationConfig "
        "safetySettings labels"
    )
    place = re.compile(
        r"/v1(?:beta)?/models/([^/:]+):(generateContent|streamGenerateContent)"
    )

    def is_client_tool(self, tool: Json) -> bool:
        return set(tool) <= {"functionDeclarations", "function_declarations"}

    def model(self, path: str, body: Json) -> str:
        return unquote(self.place.fullmatch(path)[1])  # type: ignore[index]

    def _addressed(
        self, path: str, body: Json, model: str, *, streamed: bool
    ) -> tuple[str, Json]:
        method = path.rpartition(":")[2] + ("?alt=sse" if streamed else "")
        return f"/v1beta/models/{quote(model, safe='')}:{method}", body

    def turns(self, body: Json) -> Iterator[tuple[str, list[Json]]]:
        yield "system", objects(body, "systemInstruction", "parts")
        for content in objects(body, "contents"):
            yield text_at(content, "role"), objects(content, "parts")

    def part(self, part: Json) -> str | ToolCall | Message | None:
        if answered := object_at(part, "functionResponse"):
            name = text_at(answered, "name")
            return Message("tool", dumped(answered.get("response")), tool_call_id=name)
        if call := object_at(part, "functionCall"):
            return ToolCall(
                text_at(call, "name"), dumped(call.get("args")), text_at(call, "name")
            )
        return None if part.get("thought") else text_at(part, "text")

    def folded(self, events: Sequence[Json]) -> Json:
        whole: Json = {}
        parts: list[Json] = []
        finish = None
        for event in events:
            whole |= event
            candidate = first(event, "candidates")
            parts += objects(candidate, "content", "parts")
            finish = candidate.get("finishReason") or finish
        return {
            **whole,
            "candidates": [{"content": {"parts": parts}, "finishReason": finish}],
        }

    def outcome(self, answer: Json) -> tuple[list[Json], str, Tokens]:
        candidate, usage = (
            first(answer, "candidates"),
            object_at(answer, "usageMetadata"),
        )
        thoughts = count_at(usage, "thoughtsTokenCount")
        tokens = Tokens(
            count_at(usage, "promptTokenCount")
            + count_at(usage, "toolUsePromptTokenCount"),
            count_at(usage, "candidatesTokenCount") + thoughts,
            count_at(usage, "cachedContentTokenCount"),
            reasoning=thoughts,
        )
        end = candidate.get("finishReason") or at(
            answer, "promptFeedback", "blockReason"
        )
        return objects(candidate, "content", "parts"), text_at(end), tokens

    def refusal(self, words: str) -> Json:
        return {"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}
