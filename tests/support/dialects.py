"""A stub of the four dialects, and a small coding agent that speaks them.

The stub answers by what the conversation holds: the turn after as many tool results. So it needs no
state, and several agents can ask it at once.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from tests.support.servers import Handler, LoopbackServer

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
        cut: it ends at the limit of the request.
    """

    text: str = "done"
    tool: tuple[str, dict[str, Any]] | None = None
    tokens: tuple[int, int, int, int] = (1500, 50, 300, 200)
    cut: bool = False

    @property
    def key(self) -> int:
        """The same for the same text: agents take calls with one id for one call."""
        return zlib.crc32(self.text.encode())


@dataclass(frozen=True)
class Fault:
    """What happens to a request instead of an answer, or to its answer.

    Attributes:
        status: of HTTP; 200 breaks the answer off, or ends its stream in an error event.
        silent: seconds before the answer.
        garbage: the answer is a page of HTML.
        late: the stream ends so only after all that it has to say.
    """

    status: int = 200
    words: ClassVar[str] = "a fault of the stub"
    headers: dict[str, str] = field(default_factory=dict)
    broken: bool = False
    error_event: bool = False
    silent: float = 0.0
    garbage: bool = False
    late: bool = False


def error_body(dialect: str, message: str) -> dict[str, Any]:
    """Return the body by which a provider says that it is overloaded."""
    if dialect == "messages":
        error = {"type": "overloaded_error", "message": message, "details": None}
        return {"type": "error", "error": error, "request_id": "req_1"}
    if dialect == "gemini":
        return {"error": {"code": 503, "message": message, "status": "UNAVAILABLE"}}
    code = "server_is_overloaded"
    return {"error": {"message": message, "type": "server_error", "code": code}}


def error_event(dialect: str, message: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the data of the event in which a stream ends."""
    body = error_body(dialect, message)
    if dialect == "messages":
        return "error", body
    if dialect == "responses":
        kind = "response.failed"
        return kind, {"type": kind, "response": {"status": "failed", **body}}
    return "", body


def event_bytes(name: str, data: str) -> bytes:
    lines = f"data: {data}\n\n"
    if name:
        lines = f"event: {name}\n{lines}"
    return lines.encode()


class _Handler(Handler):
    stub: Stub
    protocol_version = "HTTP/1.1"

    def respond(self) -> None:
        if "content-length" not in self.headers:
            self.send_json({}, 404)  # an agent looks whether there is a server
            return
        body = json.loads(self.read_body())
        stub = self.stub
        fault = Fault()
        with stub.lock:
            stub.requests.append(body)
            stub.paths.append(self.path)
            stub.headers.append({k.lower(): v for k, v in self.headers.items()})
            if stub.faults and (body.get("tools") or not stub.spares_small):
                fault = stub.faults.pop(0)
        time.sleep(fault.silent or stub.delay)
        try:
            self._answer(body, fault)
        except OSError:
            self.close_connection = True

    def _answer(self, body: dict[str, Any], fault: Fault) -> None:
        dialect = _dialect(self.path)
        if fault.status != 200:
            error = error_body(dialect, fault.words)
            self.send_json(error, fault.status, fault.headers)
            return
        if fault.garbage:
            page = b"<html>a page of a proxy</html>"
            head = {"content-type": "text/html", "content-length": len(page)}
            self.send_head(200, head)
            self.wfile.write(page)
            return
        turns = self.stub.turns_for(body)
        turn = turns[min(_results(dialect, body), len(turns) - 1)]
        if not body.get("tools"):
            turn = replace(turn, tool=None)
        with self.stub.lock:
            self.stub.billed += 1
        streams = body.get("stream") or "streamGenerate" in self.path
        if streams and not self.stub.ignores_streams:
            self._stream(_events(dialect, turn), fault, dialect)
        elif fault.broken:
            data = json.dumps(_response(dialect, turn)).encode()
            head = {"content-type": "application/json", "content-length": len(data)}
            self.send_head(200, head)
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
        else:
            self.send_json(_response(dialect, turn))

    def _stream(
        self, events: list[tuple[str, Any]], fault: Fault, dialect: str
    ) -> None:
        if fault.late:
            events = events[:-1]
        elif fault.broken or fault.error_event:
            events = events[: len(events) // 2]
        if fault.error_event:
            events.append(error_event(dialect, fault.words))
        headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        if not fault.broken:
            # After it some clients take a connection that breaks for a normal end.
            headers["connection"] = "close"
        self.send_head(200, headers)
        for name, event in events:
            data = event if isinstance(event, str) else json.dumps(event)
            self._send_chunk(event_bytes(name, data))
            time.sleep(0.002)
        if not fault.broken:
            self._send_chunk(b"")
        self.close_connection = True

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


class Stub(LoopbackServer):
    """Answers with ``turns``; ``faults`` come first, one for each request.

    Attributes:
        spares_small: requests without tools, such as those for a title, meet no fault.
        ignores_streams: answers are whole, also where a stream is asked for.
    """

    handler = _Handler

    def __init__(self, turns: Sequence[Turn], faults: Sequence[Fault] = ()) -> None:
        super().__init__()
        self.turns = turns
        self.faults = list(faults)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.delay = 0.0
        self.spares_small = False
        self.ignores_streams = False
        self.billed = 0
        self.lock = threading.Lock()
        self._after: dict[str, Sequence[Turn]] = {}

    def after(self, text: str, turns: Sequence[Turn]) -> None:
        """Answer with ``turns`` where a request holds ``text``."""
        self._after[text] = turns

    def turns_for(self, body: dict[str, Any]) -> Sequence[Turn]:
        request = json.dumps(body)
        for text, turns in self._after.items():
            if text in request:
                return turns
        return self.turns


_ENDS = {
    "/messages": "messages",
    "/chat/completions": "chat",
    "/responses": "responses",
}


def _dialect(path: str) -> str:
    bare = path.partition("?")[0]
    for end, dialect in _ENDS.items():
        if bare.endswith(end):
            return dialect
    return "gemini"


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


def _response(dialect: str, turn: Turn) -> dict[str, Any]:
    response = _RESPONSES[dialect](turn)
    if turn.cut:
        _CUTS[dialect](response)
    return response


_CUTS: dict[str, Callable[[dict[str, Any]], None]] = {
    "messages": lambda answer: answer.update(stop_reason="max_tokens"),
    "chat": lambda answer: answer["choices"][0].update(finish_reason="length"),
    "responses": lambda answer: answer.update(status="incomplete"),
    "gemini": lambda answer: answer["candidates"][0].update(finishReason="MAX_TOKENS"),
}


def _messages_response(turn: Turn) -> dict[str, Any]:
    prompt, output, cached, written = turn.tokens
    content: list[dict[str, Any]] = [{"type": "text", "text": turn.text}]
    stop = "end_turn"
    if turn.tool:
        name, arguments = turn.tool
        call = {
            "type": "tool_use",
            "id": f"toolu_{turn.key}",
            "name": name,
            "input": arguments,
        }
        content.append(call)
        stop = "tool_use"
    return {
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": content,
        "stop_reason": stop,
        "usage": {
            "input_tokens": prompt - cached - written,
            "output_tokens": output,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": written,
        },
    }


def _chat_response(turn: Turn) -> dict[str, Any]:
    prompt, output, cached, _ = turn.tokens
    message: dict[str, Any] = {"role": "assistant", "content": turn.text}
    finish = "stop"
    if turn.tool:
        name, arguments = turn.tool
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"call_{turn.key}", "type": "function", "function": function}
        message["tool_calls"] = [call]
        finish = "tool_calls"
    return {
        "model": "gpt",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }


def _responses_response(turn: Turn) -> dict[str, Any]:
    prompt, output, cached, _ = turn.tokens
    text = {"type": "output_text", "text": turn.text, "annotations": []}
    message = {"type": "message", "role": "assistant", "id": "msg_1", "content": [text]}
    items: list[dict[str, Any]] = [message]
    if turn.tool:
        name, arguments = turn.tool
        call = {
            "type": "function_call",
            "id": f"fc_{turn.key}",
            "call_id": f"call_{turn.key}",
        }
        items.append({**call, "name": name, "arguments": json.dumps(arguments)})
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "gpt",
        "created_at": 1,
        "output": items,
        "usage": {
            "input_tokens": prompt,
            "output_tokens": output,
            "total_tokens": prompt + output,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens_details": {"reasoning_tokens": 10},
        },
    }


def _gemini_response(turn: Turn) -> dict[str, Any]:
    prompt, output, cached, _ = turn.tokens
    parts: list[dict[str, Any]] = [{"text": turn.text}]
    if turn.tool:
        name, arguments = turn.tool
        parts.append({"functionCall": {"name": name, "args": arguments}})
    content = {"role": "model", "parts": parts}
    return {
        "candidates": [{"content": content, "finishReason": "STOP"}],
        "usageMetadata": {
            "promptTokenCount": prompt,
            "candidatesTokenCount": output - 10,
            "thoughtsTokenCount": 10,
            "cachedContentTokenCount": cached,
        },
        "modelVersion": "gemini",
    }


_RESPONSES = {
    "messages": _messages_response,
    "chat": _chat_response,
    "responses": _responses_response,
    "gemini": _gemini_response,
}


def _events(dialect: str, turn: Turn) -> list[tuple[str, Any]]:
    """Return the events of a stream: names, empty where the dialect has none, and data."""
    response = _response(dialect, turn)
    if dialect == "messages":
        return _named(_message_events(response))
    if dialect == "responses":
        return _named(_response_events(response, turn.text))
    if dialect == "chat":
        return [("", data) for data in _chat_events(response)]
    parts = response["candidates"][0]["content"]["parts"]
    parts[0] = {"text": turn.text[1:]}
    content = {"role": "model", "parts": [{"text": turn.text[:1]}]}
    return [("", {"candidates": [{"content": content}]}), ("", response)]


def _named(events: Iterable[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(event["type"], event) for event in events]


def _response_events(response: dict[str, Any], text: str) -> Iterator[dict[str, Any]]:
    start = {**response, "output": [], "status": "in_progress"}
    yield {"type": "response.created", "response": start}
    item = {**response["output"][0], "content": []}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield {"type": "response.output_text.delta", "item_id": "msg_1", "delta": text}
    for index, item in enumerate(response["output"]):
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": response}


def _message_events(response: dict[str, Any]) -> Iterator[dict[str, Any]]:
    usage = response["usage"]
    start = {**response, "content": [], "stop_reason": None}
    start["usage"] = {**usage, "output_tokens": 1}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(response["content"]):
        if block["type"] == "text":
            empty: dict[str, Any] = {"text": ""}
            deltas = [{"type": "text_delta", "text": part} for part in block["text"]]
        else:
            empty = {"input": {}}
            text = json.dumps(block["input"])
            half = len(text) // 2
            deltas = [
                {"type": "input_json_delta", "partial_json": part}
                for part in (text[:half], text[half:])
            ]
        position = {"index": index}
        start_block = {"content_block": {**block, **empty}}
        yield {"type": "content_block_start", **position, **start_block}
        for delta in deltas:
            yield {"type": "content_block_delta", **position, "delta": delta}
        yield {"type": "content_block_stop", **position}
    stop = {"stop_reason": response["stop_reason"]}
    tokens = {"output_tokens": usage["output_tokens"]}
    yield {"type": "message_delta", "delta": stop, "usage": tokens}
    yield {"type": "message_stop"}


def _chat_events(response: dict[str, Any]) -> Iterator[Any]:
    (choice,) = response["choices"]
    message = choice["message"]

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return {"model": "gpt", "choices": choices}

    yield chunk({"role": "assistant", "content": message["content"]})
    for index, call in enumerate(message.get("tool_calls", [])):
        function = call["function"]
        start = {**call, "index": index, "function": {**function, "arguments": ""}}
        yield chunk({"tool_calls": [start]})
        for part in (function["arguments"][:5], function["arguments"][5:]):
            piece = {"index": index, "function": {"arguments": part}}
            yield chunk({"tool_calls": [piece]})
    yield chunk({}, choice["finish_reason"])
    yield {"model": "gpt", "choices": [], "usage": response["usage"]}
    yield "[DONE]"
