"""What litellm sends and receives in one call, of which its exceptions do not tell.

To them, a missing package, a broken connection and an answer that cannot be read may look the same.
All of its clients are httpx's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")
# The longest replies of models have about a million bytes.
_MOST_BYTES = 32 * 2**20
# The classes raised before a request is sent; subclasses count. litellm also raises httpx's
# ConnectError for a connection that was reset after sending: where it translates an error of
# aiohttp, that one decides.
_BEFORE_SENDING = {
    "ClientConnectorError", "ConnectionTimeoutError", "ClientHttpProxyError",  # aiohttp's
    "ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol",
    "InvalidURL",
}  # fmt: skip


@dataclass
class Wire:
    """The HTTP requests of one call, and the head of the last answer; a rehearsal sends none.

    Attributes:
        sent: a request may have reached the provider.
        unreached: why the last one did not.
    """

    rehearsal: bool = False
    sent: bool = False
    unreached: BaseException | None = None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def billed(self) -> bool:
        """Whether the provider may bill the call: it has not answered with an error."""
        return self.sent and (self.status or 0) < 400

    @contextmanager
    def request(self) -> Iterator[None]:
        before, self.sent, self.status = self.sent, True, None
        if self.rehearsal:
            raise RuntimeError("a rehearsal sends nothing")
        try:
            yield
        except Exception as error:
            cause = error.__cause__
            decisive = cause if type(cause).__module__.startswith("aiohttp") else error
            if not _BEFORE_SENDING.isdisjoint(kind.__name__ for kind in type(decisive).__mro__):
                self.sent, self.unreached = before, decisive
            raise


_CURRENT: ContextVar[Wire] = ContextVar("wire")


async def watched(wire: Wire, call: Awaitable[T]) -> T:
    """Return the result of ``call``, while ``wire`` sees what it sends."""
    _CURRENT.set(wire)
    return await call


def watch_clients() -> None:
    """Make the clients of this process report to the wire of their call."""
    import httpx

    send, send_async = httpx.Client.send, httpx.AsyncClient.send

    def seen(self: Any, request: Any, **options: Any) -> httpx.Response:  # noqa: ANN401
        wire = _CURRENT.get(Wire())
        with wire.request():
            response = send(self, request, **options)
        wire.status, wire.headers = response.status_code, response.headers
        return response

    async def seen_async(self: Any, request: Any, **options: Any) -> httpx.Response:  # noqa: ANN401
        wire = _CURRENT.get(Wire())
        with wire.request():
            response = await send_async(self, request, **{**options, "stream": True})
        wire.status, wire.headers = response.status_code, response.headers
        if not options.get("stream"):
            await _read(response)
        return response

    httpx.Client.send = seen  # type: ignore[method-assign]
    httpx.AsyncClient.send = seen_async  # type: ignore[method-assign]


async def _read(response: Any) -> None:  # noqa: ANN401
    body = bytearray()
    try:
        async for part in response.aiter_bytes():
            body += part
            if len(body) > _MOST_BYTES:
                raise ValueError(f"the answer has more than {_MOST_BYTES} bytes")
    finally:
        await response.aclose()
    response._content = bytes(body)
