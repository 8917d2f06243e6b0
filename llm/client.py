"""Call models through litellm, with retries and costs."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from core.address import basic_auth
from core.errors import InfrastructureError
from core.money import dollars
from llm.background import background
from llm.chat import (
    Message,
    Reply,
    RequestRefusedError,
    Tool,
    Traits,
    Usage,
    request_sha256,
)
from llm.gate import Answered, Ask, Failed, Gate, OpenGate, Refused
from llm.openai_format import continuation, messages_as_sent, prefill, tool_calls_of, tools_as_sent
from llm.prices import Price, dearest_price
from llm.provider_errors import TransientError, meaning
from llm.registry import filled, price_entry, provider_of, takes_temperature, the_litellm, traits
from llm.settings import ModelSettings
from llm.tokens import count_tokens, size

if TYPE_CHECKING:
    import tenacity

_NO_KEY = "no-key-needed"
_PRIMING = 3
"""Tokens that open every reply (OpenAI's counting guide)."""
# Token counts are estimates where a provider publishes no tokenizer.
_MARGIN = 1.1


@dataclass(frozen=True)
class RetryPolicy:
    """Limits of retries after transient errors; waits in seconds, doubling, with jitter."""

    attempts: int = 6
    first_wait: float = 2.0
    longest_wait: float = 60.0


@dataclass(frozen=True)
class LiteLLMModel:
    """A model behind a provider, called through litellm.

    Attributes:
        name: litellm's name.
        call_timeout: seconds for one call from request to last byte, without retries.
        max_output_tokens: the limit to send; by default that of ``settings``, or none.
        settings: settings of the model; litellm's map completes them.
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
        policy = self.retries
        recorded = self.gate.recorded(request_sha256(messages))
        if recorded is not None:
            return recorded
        try:
            return _retrying(policy, self.gate.pause)(self._call_once, messages, tools)
        except TransientError as error:
            raise InfrastructureError(
                f"{self.name} did not answer in {_calls(policy.attempts)}: {error}"
            ) from error

    def _known(self) -> ModelSettings:
        return filled(self.settings, self.name, self.api_base)

    def _call_once(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Reply:
        """Send the request once, through the gate."""
        ticket = self.gate.begin(self._ask(messages, tools))
        try:
            reply = self._send(messages, tools)
        except TransientError as error:
            error.uses_try = self.gate.end(ticket, error.failure)
            raise
        except RequestRefusedError as error:
            self.gate.end(ticket, Refused(str(error), error.cost))
            raise
        except BaseException as error:
            self.gate.end(ticket, Failed(str(error), transient=False))
            raise
        self.gate.end(ticket, Answered(reply))
        return reply

    def _send(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Reply:
        litellm = the_litellm()
        arguments = self._arguments(messages, tools)
        started = time.monotonic()
        try:
            response = background().wait(litellm.acompletion(**arguments), self.call_timeout + 1)
        except TimeoutError as error:
            why = f"no answer within {self.call_timeout:.0f} s"
            raise TransientError(Failed(why, billed=True)) from error
        except Exception as error:
            raise meaning(litellm, self.name, error) from error
        return self._reply(response, prefill(messages), time.monotonic() - started)

    def _ask(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Ask:
        """Return the request for the gate, with the most that it can cost."""
        known = self._known()
        _, provider = provider_of(self.name, self.api_base)
        prompt = size(messages, self.count) + _PRIMING
        prompt += self.count(json.dumps(tools_as_sent(tools))) if tools else 0
        output = self.max_output_tokens or known.max_output
        price = self.price or dearest_price(self.name)
        bound = (
            None
            if price is None or output is None
            else price.bound(math.ceil(prompt * _MARGIN), output)
        )
        return Ask(self.name, provider, request_sha256(messages), prompt + (output or 0), bound)

    def _arguments(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, Any]:
        known = self._known()
        _, provider = provider_of(self.name, self.api_base)
        markers = bool(known.cache_markers)
        arguments: dict[str, Any] = {
            "model": self.name,
            "messages": messages_as_sent(messages, markers=markers, provider=provider),
            # litellm's time-out is per read, and its clients would retry unnoticed.
            "timeout": self.call_timeout,
            "num_retries": 0,
            "max_retries": 0,
            **self._sampling(known),
        }
        if tools:
            if known.tools is None:
                self.warn_once(f"{self.name}: whether it can call functions is unknown: trying")
            arguments |= {"tools": tools_as_sent(tools), "tool_choice": "auto"}
            # litellm would search for MCP servers among the tools, with an optional package.
            arguments["_skip_mcp_handler"] = True
        if self.api_base:
            arguments["api_base"], headers = basic_auth(self.api_base)
            if headers:
                arguments["extra_headers"] = headers
            arguments["custom_llm_provider"] = "openai"
            arguments["api_key"] = os.environ.get("OPENAI_API_KEY") or _NO_KEY
        # litellm refuses options of unknown models unless they are allowed here.
        allowed = {"reasoning_effort", "tools", "tool_choice"} & arguments.keys()
        return {**arguments, "allowed_openai_params": sorted(allowed)} if allowed else arguments

    def _sampling(self, known: ModelSettings) -> dict[str, Any]:
        sampling: dict[str, Any] = {}
        if self.sent_temperature is not None:
            sampling["temperature"] = self.sent_temperature
        else:
            self.warn_once(f"{self.name} takes no temperature: none is sent")
        if known.reasoning_effort:
            sampling["reasoning_effort"] = known.reasoning_effort
        if limit := self.max_output_tokens or self.settings.max_output:
            sampling["max_tokens"] = limit
        return sampling

    def _reply(self, response: Any, prefix: str, seconds: float) -> Reply:  # noqa: ANN401
        choice = response.choices[0] if response.choices else None
        message = choice.message if choice else None
        finish = choice.finish_reason if choice else ""
        content = (message.content if message else None) or ""
        extra = getattr(message, "provider_specific_fields", None) or {}
        usage = _usage(response)
        if finish == "content_filter" or extra.get("refusal"):
            why = extra.get("refusal") or content[:200]
            cost = self._cost(response, usage)
            raise RequestRefusedError(f"{self.name} refused to answer: {why}", cost)
        return Reply(
            content=continuation(prefix, content),
            truncated=finish == "length",
            usage=usage,
            cost=self._cost(response, usage),
            seconds=round(seconds, 3),
            model=str(response.model or ""),
            tool_calls=tool_calls_of(message),
        )

    def _cost(self, response: Any, usage: Usage | None) -> Decimal | None:  # noqa: ANN401
        """Return dollars by the exact entry of the price map; litellm also guesses prices."""
        if usage is not None and self.price is not None:
            return self.price.cost(usage)
        if usage is None or price_entry(self.name) is None:
            what = "reports no usage" if usage is None else "has no known price"
            self.warn_once(f"{self.name} {what}: its cost counts as unknown, not as 0")
            return None
        bare, provider = provider_of(self.name, None)
        into, out = the_litellm().cost_per_token(
            model=bare, custom_llm_provider=provider, usage_object=response.usage
        )
        return dollars(Decimal(repr(into)) + Decimal(repr(out)))


def _retrying(policy: RetryPolicy, pause: Callable[[float], None]) -> tenacity.Retrying:
    """Return the retries of a call after transient errors, as far as these use tries."""
    import tenacity

    used = 0
    backoff = tenacity.wait_exponential_jitter(
        multiplier=policy.first_wait, max=policy.longest_wait, jitter=policy.first_wait
    )

    def used_up(state: tenacity.RetryCallState) -> bool:
        nonlocal used
        error = state.outcome.exception() if state.outcome else None
        used += isinstance(error, TransientError) and error.uses_try
        return used >= policy.attempts

    def seconds(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.failure.retry_after if isinstance(error, TransientError) else None
        return backoff(state) if asked is None else min(asked, policy.longest_wait)

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(TransientError),
        stop=used_up,
        wait=seconds,
        sleep=pause,
        reraise=True,
    )


def _usage(response: Any) -> Usage | None:  # noqa: ANN401
    """Return the tokens; litellm replaces a missing count by 0, which no prompt has."""
    usage = getattr(response, "usage", None)
    if not usage or not usage.prompt_tokens:
        return None
    details = getattr(usage, "prompt_tokens_details", None)
    cached = getattr(details, "cached_tokens", None) or 0
    return Usage(usage.prompt_tokens, usage.completion_tokens or 0, cached)


def _calls(number: int) -> str:
    return "1 call" if number == 1 else f"{number} calls"
