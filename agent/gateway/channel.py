"""Pass an answer on to an agent: at once, piece by piece, or after a long silence."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web

from agent.gateway.dialects.base import AgentRequest

STREAM = "text/event-stream"
JSON_TYPE = "application/json"
NO_RETRY = {"x-should-retry": "false"}
# Agents and their libraries give up after some minutes of silence.
PING = 10.0


@dataclass(frozen=True)
class Piece:
    """A part of an answer, or all of it.

    Attributes:
        headers: of the answer, where this is the first piece.
        late: what is sent instead, where this is not the first piece.
    """

    data: bytes
    headers: Mapping[str, str]
    status: int = 200
    late: bytes = b""


@dataclass
class Channel:
    """The way of one answer to the agent; None ends it."""

    request: AgentRequest
    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[Piece | None] = field(default_factory=asyncio.Queue)
    started: bool = False

    def give(self, item: Piece | None) -> None:
        """Send ``item``; called in any thread."""
        self.started = True
        self.loop.call_soon_threadsafe(self.queue.put_nowait, item)

    def refuse(self, words: str) -> None:
        dialect, headers = self.request.dialect, {**NO_RETRY, "content-type": JSON_TYPE}
        data = json.dumps(dialect.refusal(words)).encode()
        self.give(Piece(data, headers, 400, late=dialect.stream_error(words)))


async def respond(asked: web.Request, channel: Channel) -> web.StreamResponse:
    """Pass the answer on as it comes; in a stream, say that it is still waited for."""
    response: web.StreamResponse | None = None
    waiting = Piece(channel.request.dialect.ping, {"content-type": STREAM})
    try:
        while True:
            wait = PING if channel.request.streamed else None
            try:
                item = await asyncio.wait_for(channel.queue.get(), wait)
            except (TimeoutError, asyncio.TimeoutError):
                item = waiting
            if item is None:
                break
            if response is None:
                response = web.StreamResponse(status=item.status, headers=item.headers)
                await response.prepare(asked)
                await response.write(item.data)
            else:
                await response.write(item.late or item.data)
        assert response is not None
        await response.write_eof()
    except OSError:  # the agent has hung up; the call goes on without it
        pass
    return response or web.Response(status=500)
