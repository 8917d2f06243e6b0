"""A stub of the four dialects, and a small coding agent that speaks them.

The stub answers by what the conversation holds: the turn after as many tool results. So it needs no
state, and several agents can ask it at once.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

DIALECTS = ("messages", "chat", "responses", "gemini")
MODELS = {
    "messages": "anthropic/claude-sonnet-4-5-20250929",
    "chat": "gpt-4o",
    "responses": "gpt-5.1-codex",
    "gemini": "gemini/gemini-2.5-pro",
}
APIS = {
    "messages": "anthropic",
    "chat": "openai",
    "responses": "openai",
    "gemini": "gemini",
}
ADDRESSES = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GEMINI_API_BASE")
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY")
AGENT = Path(__file__).with_name("fakeagent.py")


@dataclass(frozen=True)
class Turn:
    """One answer: a text, perhaps a call of a tool, and its tokens.

    Attributes:
        tokens: of the prompt, of the answer, read from a cache, written to it.
    """

    text: str = "done"
    tool: tuple[str, dict[str, Any]] | None = None
    tokens: tuple[int, int, int, int] = (1500, 50, 300, 200)


@dataclass(frozen=True)
class Fault:
    """What happens to a request instead of an answer, or to its answer.

    Attributes:
        status: of HTTP; 200 breaks the stream off, or ends it in an error event.
        silent: seconds before the answer.
    """

    status: int = 200
    words: ClassVar[str] = "a fault of the stub"
    headers: dict[str, str] = field(default_factory=dict)
    broken: bool = False
    error_event: bool = False
    silent: float = 0.0


class Stub:
    """Answers with ``turns``; ``faults`` come first, one for each request."""

    def __init__(self, turns: Sequence[Turn], faults: Sequence[Fault] = ()) -> None:
        self.turns = turns
        self.faults = list(faults)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.delay = 0.0
        self._after: list[tuple[str, Sequence[Turn]]] = []
        self.billed = 0
        self._lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self.server.daemon_threads = True
        self._thread = threading.Thread(
            target=self.server.serve_forever, args=(0.02,), daemon=True
        )

    def after(self, words: str, turns: Sequence[Turn]) -> None:
        """Answer with ``turns`` where a request holds ``words``."""
        self._after.append((words, turns))

    def turns_for(self, body: dict[str, Any]) -> Sequence[Turn]:
        text = json.dumps(body)
        return next(
            (turns for words, turns in self._after if words in text), self.turns
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> Stub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, stub: Stub, *args: Any) -> None:
        self.stub = stub
        super().__init__(*args)

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.stub._lock:
            self.stub.requests.append(body)
            self.stub.paths.append(self.path)
            self.stub.headers.append({k.lower(): v for k, v in self.headers.items()})
            fault = self.stub.faults.pop(0) if self.stub.faults else Fault()
        time.sleep(fault.silent or self.stub.delay)
        try:
            self._answer(body, fault)
        except OSError:
            self.close_connection = True

    def _answer(self, body: dict[str, Any], fault: Fault) -> None:
        dialect = _dialect(self.path)
        if fault.status != 200:
            data = json.dumps({"error": {"message": fault.words}}).encode()
            self._whole(data, fault.status, fault.headers)
            return
        turns = self.stub.turns_for(body)
        turn = turns[min(_results(dialect, body), len(turns) - 1)]
        if not body.get("tools"):
            turn = Turn(turn.text, None, turn.tokens)
        with self.stub._lock:
            self.stub.billed += 1
        if not (body.get("stream") or "streamGenerate" in self.path):
            self._whole(json.dumps(_whole(dialect, turn)).encode(), 200, {})
            return
        events = _events(dialect, turn)
        if fault.broken or fault.error_event:
            events = events[: len(events) // 2]
        if fault.error_event:
            events.append(
                ("error", {"type": "error", "error": {"message": "overloaded"}})
            )
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for name, event in events:
            named = ""
            if name:
                named = f"event: {name}\n"
            said = event if isinstance(event, str) else json.dumps(event)
            self.wfile.write(f"{named}data: {said}\n\n".encode())
            self.wfile.flush()
            time.sleep(0.002)
        self.close_connection = True

    def _whole(
        self,
        data: bytes,
        status: int,
        headers: dict[str, str],
    ) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _dialect(path: str) -> str:
    ends = {
        "/messages": "messages",
        "/chat/completions": "chat",
        "/responses": "responses",
    }
    bare = path.partition("?")[0]
    return next((name for end, name in ends.items() if bare.endswith(end)), "gemini")


def _results(dialect: str, body: dict[str, Any]) -> int:
    """Return how many results of tools a conversation holds."""
    marks = {
        "messages": '"tool_result"',
        "chat": '"role": "tool"',
        "responses": '"function_call_output"',
        "gemini": '"functionResponse"',
    }
    text = json.dumps(body).replace("function_response", "functionResponse")
    return text.count(marks[dialect])


def _whole(dialect: str, turn: Turn) -> dict[str, Any]:
    into, out, cached, written = turn.tokens
    name, arguments = turn.tool or ("", {})
    if dialect == "messages":
        content: list[dict[str, Any]] = [{"type": "text", "text": turn.text}]
        if turn.tool:
            content.append(
                {"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}
            )
        usage = {
            "input_tokens": into - cached - written,
            "output_tokens": out,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": written,
        }
        return {
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": content,
            "stop_reason": "tool_use" if turn.tool else "end_turn",
            "usage": usage,
        }
    if dialect == "chat":
        message: dict[str, Any] = {"role": "assistant", "content": turn.text}
        if turn.tool:
            function = {"name": name, "arguments": json.dumps(arguments)}
            message["tool_calls"] = [
                {"id": "call_1", "type": "function", "function": function}
            ]
        finish = "stop"
        if turn.tool:
            finish = "tool_calls"
        usage = {
            "prompt_tokens": into,
            "completion_tokens": out,
            "total_tokens": into + out,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return {"model": "gpt", "choices": [choice], "usage": usage}
    if dialect == "responses":
        text = {"type": "output_text", "text": turn.text, "annotations": []}
        output: list[dict[str, Any]] = [
            {"type": "message", "role": "assistant", "id": "msg_1", "content": [text]}
        ]
        if turn.tool:
            output.append(
                {
                    "type": "function_call",
                    "id": "fc_1",
                    "call_id": "call_1",
                    "name": name,
                    "arguments": json.dumps(arguments),
                }
            )
        usage = {
            "input_tokens": into,
            "output_tokens": out,
            "total_tokens": into + out,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens_details": {"reasoning_tokens": 10},
        }
        said = {
            "id": "resp_1",
            "object": "response",
            "status": "completed",
            "model": "gpt",
            "created_at": 1,
        }
        return {**said, "created_at": 1, "output": output, "usage": usage}
    parts: list[dict[str, Any]] = [{"text": turn.text}]
    if turn.tool:
        parts.append({"functionCall": {"name": name, "args": arguments}})
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    counts = {
        "promptTokenCount": into,
        "candidatesTokenCount": out - 10,
        "thoughtsTokenCount": 10,
        "cachedContentTokenCount": cached,
    }
    return {
        "candidates": [candidate],
        "usageMetadata": counts,
        "modelVersion": "gemini",
    }


def _events(dialect: str, turn: Turn) -> list[tuple[str, Any]]:
    whole = _whole(dialect, turn)
    if dialect == "messages":
        return _message_events(whole)
    if dialect == "chat":
        return _chat_events(whole)
    if dialect == "responses":
        opened = {**whole, "output": [], "status": "in_progress"}
        listed: list[dict[str, Any]] = [
            {"type": "response.created", "response": opened}
        ]
        added = {**whole["output"][0], "content": []}
        listed.append(
            {"type": "response.output_item.added", "output_index": 0, "item": added}
        )
        listed.append(
            {
                "type": "response.output_text.delta",
                "item_id": "msg_1",
                "delta": turn.text,
            }
        )
        for index, item in enumerate(whole["output"]):
            done = {
                "type": "response.output_item.done",
                "output_index": index,
                "item": item,
            }
            listed.append(done)
        listed.append({"type": "response.completed", "response": whole})
        return [(event["type"], event) for event in listed]
    (candidate,) = whole["candidates"]
    first = {
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": turn.text[:1]}]}}
        ]
    }
    candidate["content"]["parts"][0] = {"text": turn.text[1:]}
    return [("", first), ("", whole)]


def _message_events(whole: dict[str, Any]) -> list[tuple[str, Any]]:
    content = whole["content"]
    stop = whole["stop_reason"]
    usage = whole["usage"]
    opened = {
        **whole,
        "content": [],
        "stop_reason": None,
        "usage": {**usage, "output_tokens": 1},
    }
    events: list[dict[str, Any]] = [{"type": "message_start", "message": opened}]
    for index, block in enumerate(content):
        if block["type"] == "text":
            empty = {"type": "text", "text": ""}
            deltas = []
            for character in block["text"]:
                deltas.append({"type": "text_delta", "text": character})
        else:
            empty = {**block, "input": {}}
            said = json.dumps(block["input"])
            half = len(said) // 2
            deltas = []
            for part in (said[:half], said[half:]):
                deltas.append({"type": "input_json_delta", "partial_json": part})
        events.append(
            {"type": "content_block_start", "index": index, "content_block": empty}
        )
        for delta in deltas:
            events.append(
                {"type": "content_block_delta", "index": index, "delta": delta}
            )
        events.append({"type": "content_block_stop", "index": index})
    last = {"output_tokens": usage["output_tokens"]}
    events.append(
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": last}
    )
    events.append({"type": "message_stop"})
    return [(event["type"], event) for event in events]


def _chat_events(whole: dict[str, Any]) -> list[tuple[str, Any]]:
    (choice,) = whole["choices"]
    message = choice["message"]

    def chunk(delta: dict[str, Any], finish: str | None = None) -> tuple[str, Any]:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return "", {"model": "gpt", "choices": choices}

    events = [chunk({"role": "assistant", "content": message["content"]})]
    for index, call in enumerate(message.get("tool_calls", [])):
        name = call["function"]["name"]
        said = call["function"]["arguments"]
        begin = {**call, "index": index, "function": {"name": name, "arguments": ""}}
        events.append(chunk({"tool_calls": [begin]}))
        for part in (said[:5], said[5:]):
            function = {"arguments": part}
            events.append(
                chunk({"tool_calls": [{"index": index, "function": function}]})
            )
    events.append(chunk({}, choice["finish_reason"]))
    events.append(("", {"model": "gpt", "choices": [], "usage": whole["usage"]}))
    return [*events, ("", "[DONE]")]
