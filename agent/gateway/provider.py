"""Call the provider of a model for an agent, and pass the answer on as it comes."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp

from agent.gateway.dialects.base import AgentRequest, Json, events_of, loaded
from agent.gateway.upstream import cost_of_tokens, proxy_of, upstream_of
from llm.chat import Reply, RequestRefusedError
from llm.client import LiteLLMModel
from llm.gate import Failed
from llm.provider_errors import TransientError, Wire, translate_error
from llm.registry import load_litellm

STREAM = "text/event-stream"
JSON_TYPE = "application/json"
NO_RETRY = {"x-should-retry": "false"}
_LONGEST_ANSWER = 32 * 2**20
_LONGEST_ERROR = 2**20
_RETURNED_HEADERS = frozenset({"content-type", "request-id", "x-request-id"})
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LONGEST_END = 3  # bytes of an event's end that may have come before the rest


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

    def give(self, item: Piece | None) -> None:
        """Send ``item``; called in any thread."""
        self.started = True
        self.loop.call_soon_threadsafe(self.queue.put_nowait, item)

    def refuse(self, words: str) -> None:
        dialect, headers = self.request.dialect, {**NO_RETRY, "content-type": JSON_TYPE}
        data = json.dumps(dialect.refusal(words)).encode()
        self.give(Piece(data, headers, 400, late=dialect.stream_error(words)))


@dataclass
class Provider:
    """The provider of an attempt's model.

    Attributes:
        answered: whether it has answered before, so that key and model are right.
    """

    model: LiteLLMModel
    client: aiohttp.ClientSession
    answered: bool = False

    async def send(self, channel: Channel, wire: Wire) -> Reply:
        """Return what the provider answered; ``channel`` gets what the agent can get at once."""
        model, dialect, started = self.model, channel.request.dialect, time.monotonic()
        whole, text = await self._passed(channel, wire)
        answer = dialect.read(whole)
        if answer.error or not answer.complete:
            raise self._broken(answer.error or "the answer broke off", channel)
        self.answered = True
        usage, cost = None, None
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

    async def _passed(self, channel: Channel, wire: Wire) -> tuple[Json, str]:
        """Return the answer as an object, and as it came."""
        model, request = self.model, channel.request
        upstream = upstream_of(model.name, model.api_base, request.dialect)
        url, wire.sent = upstream.url(request.path), True
        try:
            async with self.client.post(
                url,
                params=request.query,
                data=request.data,
                headers={
                    **request.headers,
                    "content-type": JSON_TYPE,
                    **upstream.headers,
                },
                timeout=aiohttp.ClientTimeout(total=model.call_timeout),
                allow_redirects=False,
                proxy=proxy_of(url),
            ) as response:
                wire.status, wire.headers = response.status, response.headers
                text = await self._read(response, channel)
        except aiohttp.ClientConnectorError as error:
            raise TransientError(
                Failed(f"cannot connect: {error}", reached=False)
            ) from error
        except (
            aiohttp.ClientError,
            TimeoutError,
            asyncio.TimeoutError,
            OSError,
        ) as error:
            words = str(error) or f"no answer within {model.call_timeout:.0f} s"
            raise self._broken(words, channel) from error
        if response.status != 200:
            # An address that redirects is a wrong one. After an answer key and model are known to
            # be right: it is the request.
            status = response.status if response.status >= 400 else 404
            wire.status = 400 if self.answered and status in (403, 404) else status
            said = RuntimeError(upstream.without_keys(text[:_LONGEST_ERROR]))
            raise translate_error(load_litellm(), model.name, said, wire)
        if response.content_type == STREAM:
            answer = request.dialect.folded([*events_of(text)])
        elif not isinstance(answer := loaded(text), dict):
            raise RequestRefusedError(
                f"{model.name}: the answer is not a JSON object", None
            )
        return answer, text

    def _broken(self, words: str, channel: Channel) -> Exception:
        """Return what an answer that failed means: another try, unless the agent has a part."""
        if channel.started:
            return BrokenStreamError(f"{self.model.name}: {words[:500]}")
        return TransientError(Failed(words[:500], billed=True))

    async def _read(self, response: aiohttp.ClientResponse, channel: Channel) -> str:
        """Read the body, and pass events on until the first on which the agent can act."""
        whole, given, searched = bytearray(), 0, 0
        headers = {
            k: v for k, v in response.headers.items() if k.lower() in _RETURNED_HEADERS
        }
        passing = response.status == 200 and response.content_type == STREAM
        async for chunk in response.content.iter_any():
            whole += chunk
            if len(whole) > _LONGEST_ANSWER:
                raise RequestRefusedError(
                    f"the answer has more than {_LONGEST_ANSWER} bytes", None
                )
            before = given
            while passing and (end := _EVENT_END.search(whole, max(given, searched))):
                event = bytes(whole[given : end.end()]).decode("utf-8", "replace")
                passing = not any(map(channel.request.dialect.acts, events_of(event)))
                given = end.end() if passing else given
            searched = max(0, len(whole) - _LONGEST_END)
            if given > before:
                channel.give(Piece(bytes(whole[before:given]), headers))
        channel.rest = Piece(bytes(whole[given:]), headers)
        return whole.decode("utf-8", "replace")
