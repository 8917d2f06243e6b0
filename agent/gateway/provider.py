"""Call the provider of a model for an agent, and pass the answer on as it comes."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import aiohttp

from swe_retry.agent.gateway.upstream import proxy_of, upstream_of
from swe_retry.core.errors import InfrastructureError
from swe_retry.core.jsontypes import JsonObject
from swe_retry.llm.chat import Reply, RequestRefusedError
from swe_retry.llm.client import LiteLLMModel
from swe_retry.llm.dialects.dialect import AgentRequest
from swe_retry.llm.dialects.pieces import events_of, parse_json, redact_answer
from swe_retry.llm.gate import Failed
from swe_retry.llm.prices import cost_of_tokens
from swe_retry.llm.provider_errors import (
    ProviderRefusalError,
    TransientError,
    failure_of,
    translate_error,
)
from swe_retry.llm.registry import load_litellm
from swe_retry.llm.wire import Wire, refuses_streams

STREAM = "text/event-stream"
JSON_TYPE = "application/json"
NO_RETRY = {"x-should-retry": "false"}
_MAX_ERROR = 2**20
_RETURNED_HEADERS = frozenset(
    {
        "content-type",
        "request-id",
        "x-request-id",
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
    }
)
# Of the harness's key and account. Other errors may be caused by a request, and quote it.
_REFUSALS_OF_ALL = frozenset({401, 402, 429})
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_MAX_EVENT_END = 3  # bytes of an event's end that may have come before the rest


class BrokenStreamError(Exception):
    """An answer broke off, or ended in an error, after the agent had a part of it."""


@dataclass(frozen=True)
class Piece:
    """A part of an answer, or all of it.

    Attributes:
        headers: of the answer; their names are in small letters.
        breaks_off: the answer ends here without its end.
    """

    data: bytes
    headers: Mapping[str, str]
    status: int = 200
    breaks_off: bool = False


@dataclass
class Channel:
    """The way of one answer to the agent; None ends it.

    Attributes:
        rest: of it, which the agent has not got yet.
        error: what the provider says of the call, where it failed.
    """

    request: AgentRequest
    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[Piece | None] = field(default_factory=asyncio.Queue)
    started: bool = False
    rest: Piece = Piece(b"", {})
    error: Piece | None = None

    def put(self, item: Piece | None) -> None:
        """Send ``item``; called in any thread."""
        self.started = True
        self.loop.call_soon_threadsafe(self.queue.put_nowait, item)

    def fail(self, message: str, status: int = 400) -> None:
        """Pass on what the provider says of a call that failed; else say ``message``."""
        if self.error:
            self.put(self.error)
        elif self.started:
            self.put(replace(self.rest, breaks_off=True))
        else:
            dialect = self.request.dialect
            headers = {"content-type": JSON_TYPE}
            if status < 500:
                headers |= NO_RETRY
            body = dialect.refusal(message, status)
            self.put(Piece(json.dumps(body).encode(), headers, status))


def pick_values(values: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """Return the values of ``names``, which are in small letters."""
    named = {name.lower(): value for name, value in values.items()}
    return {name: named[name] for name in named.keys() & names}


@dataclass
class Provider:
    """The provider of an attempt's model.

    Attributes:
        has_answered: whether it has answered before, so that key and model are right.
        refuses_streams: whether an answer must not be asked for as a stream unless the agent does.
    """

    model: LiteLLMModel
    client: aiohttp.ClientSession
    has_answered: bool = False
    refuses_streams: bool = False

    async def send(self, channel: Channel, wire: Wire) -> Reply:
        """Return what the provider answered; ``channel`` gets what the agent can get at once."""
        started = time.monotonic()
        body, text = await self._post(channel, wire)
        dialect = channel.request.dialect
        answer = dialect.read_answer(body)
        if answer.error or not answer.complete:
            if dialect.is_error(body):
                status = 200 if channel.request.streamed else 502
                channel.error = replace(channel.rest, status=status)
            raise self._failure(answer.error or "the answer broke off", channel, wire)
        self.has_answered = True
        model = self.model
        # What the agent acts on is what a replay serves.
        rest = channel.rest.data.decode("utf-8", "replace")
        redacted = redact_answer(rest, model.redact)
        if redacted != rest:
            channel.rest = replace(channel.rest, data=redacted.encode())
        usage = None
        cost = None
        if answer.tokens:
            usage, cost = cost_of_tokens(model.name, model.price, answer.tokens)
        return Reply(
            content=answer.content,
            truncated=answer.truncated,
            usage=usage,
            cost=cost,
            seconds=round(time.monotonic() - started, 3),
            model=answer.model[:200],
            tool_calls=answer.tool_calls,
            body=redact_answer(text, model.redact),
        )

    async def _post(self, channel: Channel, wire: Wire) -> tuple[JsonObject, str]:
        """Return the answer as an object, and as the agent gets it.

        The provider streams every answer, so that only silence ends it.
        """
        model = self.model
        channel.error = None
        request = channel.request
        dialect = request.dialect
        upstream = upstream_of(model.name, model.api_base, dialect)
        merges = not (request.streamed or self.refuses_streams)
        path = request.path
        data = request.data
        if merges:
            is_reported = model.endpoint.reports_usage
            body = dialect.stream_body(parse_json(data), reports_usage=is_reported)
            path = dialect.stream_address(path)
            data = json.dumps(body).encode()
        url = upstream.url(path)
        headers = {**request.headers, "content-type": JSON_TYPE, **upstream.headers}
        wire.sent = True
        try:
            async with self.client.post(
                url,
                params=request.query,
                data=data,
                headers=headers,
                timeout=aiohttp.ClientTimeout(
                    sock_connect=model.call_timeout, sock_read=model.call_timeout
                ),
                allow_redirects=False,
                proxy=proxy_of(url),
            ) as response:
                wire.note(url, response.status, response.headers)
                text = await self._read(response, channel, wire)
        except aiohttp.ClientConnectorError as error:
            failure = Failed(f"cannot connect: {error}", reached=False)
            raise TransientError(failure) from error
        except (aiohttp.ClientError, OSError) as error:
            reason = str(error)
            if isinstance(error, TimeoutError):
                reason = wire.describe_silence(model.call_timeout)
            raise self._failure(reason, channel, wire) from error
        if merges and refuses_streams(response.status, text.encode()):
            self.refuses_streams = True
            return await self._post(channel, wire)
        if response.status != 200:
            text = upstream.without_keys(text)
            raise self._refusal(text, response.status, channel, wire)
        if response.content_type == STREAM:
            answer = dialect.merge_events(list(events_of(text)))
            if merges:
                text = json.dumps(answer)
                channel.rest = replace(
                    channel.rest,
                    data=text.encode(),
                    headers={**channel.rest.headers, "content-type": JSON_TYPE},
                )
            return answer, text
        answer = parse_json(text)
        if not isinstance(answer, dict):
            raise self._failure("the answer is not a JSON object", channel, wire)
        return answer, text

    def _refusal(
        self, text: str, status: int, channel: Channel, wire: Wire
    ) -> Exception:
        """Return what an answer with an error means; the agent gets it as it came."""
        if self.has_answered and status in (403, 404):
            # Key and model are known to be right: it is the request.
            wire.status = 400
        if status >= 400:
            channel.error = replace(channel.rest, data=text.encode(), status=status)
        error = RuntimeError(text[:_MAX_ERROR])
        problem = translate_error(load_litellm(), self.model.name, error, wire)
        refuses_all = status in _REFUSALS_OF_ALL or wire.redirection
        if isinstance(problem, ProviderRefusalError) and not refuses_all:
            return InfrastructureError(str(problem))
        return problem

    def _failure(self, problem: str, channel: Channel, wire: Wire) -> Exception:
        """Return what an answer that failed means: another try, unless the agent has a part."""
        request = channel.request
        prompt = 0
        if request.is_text:
            prompt = self.model.count(request.data.decode())
        self.model.price_arrival(wire, prompt)
        if channel.started:
            return BrokenStreamError(f"{self.model.name}: {problem[:500]}")
        return TransientError(replace(failure_of(problem[:500], wire), billed=True))

    async def _read(
        self, response: aiohttp.ClientResponse, channel: Channel, wire: Wire
    ) -> str:
        """Read the body, and pass events on until the first on which the agent can act."""
        dialect = channel.request.dialect
        headers = pick_values(response.headers, _RETURNED_HEADERS)
        data = wire.data
        passed = 0  # bytes that the agent has got
        searched = 0  # bytes in which no event ends behind those
        passing = response.status == 200 and response.content_type == STREAM
        # A limited answer may be cut off, and asked for again.
        passing &= channel.request.streamed and not channel.request.is_limited
        try:
            async for chunk in response.content.iter_any():
                wire.note_part(chunk)
                before = passed
                while passing and (
                    end := _EVENT_END.search(data, max(passed, searched))
                ):
                    event = bytes(data[passed : end.end()]).decode("utf-8", "replace")
                    if any(map(dialect.is_actionable, events_of(event))):
                        passing = False
                    else:
                        passed = end.end()
                searched = max(0, len(data) - _MAX_EVENT_END)
                if passed > before:
                    channel.put(Piece(bytes(data[before:passed]), headers))
        except ValueError as error:
            raise RequestRefusedError(str(error), None) from error
        finally:
            channel.rest = Piece(bytes(data[passed:]), headers)
        return data.decode("utf-8", "replace")
