"""Call the provider of a model for an agent, and pass the answer on as it comes."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp

from agent.gateway.dialects.base import AgentRequest, Json, events_of, parse_json
from agent.gateway.upstream import cost_of_tokens, proxy_of, upstream_of
from llm.chat import Reply, RequestRefusedError
from llm.client import LiteLLMModel
from llm.gate import Failed
from llm.provider_errors import TransientError, Wire, translate_error
from llm.registry import load_litellm

STREAM = "text/event-stream"
JSON_TYPE = "application/json"
NO_RETRY = {"x-should-retry": "false"}
_MAX_ANSWER = 32 * 2**20
_MAX_ERROR = 2**20
_RETURNED_HEADERS = frozenset({"content-type", "request-id", "x-request-id"})
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_MAX_EVENT_END = 3  # bytes of an event's end that may have come before the rest


class BrokenStreamError(Exception):
    """An answer broke off, or ended in an error, after the agent had a part of it."""


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
    """The way of one answer to the agent; None ends it.

    Attributes:
        rest: of an answer of the provider, which the agent has not got yet.
    """

    request: AgentRequest
    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[Piece | None] = field(default_factory=asyncio.Queue)
    started: bool = False
    rest: Piece = Piece(b"", {})

    def put(self, item: Piece | None) -> None:
        """Send ``item``; called in any thread."""
        self.started = True
        self.loop.call_soon_threadsafe(self.queue.put_nowait, item)

    def refuse(self, message: str) -> None:
        dialect = self.request.dialect
        piece = Piece(
            data=json.dumps(dialect.refusal(message)).encode(),
            headers={**NO_RETRY, "content-type": JSON_TYPE},
            status=400,
            late=dialect.stream_error(message),
        )
        self.put(piece)


@dataclass
class Provider:
    """The provider of an attempt's model.

    Attributes:
        has_answered: whether it has answered before, so that key and model are right.
    """

    model: LiteLLMModel
    client: aiohttp.ClientSession
    has_answered: bool = False

    async def send(self, channel: Channel, wire: Wire) -> Reply:
        """Return what the provider answered; ``channel`` gets what the agent can get at once."""
        model = self.model
        started = time.monotonic()
        body, text = await self._post(channel, wire)
        answer = channel.request.dialect.read_answer(body)
        if answer.error or not answer.complete:
            raise self._failure(answer.error or "the answer broke off", channel)
        self.has_answered = True
        usage = None
        cost = None
        if answer.tokens is None:
            model.warn_once(
                f"{model.name} reports no usage: its cost counts as unknown, not as 0"
            )
        else:
            usage, cost = cost_of_tokens(model.name, model.price, answer.tokens)
        return Reply(
            content=answer.content,
            truncated=answer.truncated,
            usage=usage,
            cost=cost,
            seconds=round(time.monotonic() - started, 3),
            model=answer.model[:200],
            tool_calls=answer.tool_calls,
            body=text,
        )

    async def _post(self, channel: Channel, wire: Wire) -> tuple[Json, str]:
        """Return the answer as an object, and as it came."""
        model = self.model
        request = channel.request
        upstream = upstream_of(model.name, model.api_base, request.dialect)
        url = upstream.url(request.path)
        headers = {
            **request.headers,
            "content-type": JSON_TYPE,
            **upstream.headers,
        }
        wire.sent = True
        try:
            async with self.client.post(
                url,
                params=request.query,
                data=request.data,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=model.call_timeout),
                allow_redirects=False,
                proxy=proxy_of(url),
            ) as response:
                wire.status = response.status
                wire.headers = response.headers
                text = await self._read(response, channel)
        except aiohttp.ClientConnectorError as error:
            failure = Failed(f"cannot connect: {error}", reached=False)
            raise TransientError(failure) from error
        except (
            aiohttp.ClientError,
            TimeoutError,
            asyncio.TimeoutError,
            OSError,
        ) as error:
            problem = str(error) or f"no answer within {model.call_timeout:.0f} s"
            raise self._failure(problem, channel) from error
        if response.status != 200:
            wire.status = self._error_status(response.status)
            problem = upstream.without_keys(text[:_MAX_ERROR])
            litellm = load_litellm()
            raise translate_error(litellm, model.name, RuntimeError(problem), wire)
        if response.content_type == STREAM:
            return request.dialect.merge_events(list(events_of(text))), text
        answer = parse_json(text)
        if not isinstance(answer, dict):
            problem = f"{model.name}: the answer is not a JSON object"
            raise RequestRefusedError(problem, None)
        return answer, text

    def _error_status(self, status: int) -> int:
        if status < 400:
            # An address that redirects is a wrong one.
            status = 404
        if self.has_answered and status in (403, 404):
            # Key and model are known to be right: it is the request.
            return 400
        return status

    def _failure(self, problem: str, channel: Channel) -> Exception:
        """Return what an answer that failed means: another try, unless the agent has a part."""
        if channel.started:
            return BrokenStreamError(f"{self.model.name}: {problem[:500]}")
        return TransientError(Failed(problem[:500], billed=True))

    async def _read(self, response: aiohttp.ClientResponse, channel: Channel) -> str:
        """Read the body, and pass events on until the first on which the agent can act."""
        dialect = channel.request.dialect
        headers = {}
        for name, value in response.headers.items():
            if name.lower() in _RETURNED_HEADERS:
                headers[name] = value
        data = bytearray()
        passed = 0  # bytes that the agent has got
        searched = 0  # bytes in which no event ends behind those
        passing = response.status == 200 and response.content_type == STREAM
        async for chunk in response.content.iter_any():
            data += chunk
            if len(data) > _MAX_ANSWER:
                problem = f"the answer has more than {_MAX_ANSWER} bytes"
                raise RequestRefusedError(problem, None)
            before = passed
            while passing and (end := _EVENT_END.search(data, max(passed, searched))):
                event = bytes(data[passed : end.end()]).decode("utf-8", "replace")
                if any(map(dialect.is_actionable, events_of(event))):
                    passing = False
                else:
                    passed = end.end()
            searched = max(0, len(data) - _MAX_EVENT_END)
            if passed > before:
                channel.put(Piece(bytes(data[before:passed]), headers))
        channel.rest = Piece(bytes(data[passed:]), headers)
        return data.decode("utf-8", "replace")
