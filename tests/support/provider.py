from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """One answer of the server.

    Attributes:
        hang: seconds to wait before the answer.
        drip: send the body a byte at a time, one a second.
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
    drip: bool = False
    usage: bool = True
    tool_calls: tuple[tuple[str, str], ...] = ()
    cached: int = 0
    written: int = 0
    tokens: tuple[int, int] = (100, 10)
    counts: dict[str, Any] = field(default_factory=dict)
    body: Any = None


class Provider:
    """Answers requests with ``answers`` in order; the last one repeats.

    Attributes:
        requests: the bodies as they came, with every option that was sent.
        paths: those of ``requests``.
        ports: the clients' ports, one for each connection.
        waiting: the ports of the clients that wait for a reply.
        holding: while a test holds it, no reply leaves.
    """

    def __init__(self) -> None:
        self.answers: deque[Answer] = deque()
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.ports: list[int] = []
        self.headers: list[dict[str, str]] = []
        self.waiting: set[int] = set()
        self.holding = threading.Lock()
        self.closing = threading.Event()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = json.loads(body)
                provider.headers.append({k.lower(): v for k, v in self.headers.items()})
                provider.paths.append(self.path)
                provider.ports.append(self.client_address[1])
                provider.requests.append(request)
                answer = provider.answer(request)
                port = self.client_address[1]
                provider.waiting.add(port)
                provider.closing.wait(answer.hang)
                with provider.holding:
                    provider.waiting.discard(port)
                self._send(answer, request)

            def _send(self, answer: Answer, request: dict[str, Any]) -> None:
                shape = _SHAPES.get(self.path, _body)
                said = answer.body
                if answer.body is None:
                    said = shape(answer, request)
                data = json.dumps(said).encode()
                self.send_response(answer.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                try:
                    self.end_headers()
                    for start in range(0, len(data), 1 if answer.drip else len(data)):
                        self.wfile.write(
                            data[start:] if not answer.drip else data[start : start + 1]
                        )
                        self.wfile.flush()
                        if answer.drip and provider.closing.wait(0.2):
                            return
                except OSError:
                    return

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(
            target=self.server.serve_forever, args=(0.02,), daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def will_answer(self, *answers: Answer | str) -> None:
        self.answers.extend(Answer(a) if isinstance(a, str) else a for a in answers)

    def answer(self, request: dict[str, Any]) -> Answer:
        """Choose the answer to ``request``."""
        if len(self.answers) > 1:
            return self.answers.popleft()
        return self.answers[0]

    def __enter__(self) -> Provider:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()


def _body(answer: Answer, request: dict[str, Any]) -> dict[str, Any]:
    if answer.status != 200:
        return {"error": {"message": "no", "type": "error", **answer.error}}
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.tool_calls:
        message["tool_calls"] = [
            {
                "id": f"id{n}",
                "type": "function",
                "function": {"name": name, "arguments": text},
            }
            for n, (name, text) in enumerate(answer.tool_calls)
        ]
    return _with_usage("chat.completion", {"message": message}, answer, request)


def _text_body(answer: Answer, request: dict[str, Any]) -> dict[str, Any]:
    if answer.status != 200:
        return _body(answer, request)
    return _with_usage("text_completion", {"text": answer.text}, answer, request)


def _with_usage(
    kind: str,
    said: dict[str, Any],
    answer: Answer,
    request: dict[str, Any],
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "id": "1",
        "object": kind,
        "created": 1,
        "model": request["model"],
        "choices": [{"index": 0, **said, "finish_reason": answer.finish}],
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
    part = {"type": "output_text", "text": answer.text, "annotations": []}
    message = {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    calls = []
    for n, (name, said) in enumerate(answer.tool_calls):
        calls.append(
            {
                "type": "function_call",
                "id": f"f{n}",
                "call_id": f"c{n}",
                "name": name,
                "arguments": said,
            }
        )
    cut = answer.finish == "length"
    return {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": request["model"],
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": [message, *calls],
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
        return {
            "type": "error",
            "error": {"type": "api_error", "message": "no", **answer.error},
        }
    calls = []
    for n, (name, text) in enumerate(answer.tool_calls):
        calls.append(
            {
                "type": "tool_use",
                "id": f"id{n}",
                "name": name,
                "input": json.loads(text),
            }
        )
    return {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": [{"type": "text", "text": answer.text}, *calls],
        "stop_reason": {"length": "max_tokens"}.get(answer.finish, "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": 100,
            "output_tokens": 10,
            "cache_read_input_tokens": answer.cached,
            "cache_creation_input_tokens": answer.written,
        },
    }


_SHAPES = {
    "/v1/messages": _anthropic_body,
    "/v1/completions": _text_body,
    "/v1/responses": _responses_body,
    "/api/generate": _ollama_body,
    "/api/chat": _ollama_body,
}
