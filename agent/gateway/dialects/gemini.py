"""Pure: the protocol of Gemini."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote, unquote

from agent.gateway.dialects.base import (
    AgentRequest,
    Answer,
    Dialect,
    Json,
    Tokens,
    count_of,
    dumped,
    error_in,
    if_possible,
    object_in,
    objects,
    text_of,
    words,
)
from llm.chat import Message, ToolCall


class Gemini(Dialect):
    """Gemini's generateContent (https://ai.google.dev/api/generate-content)."""

    name, api, providers = "generateContent", "gemini", frozenset({"gemini"})
    parameters = words(
        "contents tools toolConfig systemInstruction generationConfig safetySettings labels"
    )
    place = re.compile(r"/v1(?:beta)?/models/([^/:]+):(generateContent|streamGenerateContent)")

    def is_client_tool(self, tool: Json) -> bool:
        return set(tool) <= {"functionDeclarations", "function_declarations"}

    def model(self, path: str, body: Json) -> str:
        return unquote(self.place.fullmatch(path)[1])  # type: ignore[index]

    def streams(self, path: str, body: Json) -> bool:
        return path.endswith(":streamGenerateContent")

    def output_limit(self, body: Json) -> int | None:
        return count_of(object_in(body, "generationConfig").get("maxOutputTokens")) or None

    def answers(self, body: Json) -> int:
        return count_of(object_in(body, "generationConfig").get("candidateCount")) or 1

    def query(self, request: AgentRequest) -> dict[str, str]:
        return {"alt": "sse"} if request.streamed else {}

    def tool_names(self, body: Json) -> list[str]:
        declared = (tool.get("functionDeclarations") for tool in self.tools(body))
        return sorted(text_of(f.get("name")) for listed in declared for f in objects(listed))

    def _path(self, path: str, model: str) -> str:
        return f"/v1beta/models/{quote(model, safe='')}:{path.rpartition(':')[2]}"

    def _asking(self, body: Json, model: str, *, streamed: bool) -> Json:
        return body

    def conversation(self, body: Json) -> list[Message]:
        system, _ = self._said(objects(object_in(body, "systemInstruction").get("parts")))
        found = [Message("system", system)] if system else []
        for content in objects(body.get("contents")):
            parts = objects(content.get("parts"))
            for answered in (object_in(p, "functionResponse") for p in parts):
                if answered:
                    text, name = dumped(answered.get("response")), text_of(answered.get("name"))
                    found.append(Message("tool", text, tool_call_id=name))
            said, calls = self._said(parts)
            role = "assistant" if content.get("role") == "model" else "user"
            if said or calls:
                found.append(Message(role, said, calls))
        return found

    def _said(self, parts: Iterable[Json]) -> tuple[str, tuple[ToolCall, ...]]:
        parts = list(parts)
        text = "".join(text_of(p.get("text")) for p in parts if not p.get("thought"))
        calls = (c for p in parts if (c := object_in(p, "functionCall")))
        return text, tuple(
            ToolCall(text_of(c.get("name")), dumped(c.get("args")), text_of(c.get("name")))
            for c in calls
        )

    def folded(self, events: Sequence[Json]) -> Json:
        whole: Json = {}
        parts: list[Json] = []
        for event in events:
            whole |= event
            for candidate in objects(event.get("candidates"))[:1]:
                parts += objects(object_in(candidate, "content").get("parts"))
                if candidate.get("finishReason"):
                    whole["_finish"] = candidate["finishReason"]
        return {**whole, "candidates": [{"content": {"parts": parts}}]}

    def read(self, answer: Json) -> Answer:
        candidate = next(iter(objects(answer.get("candidates"))), {})
        content, calls = self._said(objects(object_in(candidate, "content").get("parts")))
        usage = object_in(answer, "usageMetadata")
        thoughts = count_of(usage.get("thoughtsTokenCount"))
        tokens = Tokens(
            sum(count_of(usage.get(f"{kind}TokenCount")) for kind in ("prompt", "toolUsePrompt")),
            count_of(usage.get("candidatesTokenCount")) + thoughts,
            count_of(usage.get("cachedContentTokenCount")), reasoning=thoughts,
        )  # fmt: skip
        finish = answer.get("_finish") or candidate.get("finishReason")
        blocked = bool(object_in(answer, "promptFeedback").get("blockReason"))
        return Answer(
            content, calls, if_possible(tokens), text_of(answer.get("modelVersion")),
            finish == "MAX_TOKENS", bool(finish) or blocked, error_in(answer),
        )  # fmt: skip

    def burst(self, answer: Json) -> list[Json]:
        return [answer]

    def acts(self, event: Json) -> bool:
        candidates = objects(event.get("candidates"))
        parts = [p for c in candidates for p in objects(object_in(c, "content").get("parts"))]
        return any("functionCall" in p for p in parts) or any(map(_finishes, candidates))

    def refusal(self, words: str) -> Json:
        return {"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}


def _finishes(candidate: Json) -> bool:
    return bool(candidate.get("finishReason"))
