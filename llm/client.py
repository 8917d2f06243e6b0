"""Call models through litellm, with retries and costs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from core.errors import InfrastructureError
from llm.background import background
from llm.chat import (
    Message,
    Reply,
    Request,
    RequestRefusedError,
    Tool,
    Traits,
    Usage,
    exchange_sha256,
    request_sha256,
)
from llm.gate import Answered, Ask, Failed, Gate, OpenGate, Refused
from llm.openai_format import (
    continuation,
    messages_as_sent,
    prefill,
    tool_calls_of,
    tools_as_sent,
    usage_of,
)
from llm.options import Sampling
from llm.prices import Price, cost_of, most_cost
from llm.provider_errors import RetryPolicy, TransientError, meaning, retrying
from llm.registry import (
    filled,
    is_claude,
    is_ollama,
    place,
    provider_of,
    takes,
    takes_temperature,
    the_litellm,
    traits,
)
from llm.replay import reply_of_json
from llm.settings import ModelSettings
from llm.tokens import count_tokens, size
from llm.wire import Wire, watched

_LONGEST_NAME = 200
_PRIMING = 3
"""Tokens that open every reply (OpenAI's counting guide)."""


@dataclass(frozen=True)
class LiteLLMModel:
    """A model behind a provider, called through litellm.

    Attributes:
        name: litellm's name.
        call_timeout: seconds for one call from request to last byte, without retries.
        max_output_tokens: the limit to send; by default that of ``settings``, or none.
        settings: settings of the model; litellm's map completes them.
        sampling: options of sampling; those that the model does not take are not sent.
        price: the user's price, which overrides litellm's map.
        gate: every request passes it; it records replies and enforces limits.
        warn_once: prints a warning once, such as an unknown price.
    """

    name: str
    temperature: float
    call_timeout: float
    max_output_tokens: int | None = None
    api_base: str | None = None
    settings: ModelSettings = field(default_factory=ModelSettings)
    sampling: Sampling = field(default_factory=Sampling)
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    warn_once: Callable[[str], None] = print
    price: Price | None = None
    gate: Gate = field(default_factory=OpenGate)

    @property
    def traits(self) -> Traits:
        """See ``ChatModel``."""
        return traits(self._known())

    @property
    def sent_temperature(self) -> float | None:
        """The temperature that goes with every request; None where the model takes none."""
        takes = takes_temperature(self._known(), self.name, self.temperature, self.api_base)
        return self.temperature if takes else None

    def count(self, text: str) -> int:
        """See ``ChatModel``."""
        return count_tokens(self.name, text)

    def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Reply:
        """Return the recorded reply, else that of the provider; see ``ChatModel``."""
        return self._answer(messages, tools)

    def complete_text(self, prompt: str) -> Reply:
        """Return the text with which the model continues ``prompt``; see ``complete``.

        It is asked at ``/v1/completions``, where servers stop after 16 tokens if no limit is sent.

        Raises:
            UserError: also if the provider has no plain-text completions.
        """
        return self._answer(prompt, ())

    def _answer(self, request: Request, tools: Sequence[Tool]) -> Reply:
        options = self._options(request)
        ask = self._ask(request, tools, options)
        recorded = self.gate.recorded(ask.request_sha256, ask.exchange_sha256)
        if recorded is not None:
            return recorded
        repeat = retrying(self.retries, self.gate.pause)
        try:
            reply: Reply = repeat(self._call_once, ask, request, tools, options)
        except TransientError as error:
            number = self.retries.attempts
            calls = "1 call" if number == 1 else f"{number} calls"
            raise InfrastructureError(f"{self.name} did not answer in {calls}: {error}") from error
        return replace(reply, exchange_sha256=ask.exchange_sha256)

    def _known(self) -> ModelSettings:
        return filled(self.settings, self.name, self.api_base)

    def _call_once(
        self, ask: Ask, request: Request, tools: Sequence[Tool], options: Mapping[str, Any]
    ) -> Reply:
        """Send the request once, through the gate."""
        ticket, wire = self.gate.begin(ask), Wire()
        try:
            reply = self._send(request, {**self._arguments(request, tools), **options}, wire)
        except TransientError as error:
            error.uses_try = self.gate.end(ticket, error.failure)
            raise
        except RequestRefusedError as error:
            self.gate.end(ticket, Refused(str(error), error.cost))
            raise
        except BaseException as error:
            answered = wire.status is not None
            failed = Failed(str(error), transient=False, billed=wire.billed, reached=answered)
            self.gate.end(ticket, failed)
            raise
        self.gate.end(ticket, Answered(reply))
        return reply

    def rehearse(self) -> None:
        """Prepare a request as ``complete`` does, and do not send it.

        Raises:
            UserError: litellm cannot make one here: a package or credentials are missing.
        """
        wire, ask = Wire(rehearsal=True), [Message("user", "hello")]
        try:
            self._send(ask, {**self._arguments(ask, ()), **self._options(ask)}, wire)
        except Exception as error:
            if not wire.sent and not isinstance(error, TransientError):
                raise

    def _send(self, request: Request, arguments: dict[str, Any], wire: Wire) -> Reply:
        litellm = the_litellm()
        # litellm refuses options of unknown models unless they are allowed here.
        allowed = sorted({"reasoning_effort", "tools", "tool_choice"} & arguments.keys())
        arguments |= {"allowed_openai_params": allowed} if allowed else {}
        started = time.monotonic()
        try:
            call = watched(wire, litellm.acompletion(**arguments))
            response = background().wait(call, self.call_timeout + 1)
            return self._reply(response, prefill(request), time.monotonic() - started)
        except RequestRefusedError:
            raise
        except TimeoutError as error:
            why = f"no answer within {self.call_timeout:.0f} s"
            raise TransientError(Failed(why, billed=wire.billed)) from error
        except Exception as error:
            raise meaning(litellm, self.name, error, wire) from error

    def _ask(self, request: Request, tools: Sequence[Tool], options: Mapping[str, Any]) -> Ask:
        """Return the request for the gate, with the most that it can cost."""
        known = self._known()
        _, provider = provider_of(self.name, self.api_base)
        prompt = size(request, self.count) + _PRIMING
        prompt += self.count(json.dumps(tools_as_sent(tools))) if tools else 0
        output = self.max_output_tokens or known.max_output
        return Ask(
            model=self.name,
            provider=provider,
            request_sha256=request_sha256(request),
            tokens=prompt + (output or 0),
            bound=most_cost(self.name, self.price, prompt, output),
            exchange_sha256=exchange_sha256(self.name, request, options, tools),
        )

    def _arguments(self, request: Request, tools: Sequence[Tool]) -> dict[str, Any]:
        """Return what litellm is told, without the options."""
        known = self._known()
        _, provider = provider_of(self.name, self.api_base)
        markers = bool(known.cache_markers)
        arguments: dict[str, Any] = {
            "messages": messages_as_sent(request, markers=markers, provider=provider),
            # litellm's time-out is per read, and its clients would retry unnoticed.
            "timeout": self.call_timeout,
            "num_retries": 0,
            "max_retries": 0,
            **place(self.name, self.api_base, self.call_timeout, text=isinstance(request, str)),
        }
        if tools:
            if known.tools is None:
                self.warn_once(f"{self.name}: whether it can call functions is unknown: trying")
            arguments |= {"tools": tools_as_sent(tools), "tool_choice": "auto"}
            # litellm would search for MCP servers among the tools, with an optional package.
            arguments["_skip_mcp_handler"] = True
        return arguments

    def _options(self, request: Request) -> dict[str, Any]:
        """Return the options of sampling and length that are sent."""
        known, temperature = self._known(), self.sent_temperature
        options: dict[str, Any] = {}
        if temperature is not None:
            options["temperature"] = temperature
        else:
            self.warn_once(f"{self.name} takes no temperature: none is sent")
        # Plain-text completions have no such option.
        if known.reasoning_effort and not isinstance(request, str):
            options["reasoning_effort"] = known.reasoning_effort
        # litellm's own limit for Claude cuts replies of names that its map lacks.
        fills = known.max_output if is_claude(self.name, self.api_base) else None
        if limit := self.max_output_tokens or self.settings.max_output or fills:
            options["max_tokens"] = limit
        if is_ollama(self.name, self.api_base):
            # Its small default drops the beginning of longer prompts without an error.
            options["num_ctx"] = known.context
        for name, value in self.sampling.as_sent().items():
            if takes(self.name, self.api_base, {name: value}):
                options[name] = value
            else:
                self.warn_once(f"{self.name} takes no {name}: none is sent")
        return options

    def _reply(self, response: Any, prefix: str, seconds: float) -> Reply:  # noqa: ANN401
        choice = response.choices[0] if response.choices else None
        message = choice.message if choice else None
        finish = choice.finish_reason if choice else ""
        content = (message.content if message else None) or ""
        extra = getattr(message, "provider_specific_fields", None) or {}
        usage = usage_of(response)
        cost = self._cost(response, usage)
        if finish == "content_filter" or extra.get("refusal"):
            why = extra.get("refusal") or content[:200]
            raise RequestRefusedError(f"{self.name} refused to answer: {why}", cost)
        reply = Reply(
            content=continuation(prefix, content),
            truncated=finish == "length",
            usage=usage,
            cost=cost,
            seconds=round(seconds, 3),
            model=str(response.model or "")[:_LONGEST_NAME],
            tool_calls=tool_calls_of(message),
        )
        # What a journal gets must be readable when the reply is needed again.
        reply_of_json(json.loads(json.dumps(reply.as_json())))
        return reply

    def _cost(self, response: Any, usage: Usage | None) -> Decimal | None:  # noqa: ANN401
        cost = None if usage is None else cost_of(self.name, self.price, usage, response.usage)
        if cost is None:
            what = "reports no usage" if usage is None else "has no known price"
            self.warn_once(f"{self.name} {what}: its cost counts as unknown, not as 0")
        return cost
