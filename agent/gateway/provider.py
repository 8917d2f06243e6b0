"""Call the provider of a model for an agent: as it is, or translated by litellm.

What litellm loses is lost: reasoning tokens and thoughts, cache markers, the order of a text and a
call in one answer (docs/agents.md). Then the provider is asked for a whole answer, which the agent
gets in one burst.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import aiohttp

from agent.gateway.channel import STREAM, Channel, Piece
from agent.gateway.dialects.base import AgentRequest, Answer, Json, events_of
from agent.gateway.upstream import (
    RETURNED_HEADERS,
    cost_of_tokens,
    proxy_of,
    understands,
    upstream_of,
)
from core.address import without_logins
from llm.chat import Reply, RequestRefusedError
from llm.client import LiteLLMModel
from llm.gate import Failed
from llm.provider_errors import TransientError, Wire, meaning, refused_or_failed, watched
from llm.registry import the_litellm

_LONGEST_ANSWER = 32 * 2**20
_LONGEST_ERROR = 2**20
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LONGEST_END = 3  # bytes of an event's end that may have come before the rest


class BrokenStreamError(Exception):
    """An answer broke off, or ended in an error, after the agent had a part of it."""


@dataclass(frozen=True)
class Sent:
    """What the provider answered: the reply, and the bytes that the agent has not got yet."""

    reply: Reply
    rest: bytes
    content_type: str


@dataclass(frozen=True)
class Provider:
    """The provider of an attempt's model.

    Attributes:
        translate: let litellm translate where it speaks another protocol.
        answered: whether it has answered before, so that key and model are right.
    """

    model: LiteLLMModel
    client: aiohttp.ClientSession
    translate: bool
    answered: Callable[[], bool]

    async def send(
        self,
        request: AgentRequest,
        headers: Mapping[str, str],
        query: Mapping[str, str],
        channel: Channel,
    ) -> Sent:
        model, started = self.model, time.monotonic()
        if self.translate and not understands(model.name, model.api_base, request.dialect):
            return await self._send_translated(request)
        upstream = upstream_of(model.name, model.api_base, request.dialect)
        url = upstream.url(request.path)
        try:
            async with self.client.post(
                url,
                params={**query, **request.dialect.query(request)},
                data=request.data,
                headers={**headers, "content-type": "application/json", **upstream.headers},
                timeout=aiohttp.ClientTimeout(total=model.call_timeout),
                allow_redirects=False,
                proxy=proxy_of(url),
            ) as response:
                if response.status != 200:
                    words = (await _read(response)).decode("utf-8", "replace")
                    words = upstream.without_keys(without_logins(words)).replace("\n", " ")
                    status = response.status
                    # After an answer key and model are known to be right: it is the request.
                    bad = self.answered() and status in (403, 404)
                    raise refused_or_failed(
                        model.name,
                        words,
                        400 if bad else status,
                        response.headers,
                        missing=status == 404 and not bad,
                    )
                whole, rest = await self._received(response, request, channel)
                kind = response.content_type
        except aiohttp.ClientConnectorError as error:
            raise TransientError(Failed(f"cannot connect: {error}", reached=False)) from error
        except (aiohttp.ClientError, TimeoutError, asyncio.TimeoutError, OSError) as error:
            words = str(error) or f"no answer within {model.call_timeout:.0f} s"
            raise self._broken(words, channel) from error
        text = whole.decode("utf-8", "replace")
        answer = _read_answer(request, text, streamed=kind == STREAM)
        if answer is None:
            raise RequestRefusedError(f"{model.name}: the answer is not a JSON object", None)
        if answer.error or not answer.complete:
            raise self._broken(answer.error or "the answer broke off", channel)
        reply = self._reply(answer, text, time.monotonic() - started)
        return Sent(reply, rest, kind)

    async def _send_translated(self, request: AgentRequest) -> Sent:
        model, wire, started = self.model, Wire(), time.monotonic()
        try:
            call = watched(wire, translated(model.name, request))
            whole = await asyncio.wait_for(call, model.call_timeout)
        except (TimeoutError, asyncio.TimeoutError) as error:
            why = f"no answer within {model.call_timeout:.0f} s"
            raise TransientError(Failed(why, billed=wire.billed)) from error
        except Exception as error:
            raise meaning(the_litellm(), model.name, error, wire) from error
        data = json.dumps(whole).encode()
        answer = request.dialect.read(whole)
        if request.streamed:
            data = request.dialect.streamed(whole)
        seconds = time.monotonic() - started
        reply = replace(self._reply(answer, data.decode(), seconds), translated=True)
        return Sent(reply, data, STREAM if request.streamed else "application/json")

    def _broken(self, words: str, channel: Channel) -> Exception:
        """Return what an answer that failed means: another try, unless the agent has a part."""
        if channel.started:
            return BrokenStreamError(f"{self.model.name}: {words[:500]}")
        return TransientError(Failed(words[:500], billed=True))

    async def _received(
        self, response: aiohttp.ClientResponse, request: AgentRequest, channel: Channel
    ) -> tuple[bytes, bytes]:
        """Read the body, and pass events on until the first on which the agent can act."""
        whole, given, searched = bytearray(), 0, 0
        passing = response.content_type == STREAM
        async for chunk in response.content.iter_any():
            whole += chunk
            if len(whole) > _LONGEST_ANSWER:
                raise RequestRefusedError(f"the answer has more than {_LONGEST_ANSWER} bytes", None)
            before = given
            while passing and (end := _EVENT_END.search(whole, max(given, searched))):
                event = bytes(whole[given : end.end()]).decode("utf-8", "replace")
                acting = [one for one in events_of(event) if _ends_passing(request, one)]
                passing = not acting
                given = given if acting else end.end()
            searched = max(0, len(whole) - _LONGEST_END)
            if given > before:
                if not channel.started:
                    channel.give(Piece(b"", content_type=STREAM, headers=_returned(response)))
                channel.give(bytes(whole[before:given]))
        return bytes(whole), bytes(whole[given:])

    def _reply(self, answer: Answer, body: str, seconds: float) -> Reply:
        model = self.model
        usage, cost = None, None
        if answer.tokens is None:
            model.warn_once(f"{model.name} reports no usage: its cost counts as unknown, not as 0")
        else:
            usage, cost = cost_of_tokens(model.name, model.price, answer.tokens)
        return Reply(
            content=answer.content,
            truncated=answer.truncated,
            usage=usage,
            cost=cost,
            seconds=round(seconds, 3),
            model=answer.model[:200],
            tool_calls=answer.tool_calls,
            body=body,
        )


def _read_answer(request: AgentRequest, text: str, *, streamed: bool) -> Answer | None:
    dialect = request.dialect
    if streamed:
        return dialect.read(dialect.folded([*events_of(text)]))
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return dialect.read(found) if isinstance(found, dict) else None


def _ends_passing(request: AgentRequest, event: Json) -> bool:
    # An error is passed on with the end, so that a call which failed at once can be repeated.
    return bool(event.get("error")) or request.dialect.acts(event)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    found = bytearray()
    async for chunk in response.content.iter_any():
        found += chunk
        if len(found) > _LONGEST_ERROR:
            break
    return bytes(found)


def _returned(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {k.lower(): v for k, v in response.headers.items() if k.lower() in RETURNED_HEADERS}


# litellm takes addresses and keys as parameters too, and the agent writes the body.
_PARAMETERS = {
    "messages": (
        "messages", "max_tokens", "system", "tools", "tool_choice", "temperature", "top_p", "top_k",
        "stop_sequences", "thinking",
    ),
    "chat": (
        "messages", "max_tokens", "max_completion_tokens", "tools", "tool_choice", "temperature",
        "top_p", "stop", "seed", "reasoning_effort", "parallel_tool_calls", "response_format",
    ),
    "responses": (
        "input", "instructions", "max_output_tokens", "tools", "tool_choice", "temperature",
        "top_p", "reasoning", "parallel_tool_calls", "text",
    ),
    "generateContent": ("contents", "tools"),
}  # fmt: skip


async def translated(name: str, request: AgentRequest) -> Json:
    """Return the provider's answer to ``request`` in its dialect; ``name`` is litellm's."""
    litellm, body = the_litellm(), request.body
    kind = request.dialect.name
    given = {key: body[key] for key in _PARAMETERS[kind] if key in body}
    given |= {"model": name, "drop_params": True, "num_retries": 0, "max_retries": 0}
    answer: Any
    if kind == "messages":
        answer = await litellm.anthropic.messages.acreate(**given, stream=False)
    elif kind == "chat":
        answer = await litellm.acompletion(**given, stream=False, _skip_mcp_handler=True)
    elif kind == "responses":
        answer = await litellm.aresponses(**given, stream=False)
    else:
        config = body.get("generationConfig")
        answer = await litellm.google_genai.agenerate_content(
            **given,
            config=config if isinstance(config, dict) else {},
            systemInstruction=body.get("systemInstruction"),
        )
    plain = answer if isinstance(answer, dict) else answer.model_dump(mode="json")
    found: Json = json.loads(json.dumps(plain, default=str))
    return found
