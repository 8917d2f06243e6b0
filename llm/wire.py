"""What litellm sends and receives in one call: seen, limited, and held back in a rehearsal.

litellm's exceptions do not tell whether a request left or was answered: a missing package, a broken
connection and an answer that cannot be read may look the same. All of its clients are httpx's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

MOST_BYTES = 32 * 2**20
"""The longest answer that is read; the longest replies of models have about one million."""


class RehearsedError(Exception):
    """The request was ready; it is not sent."""


@dataclass
class Wire:
    """The last HTTP request of a call and its answer.

    Attributes:
        rehearsal: nothing is sent.
        sent: a request was handed to the connection.
        status: of the answer; None before there is one.
    """

    rehearsal: bool = False
    sent: bool = False
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def error_status(self) -> int | None:
        """The status of an answer that says that nothing was done."""
        return self.status if self.status and self.status >= 400 else None

    @property
    def billed(self) -> bool:
        """Whether the provider may bill the call."""
        return self.sent and self.error_status is None

    def leave(self) -> None:
        """Note that a request is about to be sent.

        Raises:
            RehearsedError: this is a rehearsal.
        """
        self.sent, self.status, self.headers = True, None, {}
        if self.rehearsal:
            raise RehearsedError

    def answered(self, response: Any) -> None:  # noqa: ANN401 - httpx is imported late
        """Note the head of the answer."""
        self.status, self.headers = response.status_code, response.headers


_CURRENT: ContextVar[Wire] = ContextVar("wire")


async def watched(wire: Wire, call: Awaitable[T]) -> T:
    """Return the result of ``call``, while ``wire`` sees what it sends."""
    _CURRENT.set(wire)
    return await call


def watch_clients() -> None:
    """Make the clients of this process report to the wire of their call."""
    import httpx

    send, send_async = httpx.Client.send, httpx.AsyncClient.send

    def seen(self: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
        wire = _CURRENT.get(Wire())
        wire.leave()
        response = send(self, request, **options)
        wire.answered(response)
        return response

    async def seen_async(
        self: httpx.AsyncClient, request: httpx.Request, **options: Any
    ) -> httpx.Response:
        wire = _CURRENT.get(Wire())
        wire.leave()
        response = await send_async(self, request, **{**options, "stream": True})
        wire.answered(response)
        if not options.get("stream"):
            await _read(response)
        return response

    httpx.Client.send = seen  # type: ignore[method-assign,assignment]
    httpx.AsyncClient.send = seen_async  # type: ignore[method-assign,assignment]


async def _read(response: Any) -> None:  # noqa: ANN401
    """Read the body, as ``aread`` does, up to a limit."""
    parts, size = [], 0
    try:
        async for part in response.aiter_bytes():
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                raise ValueError(f"the answer has more than {MOST_BYTES} bytes")
        response._content = b"".join(parts)
    except BaseException:
        await response.aclose()
        raise
