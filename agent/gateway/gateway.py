"""The gateway between the coding agent of one attempt and the provider of its model.

It serves HTTP on a socket of its own. Each request passes the attempt's gate as those of the
built-in agent do: recorded answers, budget, rates and retries first, journal and ledger afterwards.
An answer is streamed as it comes, but what the agent can act on is held back until the journal has
the whole answer. A call is finished and paid for also when the agent hangs up.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Lock

import aiohttp
from aiohttp import web

from swe_retry.agent.agentsettings import AgentSettings
from swe_retry.agent.gateway.lanes import Lanes
from swe_retry.agent.gateway.provider import (
    JSON_TYPE,
    NO_RETRY,
    STREAM,
    BrokenStreamError,
    Channel,
    Piece,
    Provider,
    pick_values,
)
from swe_retry.agent.gateway.turns import turn_key, without_ids
from swe_retry.core.errors import InfrastructureError, StoppedError, UserError
from swe_retry.core.jsontypes import JsonObject
from swe_retry.core.plaintext import abbreviate
from swe_retry.core.untrusted import MIB
from swe_retry.llm.chat import (
    AttemptLimitError,
    BudgetUsedError,
    Message,
    ReplayExhaustedError,
    Reply,
    RequestRefusedError,
    canonical_sha256,
)
from swe_retry.llm.client import LiteLLMModel
from swe_retry.llm.dialects import dialect_of
from swe_retry.llm.dialects.dialect import AgentRequest, Dialect
from swe_retry.llm.dialects.pieces import parse_json
from swe_retry.llm.provider_errors import TransientError
from swe_retry.llm.tokens import token_bound
from swe_retry.llm.wire import Wire, run_in_loop

GRACE = 10.0
"""Seconds that an agent has to end by itself after its calls are refused for good."""
# Agents and their libraries give up after some minutes of silence.
PING = 10.0
_MAX_CONCURRENT = 64
_MAX_FAILURES = 20
# Of an attempt. Parsed, requests take many times their size.
_MAX_CONNECTIONS = 256
_MAX_IN_FLIGHT = 64 * MIB
_PATIENCE = 30.0
# Of a limit that cut an answer off; servers may not count the last tokens.
_SHARE_OF_LIMIT = 0.9
# JSON of code has three to four bytes for a token; base64 and other scripts have less than two.
_BYTES_PER_TOKEN = 2
# OpenAI's newer models take no other.
_OPENAI_LIMIT_KEY = "max_completion_tokens"
_WIDEST_WINDOW = 2_000_000
# An agent's wish for a wider window than litellm's map knows.
_WIDER = "context-1m"
# How much dearer it is to write a cache for an hour than for five minutes.
_HOUR = 1.6
# What an agent says of the protocol; all else, such as its own key, stays here.
_SENT_HEADERS = frozenset(
    {"accept", "anthropic-beta", "anthropic-version", "openai-beta"}
)
_SENT_QUERY = frozenset({"beta"})
_FINAL_ERRORS = (
    BudgetUsedError,
    StoppedError,
    ReplayExhaustedError,
    UserError,
    InfrastructureError,
)


@dataclass
class Gateway:
    """A context manager that serves the agent of one attempt.

    Attributes:
        model: the attempt's; its gate, address, price and limits hold for each call.
        settings: what the agent may do, and in which protocols it calls its model.
        socket: a path to serve at; None for a port of the loopback address.
        call_count: calls that the attempt has made, those before included.
        first_lane: the number of its first conversation in the attempt.
        note_call: called when the agent asks its model.
        drift: answers that were served by the turn key, because the request had changed.
        removed: tools and parameters that were taken out of requests, and how often.
        problem: why the agent's calls are refused for good.
        failed_try: why the provider did not answer; None once it has answered again.
        bytes_in_flight: of the bodies of requests that are being read or answered.
    """

    model: LiteLLMModel
    settings: AgentSettings
    socket: Path | None = None
    call_count: int = 0
    first_lane: int = 0
    note_call: Callable[[], None] = lambda: None
    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    port: int = 0
    drift: int = 0
    removed: Counter[str] = field(default_factory=Counter)
    problem: Exception | None = None
    failed_try: Exception | None = None
    bytes_in_flight: int = 0
    _closing: bool = False
    _refused_since: float = 0.0
    _failures: int = 0
    _unanswered: Exception | None = None
    _lanes: Lanes = field(default_factory=Lanes)
    _lock: Lock = field(default_factory=Lock)
    _parsing: Lock = field(default_factory=Lock)

    def __enter__(self) -> Gateway:
        self._threads = ThreadPoolExecutor(
            _MAX_CONCURRENT, thread_name_prefix="gateway"
        )
        try:
            run_in_loop(self._start(), _PATIENCE)
        except BaseException:
            self._threads.shutdown()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # Calls that were sent are finished, so that their costs are known; no other begins.
        self._closing = True
        self._threads.shutdown(wait=True)
        run_in_loop(self._stop(), _PATIENCE)
        self.problem = self.problem or self._unanswered

    def overdue(self) -> bool:
        """Return whether the agent must be killed: its calls are refused, and it goes on."""
        try:
            self.model.gate.pause(0)
        except StoppedError as error:  # also of a run whose agent makes no calls
            self._refuse_calls(error)
        if not self.problem:
            return False
        return time.monotonic() - self._refused_since > GRACE

    @property
    def model_name(self) -> str:
        """The name by which the agent must ask for its model: without litellm's provider."""
        try:
            return self.model.endpoint.bare_name
        except Exception:
            # Of litellm, for a replay of a name that only an own server knew.
            return self.model.name

    @property
    def messages(self) -> list[Message]:
        """The conversations, that of each sub-agent after those that began before it."""
        return self._lanes.messages(self.first_lane)

    @property
    def calls(self) -> list[Reply]:
        """The answered calls, in the order of ``messages``."""
        calls = []
        for lane in self._lanes.lanes:
            calls += lane.calls
        return calls

    async def _start(self) -> None:
        # Without a handler Python writes to the terminal.
        logging.getLogger("aiohttp").handlers = [logging.NullHandler()]
        self._client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self._provider = Provider(self.model, self._client)
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        if not self.socket:
            self._server = await loop.create_server(self._accept, "127.0.0.1", 0)
            self.port = self._server.sockets[0].getsockname()[1]
            return
        # The path of a socket has at most 107 bytes, and that of a descriptor is short.
        folder = os.open(self.socket.parent, os.O_PATH)
        try:
            path = f"/proc/self/fd/{folder}/{self.socket.name}"
            self._server = await loop.create_unix_server(self._accept, path)
        finally:
            os.close(folder)

    async def _stop(self) -> None:
        self._server.close()
        await self._runner.cleanup()
        await self._client.close()

    def _accept(self) -> asyncio.Protocol:
        """Return what serves the next connection."""
        server = self._runner.server
        assert server
        if len(server.connections) < _MAX_CONNECTIONS:
            return server()
        return _Full()

    def _refuse_calls(self, problem: Exception) -> None:
        with self._lock:
            if not self.problem and not self._closing:
                # First the time, as ``overdue`` reads it once there is a problem.
                self._refused_since = time.monotonic()
                self.problem = problem

    def _check_open(self) -> None:
        if self.problem:
            raise self.problem
        if self._closing:
            raise StoppedError("the agent has ended")

    async def _handle(self, http_request: web.Request) -> web.StreamResponse:
        path = http_request.path
        method = http_request.method
        if path == "/" and method in ("HEAD", "GET"):
            return web.Response()  # Claude Code looks whether there is a server
        dialect = dialect_of(path)
        if _token_of(http_request) != self.token:
            # Any program of this machine can reach a port, but only the agent the socket.
            from_agent = self.socket is not None
            message = "this is not the token of the attempt"
            return self._refuse(dialect, message, counted=from_agent)
        if self.problem:
            return self._refuse(dialect, str(self.problem))
        data = bytearray()
        try:
            async for chunk in http_request.content.iter_any():
                data += chunk
                self.bytes_in_flight += len(chunk)
                if len(data) > self.settings.max_request * MIB:
                    size = f"{self.settings.max_request} MiB"
                    message = f"agent.max_request: a request has more than {size}"
                    self._refuse_calls(AttemptLimitError(message))
                    return self._refuse(dialect, message, 413)
                if self.bytes_in_flight > _MAX_IN_FLIGHT:
                    message = "the requests of this attempt are too large together"
                    return self._refuse(dialect, message, 503)
            return await self._handle_body(http_request, dialect, data)
        except (RequestRefusedError, RecursionError) as error:
            return self._refuse(dialect, str(error))
        finally:
            self.bytes_in_flight -= len(data)

    async def _handle_body(
        self, http_request: web.Request, dialect: Dialect | None, data: bytearray
    ) -> web.StreamResponse:
        path = http_request.path
        method = http_request.method
        if path.endswith(("/count_tokens", ":countTokens")):
            count = len(data) // _BYTES_PER_TOKEN
            return web.json_response({"input_tokens": count, "totalTokens": count})
        apis = self.settings.api
        if not dialect or dialect.api not in apis or method != "POST":
            return self._refuse(dialect, f"{method} {path} is not served here", 404)
        # The loop serves all attempts, and a large body takes seconds.
        loop = asyncio.get_running_loop()
        request = await loop.run_in_executor(
            self._threads, self._read_request, dialect, path, data
        )
        request = replace(
            request,
            headers=pick_values(http_request.headers, _SENT_HEADERS),
            query=pick_values(http_request.query, _SENT_QUERY),
        )
        channel = Channel(request, loop)
        loop.run_in_executor(self._threads, self._serve, channel)
        return await respond(http_request, channel)

    def _read_request(
        self, dialect: Dialect, path: str, data: bytearray
    ) -> AgentRequest:
        # Each parser holds the interpreter, and all threads wait for it.
        with self._parsing:
            body = parse_json(data)
            if not isinstance(body, dict):
                raise RequestRefusedError("the request is not a JSON object")
            name = dialect.model(path, body)
            if name != self.model_name:
                raise RequestRefusedError(
                    f"this attempt may call {self.model_name} alone, not {name[:100]!r}"
                )
            limit_key = ""
            model = self.model
            if not model.api_base and model.endpoint.provider == "openai":
                limit_key = _OPENAI_LIMIT_KEY
            # The name without litellm's provider is what the provider knows too.
            request = dialect.prepare_request(
                path,
                body,
                name,
                web=self.settings.allow_web,
                own=bool(model.api_base),
                limit_key=limit_key,
            )
            own_limit = request.own_limit or model.all_settings.max_output or 0
            limits = filter(None, (own_limit, self.settings.max_output))
            request = replace(request, own_limit=own_limit, redact=model.redact)
            return request.with_limit(min(limits))

    def _refuse(
        self,
        dialect: Dialect | None,
        message: str,
        status: int = 400,
        *,
        counted: bool = True,
    ) -> web.Response:
        if counted:
            self._count_failure(message)
        body: JsonObject = {"error": {"message": message}}
        if dialect:
            body = dialect.refusal(message, status)
        headers = NO_RETRY if status < 500 else {}
        return web.json_response(body, status=status, headers=headers)

    def _serve(self, channel: Channel) -> None:
        """Answer one request; in a thread of its own."""
        try:
            self.note_call()
            self._answer(channel)
        except (RequestRefusedError, BrokenStreamError, RecursionError) as error:
            self._count_failure(str(error))
            channel.fail(str(error))
        except _FINAL_ERRORS as error:
            status = 400
            if isinstance(error.__cause__, TransientError):
                # The agent may be more patient.
                self._unanswered = error
                self._count_failure(str(error))
                status = 502
            else:
                self._refuse_calls(error)
            channel.fail(str(error), status)
        except Exception as error:
            problem = InfrastructureError(f"the gateway failed: {error!r}")
            problem.__cause__ = error
            self._refuse_calls(problem)
            channel.fail("the gateway failed")
        finally:
            channel.put(None)

    def _count_failure(self, message: str) -> None:
        """Count a request that failed: an agent that repeats it for ever is ended."""
        with self._lock:
            self._failures += 1
        if self._failures >= _MAX_FAILURES:
            problem = f"{_MAX_FAILURES} requests failed in turn: {message}"
            self._refuse_calls(InfrastructureError(problem))

    def _answer(self, channel: Channel) -> None:
        request = channel.request
        with self._parsing:
            turn = turn_key(request, self.model.name)
        with self._lock:
            for name in request.removed:
                self.removed[abbreviate(name, 100)] += 1
            self._check_open()
            max_calls = self.settings.max_calls
            if max_calls is not None and self.call_count >= max_calls:
                raise AttemptLimitError(
                    "agent.max_calls: all calls of this attempt are made"
                )
            self._lanes.keep(request.conversation)
            if self._lanes.size > self.settings.max_record * MIB:
                size = f"{self.settings.max_record} MiB"
                raise AttemptLimitError(
                    f"agent.max_record: the record of this attempt has more than {size}"
                )
            self.call_count += 1
        reply = self._ask(channel, turn)
        if reply.truncated and request.is_limited and _fills(reply, request.limit):
            self._record_answer(request, turn, reply, is_used=False)
            channel.request = request.with_limit(request.own_limit)
            reply = self._ask(channel, turn)
        self._record_answer(request, turn, reply)
        channel.put(channel.rest)

    def _ask(self, channel: Channel, turn: str) -> Reply:
        """Return the recorded answer, or that of the provider."""
        request = channel.request
        gate = self.model.gate
        # Without ids and times, which differ in each run.
        body = without_ids(request.recorded_body)
        exact = canonical_sha256([request.path, body, request.limit])
        with self._lock:
            reply = gate.recorded_reply(turn, exact)
            if not reply:
                reply = gate.recorded_reply(turn)
                self.drift += reply is not None
        if reply and reply.body:
            data = reply.body.encode("utf-8", "replace")
            kind = JSON_TYPE if data.lstrip()[:1] == b"{" else STREAM
            channel.rest = Piece(data, {"content-type": kind})
            return reply
        window = self.model.traits.context
        if _WIDER in request.headers.get("anthropic-beta", ""):
            window = _WIDEST_WINDOW
        prompt = token_bound(self.model.name, request.data.decode())
        if not request.is_text:
            # The bytes of a picture or of a document tell nothing of its tokens.
            prompt = max(prompt, window or _WIDEST_WINDOW)
        if b'"ttl": "1h"' in request.data:  # quotes in texts are escaped
            prompt = math.ceil(prompt * _HOUR)
            window = window and math.ceil(window * _HOUR)
        call = self.model.plan_call(turn, exact, prompt, request.limit, window)
        send = partial(self._send, channel)
        return self.model.send_with_retries(call, send, self._pause)

    def _pause(self, seconds: float, problem: str) -> None:
        self._check_open()
        self.model.gate.pause(seconds, problem)

    def _send(self, channel: Channel, wire: Wire) -> Reply:
        self._check_open()  # it may have waited for long
        try:
            return run_in_loop(self._provider.send(channel, wire))
        except TransientError as error:
            self.failed_try = InfrastructureError(
                f"{self.model.name} did not answer: {error}"
            )
            raise

    def _record_answer(
        self, request: AgentRequest, turn: str, reply: Reply, *, is_used: bool = True
    ) -> None:
        """Keep an answer and its cost."""
        answer = request.dialect.read_text(reply.body)
        message = Message(
            "assistant", reply.content, reply.tool_calls, reasoning=answer.reasoning
        )
        call = replace(reply, request_sha256=turn)
        with self._lock:
            if not is_used:
                # The agent does not get it, so it stands alone.
                self._lanes.add((), message, call)
                return
            self._failures = 0
            self._unanswered = None
            self.failed_try = None
            self._lanes.add(request.conversation, message, call)


def _fills(reply: Reply, limit: int) -> bool:
    """Return whether ``limit`` may have cut an answer off, and not the model's window before."""
    if reply.usage is None:
        return True
    return (reply.usage.completion_tokens or 0) >= limit * _SHARE_OF_LIMIT


class _Full(asyncio.Protocol):
    """Closes a connection that is more than an attempt may have."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


async def respond(http_request: web.Request, channel: Channel) -> web.StreamResponse:
    """Pass the answer on as it comes; in a stream, say that it is still waited for."""
    response: web.StreamResponse | None = None
    dialect = channel.request.dialect
    ping = Piece(dialect.ping, {"content-type": STREAM})
    wait = PING if channel.request.streamed else None
    try:
        while True:
            try:
                piece = await asyncio.wait_for(channel.queue.get(), wait)
            except TimeoutError:
                piece = ping
            if not piece:
                break
            data = piece.data
            if response is None:
                response = web.StreamResponse(
                    status=piece.status, headers=piece.headers
                )
                await response.prepare(http_request)
            elif not piece.headers.get("content-type", "").startswith(STREAM):
                data = dialect.error_event(data)
            await response.write(data)
            if piece.breaks_off and http_request.transport:
                http_request.transport.close()
        assert response is not None
        await response.write_eof()
    except OSError:  # the agent has hung up; the call goes on without it
        pass
    return response or web.Response(status=500)


def _token_of(http_request: web.Request) -> str:
    headers = http_request.headers
    return (
        headers.get("x-api-key")
        or headers.get("x-goog-api-key")
        or http_request.query.get("key")
        or headers.get("authorization", "").removeprefix("Bearer ")
    )
