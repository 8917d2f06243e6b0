"""The HTTP requests of one call, and the loop in which all calls run.

A stream is asked for, and its parts are noted and merged.

litellm asks for whole answers and reads whole answers. What its clients send is changed to ask for
a stream where the protocol has one, and what they read is merged from it. So a long answer takes
its time, and only silence ends it. What does not stream is read as it comes.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urljoin

from swe_retry.core.address import recorded_address
from swe_retry.core.jsontypes import text_at
from swe_retry.llm.chat import Usage, estimate_tokens
from swe_retry.llm.dialects import dialect_at
from swe_retry.llm.dialects.answer import Tokens
from swe_retry.llm.dialects.dialect import Dialect
from swe_retry.llm.dialects.pieces import parse_json
from swe_retry.llm.usage import without_odd_counts

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

T = TypeVar("T")
# The longest replies of models have about a million bytes.
MAX_BYTES = 32 * 2**20
STREAM_TYPES = ("text/event-stream", "application/x-ndjson")
_BROKEN = "the answer broke off"
_REPORT_EVERY = 0.5  # seconds
_REFUSALS = frozenset({400, 404, 405, 422, 501})
_STREAM = re.compile(rb"\bstream(ing)?\b", re.IGNORECASE)
# The classes raised before a request is sent; subclasses count. litellm also raises httpx's
# ConnectError for a connection that was reset after sending: where it translates an error of
# aiohttp, that one decides.
_BEFORE_SENDING = {
    "ClientConnectorError",
    "ConnectionTimeoutError",
    "ClientHttpProxyError",  # aiohttp's
    "ConnectError",
    "ConnectTimeout",
    "PoolTimeout",
    "ProxyError",
    "UnsupportedProtocol",
    "InvalidURL",
}


@dataclass
class Wire:
    """The HTTP requests of one call, and its last answer; a rehearsal sends none.

    Attributes:
        sent: a request may have reached the provider.
        unreached: why the last one did not.
        url: of the last answer.
        is_priced: whether all that the answer counts has a known price.
        reports_usage: whether a stream may be asked for its usage.
        report: takes the tokens that have arrived, about.
        data: what has arrived of the last answer.
        dialect: of the answer, where it is a stream.
        problem: why a stream is no answer.
        cost: dollars for what arrived of an answer that broke off; ``usage`` are its tokens.
    """

    rehearsal: bool = False
    sent: bool = False
    unreached: BaseException | None = None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cost: Decimal | None = None
    usage: Usage | None = None
    url: str = ""
    is_priced: bool = True
    reports_usage: bool = True
    report: Callable[[int], None] = lambda _: None
    data: bytearray = field(default_factory=bytearray)
    dialect: Dialect | None = None
    problem: str = ""
    _heard: float = field(default_factory=time.monotonic)
    _reported: float = 0.0
    _tokens: int = 0
    _counted: int = 0  # bytes of whole lines

    @property
    def may_be_billed(self) -> bool:
        """Whether the provider may bill the call: it has not answered with an error."""
        return self.sent and (self.status or 0) < 300

    @contextmanager
    def request(self) -> Iterator[None]:
        before = self.sent
        self.sent = True
        self.status = None
        if self.rehearsal:
            raise RuntimeError("a rehearsal sends nothing")
        try:
            yield
        except Exception as error:
            decisive: BaseException = error
            cause = error.__cause__
            if cause and type(cause).__module__.startswith("aiohttp"):
                decisive = cause
            kinds = [kind.__name__ for kind in type(decisive).__mro__]
            if not _BEFORE_SENDING.isdisjoint(kinds):
                self.sent = before
                self.unreached = decisive
            raise

    @property
    def redirection(self) -> str:
        """Where the last answer redirects to, if it does; no redirection is followed."""
        if not 300 <= (self.status or 0) < 400:
            return ""
        try:
            location = urljoin(self.url, self.headers.get("location", ""))
            target = recorded_address(location)
        except ValueError:
            target = "an address that cannot be read"
        return f"{recorded_address(self.url)} redirects to {target}"

    def note(self, url: str, status: int, headers: Mapping[str, str]) -> None:
        """Note the head of an answer."""
        self.url = url
        self.status = status
        self.headers = headers
        self.data.clear()
        self.dialect = None
        if status < 300 and headers.get("content-type", "").startswith(STREAM_TYPES):
            self.dialect = dialect_at(url)
        self._counted = 0
        self._tokens = 0
        self._heard = time.monotonic()

    def note_part(self, part: bytes) -> None:
        """Note a part of the body, and report what has arrived of a stream."""
        self._heard = time.monotonic()
        self.data += part
        if len(self.data) > MAX_BYTES:
            raise ValueError(f"the answer has more than {MAX_BYTES} bytes")
        if self.dialect is None:
            return
        end = self.data.rfind(b"\n") + 1
        lines = self.data[self._counted : end].decode("utf-8", "replace").split("\n")
        self._counted = max(end, self._counted)
        for line in lines:
            event = parse_json(line.removeprefix("data:"))
            if isinstance(event, dict):
                # Most servers send a token at a time.
                self._tokens += estimate_tokens(self.dialect.arrived_text([event]))
        if self._tokens and self._heard - self._reported > _REPORT_EVERY:
            self._reported = self._heard
            self.report(self._tokens)

    def silence(self, limit: float) -> float:
        """Return the seconds that are left of ``limit`` until there was silence for so long."""
        return self._heard + limit - time.monotonic()

    def describe_silence(self, limit: float) -> str:
        if self._tokens:
            return f"silent for {limit:.0f} s after about {self._tokens} tokens"
        return f"no answer within {limit:.0f} s"

    def arrived_tokens(self, prompt: int, count: Callable[[str], int]) -> Tokens | None:
        """Return the tokens of what arrived of a stream; None where nothing did.

        Most providers report their counts at the end: before it ``prompt`` is that of the request.
        """
        if self.dialect is None:
            return None
        text = self.data.decode("utf-8", "replace")
        events = list(self.dialect.read_events(text))
        if not events:
            return None
        answer = self.dialect.read_answer(self.dialect.merge_events(events))
        tokens = answer.tokens or Tokens(prompt, 0)
        arrived = count(self.dialect.arrived_text(events))
        return replace(tokens, completion=max(tokens.completion, arrived))

    def merge_stream(self) -> bytes:
        """Return the stream that has arrived as the answer that is not streamed."""
        assert self.dialect
        events = self.dialect.read_events(self.data.decode("utf-8", "replace"))
        merged = self.dialect.merge_events(list(events))
        answer = self.dialect.read_answer(merged)
        if answer.error or not answer.complete:
            self.problem = answer.error or _BROKEN
            raise ValueError(self.problem)
        return json.dumps(merged).encode()


def refuses_streams(status: int, body: bytes) -> bool:
    """Return whether a provider refuses a request because it asks for a stream."""
    return status in _REFUSALS and bool(_STREAM.search(body))


_LOOP_LOCK = Lock()


def run_in_loop(coroutine: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
    """Return the result of ``coroutine``, which runs in the loop of calls.

    Raises:
        TimeoutError: it takes longer than ``seconds``.
    """
    import asyncio  # commands that call no model need it not

    limited = asyncio.wait_for(coroutine, seconds)
    future = asyncio.run_coroutine_threadsafe(limited, call_loop())
    try:
        return future.result()
    except TimeoutError as error:  # which says nothing
        raise TimeoutError(str(error) or f"no answer within {seconds} s") from error
    except BaseException:
        future.cancel()
        raise


def call_loop() -> AbstractEventLoop:
    """Return the loop of this process, which keeps the connections to providers."""
    # A cache alone would create a loop for each thread that asks before the first exists.
    with _LOOP_LOCK:
        return _start_loop()


@cache
def _start_loop() -> AbstractEventLoop:
    import asyncio

    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="calls", daemon=True).start()
    return loop


_CURRENT: ContextVar[Wire | None] = ContextVar("wire", default=None)


async def watch(wire: Wire, call: Coroutine[Any, Any, T], limit: float) -> T:
    """Return the result of ``call``, while ``wire`` sees what it sends.

    Raises:
        TimeoutError: nothing has arrived for ``limit`` seconds.
    """
    import asyncio

    _CURRENT.set(wire)
    task = asyncio.ensure_future(call)
    try:
        while not task.done():
            left = wire.silence(limit)
            if left <= 0:
                raise TimeoutError(wire.describe_silence(limit))
            await asyncio.wait({task}, timeout=left)
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def watch_clients() -> None:
    """Make the clients of this process report to the wire of their call, and ask for streams."""
    import httpx

    send = httpx.Client.send
    send_async = httpx.AsyncClient.send
    # The addresses and models that refuse to stream.
    unstreamed: set[tuple[str, str]] = set()

    def seen(self: Any, request: Any, **options: Any) -> httpx.Response:  # noqa: ANN401
        wire = _CURRENT.get() or Wire()
        _stay(request, options)
        with wire.request():
            response = send(self, request, **options)
        wire.note(str(response.url), response.status_code, response.headers)
        return response

    async def seen_async(self: Any, request: Any, **options: Any) -> httpx.Response:  # noqa: ANN401
        wire = _CURRENT.get() or Wire()
        _stay(request, options)
        reads_parts = options.pop("stream", False)
        streamed = None
        if _CURRENT.get() and not reads_parts:
            streamed = _ask_for_stream(request, reports_usage=wire.reports_usage)
        if streamed and _endpoint_of(streamed) in unstreamed:
            streamed = None
        for tried in filter(None, (streamed, request)):
            with wire.request():
                response = await send_async(self, tried, stream=True, **options)
            wire.note(str(response.url), response.status_code, response.headers)
            if reads_parts:
                break
            await _read(response, wire)
            refused = refuses_streams(response.status_code, response.content)
            if tried is request or not refused:
                break
            unstreamed.add(_endpoint_of(tried))
        return response

    httpx.Client.send = seen  # type: ignore[method-assign]
    httpx.AsyncClient.send = seen_async  # type: ignore[method-assign]


def _stay(request: Any, options: dict[str, Any]) -> None:  # noqa: ANN401
    """Send the body and the key of a request to no other address."""
    if request.method == "POST":
        options["follow_redirects"] = False


def _endpoint_of(request: Any) -> tuple[str, str]:  # noqa: ANN401
    """Return the address of a request, and the model that it asks."""
    return str(request.url), text_at(parse_json(request.content), "model")


def _ask_for_stream(request: Any, *, reports_usage: bool) -> Any:  # noqa: ANN401
    """Return the request that asks for a stream, None where the protocol is not known."""
    import httpx

    url = str(request.url)
    dialect = dialect_at(url)
    if not dialect or request.method != "POST":
        return None
    body = parse_json(request.content)
    if not isinstance(body, dict):
        return None
    body = dialect.stream_body(body, reports_usage=reports_usage)
    headers = request.headers.copy()
    del headers["content-length"]
    return httpx.Request(
        "POST",
        dialect.stream_address(url),
        headers=headers,
        content=json.dumps(body).encode(),
        extensions=request.extensions,
    )


async def _read(response: Any, wire: Wire) -> None:  # noqa: ANN401
    import httpx

    try:
        async for part in response.aiter_bytes():
            wire.note_part(part)
    except httpx.HTTPError:
        if wire.dialect:
            wire.problem = _BROKEN
        raise
    finally:
        await response.aclose()
    body = bytes(wire.data)
    if wire.dialect:
        body = wire.merge_stream()
        response.headers["content-type"] = "application/json"
    response._content, wire.is_priced = without_odd_counts(body)
