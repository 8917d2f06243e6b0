"""A server that streams: slowly, without end, in part, or not at all; in five protocols."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Event, Lock
from typing import Any

from tests.support.dialects import (
    DIALECTS,
    Turn,
    _events,
    _response,
    error_event,
    event_bytes,
)
from tests.support.servers import Handler, LoopbackServer

PATHS = {
    "messages": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-2.5-pro:generateContent",
    "ollama": "/api/chat",
}
assert {*DIALECTS} < {*PATHS}


EIGHT_WORDS = Turn("one two three four five six seven eight")


@dataclass(frozen=True)
class Streamed:
    """One answer.

    Attributes:
        pause: seconds before each event.
        pings: comments before the first event, with as long pauses.
        end: what happens in the middle: it ``dies``, is ``silent``, ``stops`` without its end, or
            goes on with an ``error``; empty for nothing.
        plain: it is no stream, whatever is asked for.
        refusal: what is said to requests that ask for a stream, with status 400.
        status: of an error instead of the answer, with ``error`` as its words.
    """

    turn: Turn = EIGHT_WORDS
    pause: float = 0.0
    pings: int = 0
    end: str = ""
    plain: bool = False
    refusal: str = ""
    status: int = 200
    error: str = "Loading model"


class _Handler(Handler):
    stub: StreamServer
    protocol_version = "HTTP/1.1"

    def respond(self) -> None:
        request = json.loads(self.read_body())
        stub = self.stub
        if self.path == "/api/show":  # litellm asks Ollama what its model can do
            self.send_json({"error": "no"}, 404)
            return
        with stub.lock:
            stub.requests.append(request)
            stub.paths.append(self.path)
            answer = stub.answers[0]
            if len(stub.answers) > 1:
                del stub.answers[0]
        is_stream = bool(request.get("stream")) or "streamGenerate" in self.path
        with suppress(OSError):
            self._answer(answer, is_stream)

    def _answer(self, answer: Streamed, is_stream: bool) -> None:
        kind = _kind(self.path)
        if answer.status != 200:
            self.send_json({"error": {"message": answer.error}}, answer.status)
        elif answer.refusal and is_stream:
            self.send_json({"error": {"message": answer.refusal}}, 400)
        elif answer.plain or not is_stream:
            self.send_json(_whole(kind, answer.turn))
        else:
            self._stream(kind, answer)

    def _stream(self, kind: str, answer: Streamed) -> None:
        mime = "application/x-ndjson" if kind == "ollama" else "text/event-stream"
        # Without the word, a client may send its next request into the end of this connection.
        ends = {"connection": "close", "transfer-encoding": "chunked"}
        self.send_head(200, {"content-type": mime, **ends})
        pieces = list(_pieces(kind, answer.turn))
        if answer.end:
            pieces = pieces[: max(len(pieces) // 2, 1)]
        for piece in [b": ping\n\n"] * answer.pings + pieces:
            self.stub.closing.wait(answer.pause)
            self._send_chunk(piece)
        if answer.end == "dies":
            return
        if answer.end == "silent":
            self.stub.closing.wait(60)
        if answer.end == "error":
            self._send_chunk(_error_event(kind, answer.error))
        self._send_chunk(b"")

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


class StreamServer(LoopbackServer):
    """Answers requests with ``answers`` in order; the last one repeats."""

    handler = _Handler

    def __init__(self, *answers: Streamed) -> None:
        super().__init__()
        self.answers = list(answers) or [Streamed()]
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.lock = Lock()
        self.closing = Event()

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        super().__exit__()


def _kind(path: str) -> str:
    bare = path.partition("?")[0]
    for kind, end in PATHS.items():
        if bare.endswith(end.removeprefix("/v1")):
            return kind
    if bare.endswith("/completions"):
        return "text"
    return "gemini"


def _whole(kind: str, turn: Turn) -> Any:
    if kind == "ollama":
        *_, last = _ollama_lines(turn)
        return {**last, "message": {"role": "assistant", "content": turn.text}}
    if kind == "text":
        choice = {"index": 0, "text": turn.text, "finish_reason": "stop"}
        usage = _response("chat", turn)["usage"]
        kind = "text_completion"
        return {"object": kind, "model": "gpt", "choices": [choice], "usage": usage}
    return _response(kind, turn)


def _pieces(kind: str, turn: Turn) -> Iterator[bytes]:
    """Yield the events of a stream, a word of the text in each where the protocol has pieces."""
    if kind == "ollama":
        for line in _ollama_lines(turn):
            yield json.dumps(line).encode() + b"\n"
        return
    if kind in ("chat", "text"):
        words = turn.text.split(" ")
        for number, word in enumerate(words):
            text = word if number == 0 else f" {word}"
            delta: dict[str, Any] = {"delta": {"content": text}}
            if kind == "text":
                delta = {"text": text}
            choice = {"index": 0, **delta, "finish_reason": None}
            yield _piece("", {"model": "gpt", "choices": [choice]})
        if kind == "text":
            whole = _whole(kind, replace(turn, text=""))
            yield _piece("", whole)
            yield event_bytes("", "[DONE]")
            return
    events = _events(kind, turn)
    if kind == "chat":
        events[0][1]["choices"][0]["delta"]["content"] = None
    for name, event in events:
        yield _piece(name, event)


def _error_event(kind: str, words: str) -> bytes:
    if kind == "ollama":
        return json.dumps({"error": words}).encode() + b"\n"
    name, event = error_event(kind, words)
    return _piece(name, event)


def _piece(name: str, event: Any) -> bytes:
    data = event if isinstance(event, str) else json.dumps(event)
    return event_bytes(name, data)


def _ollama_lines(turn: Turn) -> Iterator[dict[str, Any]]:
    head = {"model": "qwen", "created_at": "2026-01-01T00:00:00Z"}
    words = turn.text.split(" ")
    for number, word in enumerate(words):
        text = word if number == 0 else f" {word}"
        message = {"role": "assistant", "content": text}
        yield {**head, "message": message, "done": False}
    prompt, output, *_ = turn.tokens
    counts = {"prompt_eval_count": prompt, "eval_count": output}
    empty = {"role": "assistant", "content": ""}
    yield {**head, "message": empty, "done": True, "done_reason": "stop", **counts}
