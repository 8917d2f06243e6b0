"""A slow server for OpenAI's chat protocol, for ``benchmarks.throughput``.

``python -m benchmarks.slow_provider SECONDS``.

The answer depends only on the number of messages: a file name, an edit that does not apply, and an
edit that applies. ``GET /figures`` returns the counts since ``GET /reset``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from typing import Any

_EDIT = (
    "{path}\n```python\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n```\n"
)
PATH = "flasklike/module_1.py"
REPLIES = (
    PATH,
    _EDIT.format(
        path=PATH, old="    return nowhere_to_be_found(1)", new="    return 2"
    ),
    _EDIT.format(path=PATH, old='"""Module 1."""', new='"""Module one."""'),
)


@dataclass
class WaitFigures:
    """The number and times of answers, and the last conversation."""

    answers: int = 0
    first: float = 0.0
    last: float = 0.0
    at_once: int = 0
    most_at_once: int = 0
    longest: list[dict[str, Any]] = field(default_factory=list)

    def count_request(self, messages: list[dict[str, Any]]) -> None:
        self.first = self.first or time.monotonic()
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        if len(messages) >= len(self.longest):
            self.longest = messages

    def count_answer(self) -> None:
        self.at_once -= 1
        self.answers += 1
        self.last = time.monotonic()


@dataclass
class Server:
    """Answers after ``seconds``."""

    seconds: float
    figures: WaitFigures = field(default_factory=WaitFigures)

    async def serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve one connection until its end."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(_length(head))
                writer.write(_response(await self._answer(head, body)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _answer(self, head: bytes, body: bytes) -> dict[str, Any]:
        if head.startswith(b"GET /reset"):
            self.figures = WaitFigures()
        if head.startswith(b"GET"):
            return vars(self.figures)
        messages = json.loads(body)["messages"]
        self.figures.count_request(messages)
        await asyncio.sleep(self.seconds)
        self.figures.count_answer()
        return _completion(REPLIES[(len(messages) // 2 - 1) % len(REPLIES)])


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def _response(content: dict[str, Any]) -> bytes:
    body = json.dumps(content).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def _completion(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    tokens = (
        ("prompt_tokens", 1000),
        ("completion_tokens", 100),
        ("total_tokens", 1100),
    )
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": dict(tokens),
    }


async def serve(seconds: float) -> None:
    """Serve on a free port and print the port."""
    server = await asyncio.start_server(
        Server(seconds).serve_connection, "127.0.0.1", 0, limit=1 << 26, backlog=1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
