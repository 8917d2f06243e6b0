"""Pass an answer on to an agent: at once, piece by piece, or after a long silence."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web

from agent.gateway.dialects.base import AgentRequest, Dialect

STREAM = "text/event-stream"
# Agents and their libraries give up after some minutes of silence.
PING = 10.0


@dataclass(frozen=True)
class Piece:
    """An answer in one piece."""

    data: bytes
    status: int = 200
    words: str = ""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Channel:
    """The way of one answer to the agent; None ends it."""

    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[Piece | bytes | None] = field(default_factory=asyncio.Queue)
    started: bool = False

    def give(self, item: Piece | bytes | None) -> None:
        """Send ``item``; called in any thread."""
        self.started = True
        self.loop.call_soon_threadsafe(self.queue.put_nowait, item)


async def respond(
    asked: web.Request, request: AgentRequest, channel: Channel
) -> web.StreamResponse:
    """Pass the answer on as it comes; in a stream, say that it is still waited for."""
    response: web.StreamResponse | None = None
    try:
        while True:
            wait = PING if request.streamed else None
            try:
                item = await asyncio.wait_for(channel.queue.get(), wait)
            except (TimeoutError, asyncio.TimeoutError):
                if response is None:
                    response = await _prepared(asked, Piece(b"", content_type=STREAM))
                await response.write(request.dialect.ping)
                continue
            if item is None:
                break
            if isinstance(item, bytes):
                assert response is not None
                await response.write(item)
            elif response is None:
                response = await _prepared(asked, item)
                await response.write(item.data)
            elif item.status == 200:
                await response.write(item.data)
            else:
                await response.write(request.dialect.stream_error(item.words))
        assert response is not None
        await response.write_eof()
    except OSError:  # the agent has hung up; the call goes on without it
        pass
    return response or web.Response(status=500)


async def _prepared(asked: web.Request, item: Piece) -> web.StreamResponse:
    headers = {**item.headers, "content-type": item.content_type}
    if item.status != 200:
        headers["x-should-retry"] = "false"
    response = web.StreamResponse(status=item.status, headers=headers)
    await response.prepare(asked)
    return response


def refusal_of(request: AgentRequest, words: str) -> Piece:
    return Piece(json.dumps(request.dialect.refusal(words)).encode(), 400, words)


def refused(dialect: Dialect | None, words: str, status: int) -> web.Response:
    body = dialect.refusal(words) if dialect else {"error": {"message": words}}
    return web.json_response(body, status=status, headers={"x-should-retry": "false"})
