"""The gateway between the coding agent of one attempt and the provider of its model.

It serves HTTP on a socket of its own. Each request passes the attempt's gate as those of the
built-in agent do: recorded answers, budget, rates and retries first, journal and ledger afterwards.
An answer is streamed as it comes, but what the agent can act on is held back until the journal has
the whole answer. A call is finished and paid for also when the agent hangs up.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any

import aiohttp
from aiohttp import web

from agent.gateway.dialects import dialect_of
from agent.gateway.dialects.base import AgentRequest, Dialect, loaded, spoken
from agent.gateway.provider import (
    JSON_TYPE,
    NO_RETRY,
    STREAM,
    BrokenStreamError,
    Channel,
    Piece,
    Provider,
)
from core.errors import InfrastructureError, StoppedError, UserError
from llm.chat import (
    BudgetUsedError,
    Message,
    ReplayExhaustedError,
    Reply,
    RequestRefusedError,
    TimeUsedError,
    canonical_sha256,
)
from llm.client import LiteLLMModel, background
from llm.provider_errors import Wire
from llm.registry import provider_of

GRACE = 10.0
"""Seconds that an agent has to end by itself after its calls are refused for good."""
# Agents and their libraries give up after some minutes of silence.
PING = 10.0
_MOST_AT_ONCE = 64
_MOST_FAILURES = 20
_LONGEST_REQUEST = 64 * 2**20
_PATIENCE = 30.0
# JSON of code has three to four bytes for a token; base64 and other scripts have less than two.
_BYTES_PER_TOKEN = 2
# What an agent says of the protocol; all else, such as its own key, stays here.
_SENT_HEADERS = frozenset(
    {"accept", "anthropic-beta", "anthropic-version", "openai-beta"}
)
_SENT_QUERY = frozenset({"beta"})
_ENDING = (
    BudgetUsedError,
    StoppedError,
    ReplayExhaustedError,
    UserError,
    InfrastructureError,
)


@dataclass
class _Lane:
    """One conversation of an agent: its main one, or that of a sub-agent."""

    tools: list[str]
    spoken: list[list[Any]] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    calls: list[Reply] = field(default_factory=list)


@dataclass(frozen=True)
class Access:
    """What an agent may do through the gateway.

    Attributes:
        apis: the protocols in which it calls its model.
        most_calls: of an attempt; None for no limit.
        allow_web: keep tools that the provider runs, such as a search of the web.
    """

    apis: tuple[str, ...]
    most_calls: int | None = None
    allow_web: bool = False


@dataclass
class Gateway:
    """A context manager that serves the agent of one attempt.

    Attributes:
        model: the attempt's; its gate, address, price and limits hold for each call.
        socket: a path to serve at; None for a port of the loopback address.
        admitted: calls that the attempt has made, those before included.
        first_lane: the number of its first conversation in the attempt.
        drift: answers that were served by the turn key, because the request had changed.
        removed: tools and parameters that were taken out of requests, and how often.
        problem: why the agent's calls are refused for good.
    """

    model: LiteLLMModel
    access: Access
    socket: Path | None = None
    admitted: int = 0
    first_lane: int = 0
    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    port: int = 0
    drift: int = 0
    removed: Counter[str] = field(default_factory=Counter)
    problem: Exception | None = None
    _closing: bool = False
    _ended_at: float = 0.0
    _failures: int = 0
    _lanes: list[_Lane] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def __enter__(self) -> Gateway:
        self._threads = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="gateway")
        try:
            background().wait(self._start(), _PATIENCE)
        except BaseException:
            self._threads.shutdown()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # Calls that were sent are finished, so that their costs are known; no other begins.
        self._closing = True
        self._threads.shutdown(wait=True)
        background().wait(self._stop(), _PATIENCE)

    def overdue(self) -> bool:
        """Return whether the agent must be killed: its calls are refused, and it goes on."""
        try:
            self.model.gate.pause(0)
        except StoppedError as error:  # also of a run whose agent makes no calls
            self._end(error)
        return self.problem is not None and time.monotonic() - self._ended_at > GRACE

    @property
    def presented(self) -> str:
        """The name by which the agent must ask for its model: without litellm's provider."""
        try:
            return provider_of(self.model.name, self.model.api_base)[0]
        except (
            Exception
        ):  # litellm's, for a replay of a name that only an own server knew
            return self.model.name

    @property
    def messages(self) -> list[Message]:
        """The conversations, that of each sub-agent after those that began before it."""
        lanes = enumerate(self._lanes, self.first_lane)
        return [
            replace(message, lane=n) for n, lane in lanes for message in lane.messages
        ]

    @property
    def calls(self) -> list[Reply]:
        """The answered calls, in the order of ``messages``."""
        return [call for lane in self._lanes for call in lane.calls]

    async def _start(self) -> None:
        self._client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self._provider = Provider(self.model, self._client)
        application = web.Application(client_max_size=_LONGEST_REQUEST)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        if self.socket is not None:
            # The path of a socket has at most 107 bytes, and that of a descriptor is short.
            folder = os.open(self.socket.parent, os.O_PATH)
            try:
                place = f"/proc/self/fd/{folder}/{self.socket.name}"
                await web.UnixSite(self._runner, place).start()
            finally:
                os.close(folder)
            return
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        await self._runner.cleanup()
        await self._client.close()

    def _end(self, problem: Exception) -> None:
        with self._lock:
            if self.problem is None and not self._closing:
                self.problem, self._ended_at = problem, time.monotonic()

    def _check(self) -> None:
        if self.problem is not None:
            raise self.problem
        if self._closing:
            raise StoppedError("the agent has ended")

    async def _handle(self, asked: web.Request) -> web.StreamResponse:
        if asked.path == "/" and asked.method in ("HEAD", "GET"):
            return web.Response()  # Claude Code looks whether there is a server
        dialect = dialect_of(asked.path)
        try:
            data = await asked.read()
        except web.HTTPRequestEntityTooLarge:
            return self._refused(dialect, "the request is too large", 413)
        if _token_of(asked) != self.token:
            # Any program of this machine can reach a port, but only the agent the socket.
            words, known = (
                "this is not the token of the attempt",
                self.socket is not None,
            )
            return self._refused(dialect, words, counted=known)
        if asked.path.endswith(("/count_tokens", ":countTokens")):
            count = len(data) // _BYTES_PER_TOKEN
            return web.json_response({"input_tokens": count, "totalTokens": count})
        if (
            dialect is None
            or dialect.api not in self.access.apis
            or asked.method != "POST"
        ):
            return self._refused(
                dialect, f"{asked.method} {asked.path} is not served here", 404
            )
        if not isinstance(body := loaded(data), dict):
            return self._refused(dialect, "the request is not a JSON object")
        if (name := dialect.model(asked.path, body)) != self.presented:
            words = f"this attempt may call {self.presented} alone, not {name[:100]!r}"
            return self._refused(dialect, words)
        # The name without litellm's provider is what the provider knows too.
        request = replace(
            dialect.prepared(
                asked.path, body, self.presented, web=self.access.allow_web
            ),
            headers={
                k.lower(): v
                for k, v in asked.headers.items()
                if k.lower() in _SENT_HEADERS
            },
            query={
                key: value for key, value in asked.query.items() if key in _SENT_QUERY
            },
        )
        channel = Channel(request, asyncio.get_running_loop())
        channel.loop.run_in_executor(self._threads, self._serve, channel)
        return await respond(asked, channel)

    def _refused(
        self,
        dialect: Dialect | None,
        words: str,
        status: int = 400,
        *,
        counted: bool = True,
    ) -> web.Response:
        if counted:
            self._failed(words)
        body = dialect.refusal(words) if dialect else {"error": {"message": words}}
        return web.json_response(body, status=status, headers=NO_RETRY)

    def _serve(self, channel: Channel) -> None:
        """Answer one request; in a thread of its own."""
        try:
            self._answer(channel)
        except (RequestRefusedError, BrokenStreamError, RecursionError) as error:
            self._failed(str(error))
            channel.refuse(str(error))
        except _ENDING as error:
            self._end(error)
            channel.refuse(str(error))
        except Exception as error:
            problem = InfrastructureError(f"the gateway failed: {error!r}")
            problem.__cause__ = error
            self._end(problem)
            channel.refuse("the gateway failed")
        finally:
            channel.give(None)

    def _failed(self, words: str) -> None:
        """Count a request that failed: an agent that repeats it for ever is ended."""
        with self._lock:
            self._failures += 1
        if self._failures >= _MOST_FAILURES:
            self._end(
                InfrastructureError(
                    f"{_MOST_FAILURES} requests failed in turn: {words}"
                )
            )

    def _answer(self, channel: Channel) -> None:
        request, model = channel.request, self.model
        exact, turn = exact_key(request), turn_key(request, model.name)
        with self._lock:
            self.removed.update(request.removed)
            self._check()
            most = self.access.most_calls
            if most is not None and self.admitted >= most:
                raise TimeUsedError(
                    "agent.max_calls: all calls of this attempt are made"
                )
            self.admitted += 1
            if (reply := model.gate.recorded(turn, exact)) is None:
                reply = model.gate.recorded(turn)
                self.drift += reply is not None
        if reply is not None and reply.body:
            data = reply.body.encode("utf-8", "replace")
            kind = JSON_TYPE if data.lstrip()[:1] == b"{" else STREAM
            channel.rest = Piece(data, {"content-type": kind})
        else:
            dialect, prompt = request.dialect, len(request.data) // _BYTES_PER_TOKEN
            limit, answers = (
                dialect.output_limit(request.body),
                dialect.answers(request.body),
            )
            ask = model.plan_call(turn, exact, prompt, limit, answers)
            reply = model.send_with_retries(
                ask, lambda wire: self._send(channel, wire), self._pause
            )
        self._note(request, turn, reply)
        channel.give(channel.rest)

    def _pause(self, seconds: float) -> None:
        self._check()
        self.model.gate.pause(seconds)

    def _send(self, channel: Channel, wire: Wire) -> Reply:
        self._check()  # it may have waited for long
        limit = self.model.call_timeout + _PATIENCE
        return background().wait(self._provider.send(channel, wire), limit)

    def _note(self, request: AgentRequest, turn: str, reply: Reply) -> None:
        said = Message("assistant", reply.content, reply.tool_calls)
        before = (request.tools, request.spoken)
        with self._lock:
            self._failures = 0
            same = (one for one in self._lanes if (one.tools, one.spoken) == before)
            # One without answers is new: sub-agents may have equal tasks.
            lane = next(same, None) if request.spoken else None
            if lane is None:
                lane = _Lane(request.tools)
                self._lanes.append(lane)
            lane.spoken = [*request.spoken, spoken(said)]
            lane.messages = [*request.conversation, said]
            lane.calls.append(replace(reply, request_sha256=turn))


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


def _token_of(asked: web.Request) -> str:
    bearer = asked.headers.get("authorization", "").removeprefix("Bearer ")
    named = (asked.headers.get(name, "") for name in ("x-api-key", "x-goog-api-key"))
    return next(filter(None, (*named, asked.query.get("key", ""), bearer)), "")


# Ids of a session, of a device, of a cache, and of items: they name, and say nothing.
_NAMES_ONLY = frozenset(
    {
        "metadata",
        "user",
        "prompt_cache_key",
        "safety_identifier",
        "client_metadata",
        "session_id",
    }
)
# What differs in each run, and its name. Few texts have any of it, and the first pattern, which
# begins with plain texts, is looked for much faster.
_PERHAPS_CHANGING = re.compile(
    r"-[0-9a-fA-F]{4}-|-\d{2}-\d{2}|day, [A-Z]|_1|Chunk ID: |Wall time: "
)
_CHANGING = re.compile(
    r"(?P<UUID>[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12})"
    r"|\b(?P<DATE>\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?Z?)?"
    r"|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, [A-Z][a-z]+ \d{1,2}, \d{4})"
    r"|(?<=_)(?P<MILLISECONDS>1\d{12})(?=_|\b)"
    r"|(?<=Chunk ID: )(?P<ID>\w+)|(?<=Wall time: )(?P<SECONDS>[\d.]+)"
)
_NUMBER = re.compile(r"\d+")


def exact_key(request: AgentRequest) -> str:
    """Return the hash of what is asked, without ids and times that differ in each run."""
    return canonical_sha256([request.path, _plain(request.body)])


def turn_key(request: AgentRequest, model: str) -> str:
    """Return the hash of dialect, model, tools, kind of answer, task, and what the model said.

    The task is the first message of the user, without numbers: it tells sub-agents apart.
    """
    task = next((m.content for m in request.conversation if m.role == "user"), "")
    parts = [request.dialect.name, model, request.streamed, request.tools]
    return canonical_sha256([*parts, _NUMBER.sub("0", _plain(task)), request.spoken])


def _plain(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        ids = {"id"} if "type" in value and "role" not in value else set()
        return {k: _plain(v) for k, v in value.items() if k not in _NAMES_ONLY | ids}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str) and _PERHAPS_CHANGING.search(value):
        return _CHANGING.sub(lambda found: found.lastgroup or "", value)
    return value
