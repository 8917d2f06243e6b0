from __future__ import annotations

import json
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from swe_retry.llm.chat import Message, request_sha256
from tests.support.servers import Handler, LoopbackServer

_SHOW = "/api/show"
"""A question of Ollama's protocol, which is a POST."""


@dataclass(frozen=True)
class Answer:
    """One answer of the server.

    Attributes:
        hang: seconds to wait before the answer.
        tool_calls: names and arguments (JSON text).
        cached: tokens read from the provider's cache.
        written: tokens written to it (Anthropic's protocol).
        tokens: of prompt and reply, as reported (OpenAI's protocol).
        counts: further values of the reported usage.
        body: the whole body as JSON, in place of all others.
    """

    text: str | None = ""
    status: int = 200
    finish: str = "stop"
    headers: dict[str, str] = field(default_factory=dict)
    error: dict[str, Any] = field(default_factory=dict)
    hang: float = 0.0
    usage: bool = True
    tool_calls: tuple[tuple[str, str], ...] = ()
    cached: int = 0
    written: int = 0
    tokens: tuple[int, int] = (100, 10)
    counts: dict[str, Any] = field(default_factory=dict)
    body: Any = None


def hash_of(request: dict[str, Any]) -> str:
    """Return the hash of a request's messages, as journals have it."""
    messages = [Message(m["role"], m["content"]) for m in request["messages"]]
    return request_sha256(messages)


@dataclass(frozen=True)
class Arrival:
    """A request with its time (of ``time.monotonic``) and the address it came from."""

    time: float
    host: str
    request: dict[str, Any]

    @property
    def sha256(self) -> str:
        """The hash of its messages, as journals have it."""
        return hash_of(self.request)


class _Handler(Handler):
    stub: Provider

    def respond(self) -> None:
        provider = self.stub
        if self.command == "GET":
            status, value = provider.describe(self.path)
            self.send_json(value, status)
            return
        request = json.loads(self.read_body())
        if self.path == _SHOW:
            status, value = provider.describe(self.path, request)
            self.send_json(value, status)
            return
        host, port = self.client_address
        provider.headers.append({k.lower(): v for k, v in self.headers.items()})
        provider.paths.append(self.path)
        provider.ports.append(port)
        provider.requests.append(request)
        provider.arrivals.append(Arrival(time.monotonic(), host, request))
        answer = provider.answer(request)
        provider.hosts[port] = host
        provider.waiting.add(port)
        provider.closing.wait(answer.hang)
        with provider.holding:
            provider.waiting.discard(port)
        body = answer.body
        if body is None:
            body = _BODIES.get(self.path, _body)(answer, request)
        with suppress(OSError):
            self.send_json(body, answer.status, answer.headers)


class Provider(LoopbackServer):
    """Answers requests with ``answers`` in order; the last one repeats.

    Attributes:
        requests: the bodies as they came, with every option that was sent.
        arrivals: when and from where they came.
        paths: those of ``requests``.
        ports: the clients' ports, one for each connection.
        hosts: the clients' addresses by their ports.
        waiting: the ports of the clients that wait for a reply.
        holding: while a test holds it, no reply leaves.
    """

    handler = _Handler

    def __init__(self) -> None:
        super().__init__()
        self.answers: deque[Answer] = deque()
        self.requests: list[dict[str, Any]] = []
        self.arrivals: list[Arrival] = []
        self.paths: list[str] = []
        self.ports: list[int] = []
        self.headers: list[dict[str, str]] = []
        self.waiting: set[int] = set()
        self.hosts: dict[int, str] = {}
        self.holding = threading.Lock()
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"{super().url}/v1"

    def calls_of(self, host: str) -> int:
        """Return how many calls of a client's address wait for a reply."""
        hosts = [self.hosts[port] for port in tuple(self.waiting)]
        return hosts.count(host)

    def will_answer(self, *answers: Answer | str) -> None:
        for answer in answers:
            self.answers.append(Answer(answer) if isinstance(answer, str) else answer)

    def describe(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status and the answer to a question about the server; it has none."""
        return 404, {"error": {"message": "not found"}}

    def answer(self, request: dict[str, Any]) -> Answer:
        """Choose the answer to ``request``."""
        if len(self.answers) > 1:
            return self.answers.popleft()
        return self.answers[0]

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        super().__exit__()


def _body(answer: Answer, request: dict[str, Any]) -> dict[str, Any]:
    if answer.status != 200:
        return {"error": {"message": "no", "type": "error", **answer.error}}
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    calls = []
    for number, (name, arguments) in enumerate(answer.tool_calls):
        function = {"name": name, "arguments": arguments}
        calls.append({"id": f"id{number}", "type": "function", "function": function})
    if calls:
        message["tool_calls"] = calls
    return _with_usage("chat.completion", {"message": message}, answer, request)


def _text_body(answer: Answer, request: dict[str, Any]) -> dict[str, Any]:
    if answer.status != 200:
        return _body(answer, request)
    return _with_usage("text_completion", {"text": answer.text}, answer, request)


def _with_usage(
    kind: str,
    choice: dict[str, Any],
    answer: Answer,
    request: dict[str, Any],
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "id": "1",
        "object": kind,
        "created": 1,
        "model": request["model"],
        "choices": [{"index": 0, **choice, "finish_reason": answer.finish}],
    }
    if answer.usage:
        prompt, reply = answer.tokens
        body["usage"] = {
            "prompt_tokens": prompt,
            "completion_tokens": reply,
            "total_tokens": prompt + reply,
            **answer.counts,
        }
    return body


def _responses_body(answer: Answer, request: dict[str, Any]) -> dict[str, Any]:
    if answer.status != 200:
        return _body(answer, request)
    message = {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": answer.text, "annotations": []}],
    }
    output = [message]
    for number, (name, arguments) in enumerate(answer.tool_calls):
        call = {"type": "function_call", "id": f"f{number}", "call_id": f"c{number}"}
        output.append({**call, "name": name, "arguments": arguments})
    status: dict[str, Any] = {"status": "completed", "incomplete_details": None}
    if answer.finish == "length":
        reason = {"reason": "max_output_tokens"}
        status = {"status": "incomplete", "incomplete_details": reason}
    return {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": request["model"],
        **status,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": answer.tokens[0],
            "output_tokens": answer.tokens[1],
            "total_tokens": sum(answer.tokens),
            "input_tokens_details": {"cached_tokens": answer.cached},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _ollama_body(answer: Answer, request: dict[str, Any]) -> dict[str, Any]:
    if answer.status != 200:
        return {"error": "no", **answer.error}
    return {
        "model": request["model"],
        "created_at": "2026-01-01T00:00:00Z",
        "done": True,
        "response": answer.text,
        "message": {"role": "assistant", "content": answer.text},
        "done_reason": answer.finish,
        "prompt_eval_count": 100,
        "eval_count": 10,
    }


def _anthropic_body(answer: Answer, request: dict[str, Any]) -> dict[str, Any]:
    if answer.status != 200:
        error = {"type": "api_error", "message": "no", **answer.error}
        return {"type": "error", "error": error}
    content: list[dict[str, Any]] = [{"type": "text", "text": answer.text}]
    for number, (name, arguments) in enumerate(answer.tool_calls):
        call = {"type": "tool_use", "id": f"id{number}", "name": name}
        content.append({**call, "input": json.loads(arguments)})
    return {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": content,
        "stop_reason": "max_tokens" if answer.finish == "length" else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 100,
            "output_tokens": 10,
            "cache_read_input_tokens": answer.cached,
            "cache_creation_input_tokens": answer.written,
        },
    }


_BODIES = {
    "/v1/messages": _anthropic_body,
    "/v1/completions": _text_body,
    "/v1/responses": _responses_body,
    "/api/generate": _ollama_body,
    "/api/chat": _ollama_body,
}
