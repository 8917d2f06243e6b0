"""A model that is called through litellm, with retries, costs, and limits."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, partial
from typing import Any

from swe_retry.core.errors import InfrastructureError
from swe_retry.core.plaintext import quantity
from swe_retry.core.redaction import Redactor
from swe_retry.llm.chat import (
    Message,
    Reminder,
    Reply,
    Request,
    RequestRefusedError,
    Tool,
    Traits,
    Waiting,
    WindowExceededError,
    exchange_sha256,
    redact_reply,
    request_sha256,
)
from swe_retry.llm.gate import Gate, PlannedCall
from swe_retry.llm.messages import messages_as_sent, prefill, tools_as_sent
from swe_retry.llm.model_settings import ModelSettings
from swe_retry.llm.options import Sampling
from swe_retry.llm.prices import Price, cost_bound, cost_of_tokens
from swe_retry.llm.provider_errors import (
    RetryPolicy,
    TransientError,
    outcome_of,
    room_for_reply,
    translate_error,
)
from swe_retry.llm.registry import Endpoint, load_litellm
from swe_retry.llm.replies import reply_of
from swe_retry.llm.tokens import MAX_REPLY, count_tokens, size
from swe_retry.llm.wire import Wire, run_in_loop, watch

_MIN_REPLY = 256
_LEAST_CUT = 2048
"""No server has a shorter window: a prompt up to here is not cut off."""
_PATIENCE = 1.0
_PRIMING = 3
"""Tokens that open every reply (OpenAI's counting guide)."""


@dataclass(frozen=True)
class LiteLLMModel:
    """A model behind a provider, called through litellm.

    Attributes:
        call_timeout: seconds of silence that end a call, however long its answer is.
        gate: every request passes it; it records replies and enforces limits.
        max_output_tokens: the limit to send; by default that of ``settings``, or none.
        settings: litellm's map completes them.
        sampling: options of sampling; those that the model does not take are not sent.
        price: the user's price, which overrides litellm's map.
        warn_once: prints a warning once, such as an unknown price.
        redact: takes the secrets out of replies before anything uses them.
        waiting: surrounds the calls of ``complete``, so that others can work meanwhile.
        pair_traits: of both models of a pair, which decide alike; by default its own.
        counter: the model as whose tokens ``count`` counts; by default itself.
    """

    name: str
    temperature: float
    call_timeout: float
    gate: Gate = field(kw_only=True)
    max_output_tokens: int | None = None
    api_base: str | None = None
    settings: ModelSettings = field(default_factory=ModelSettings)
    sampling: Sampling = field(default_factory=Sampling)
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    warn_once: Callable[[str], None] = print
    price: Price | None = None
    redact: Redactor = field(default_factory=Redactor.of_environment)
    waiting: Waiting = nullcontext
    pair_traits: Traits | None = None
    counter: str = ""

    @cached_property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.name, self.api_base)

    @cached_property
    def all_settings(self) -> ModelSettings:
        """The settings, completed by litellm's map."""
        return self.endpoint.complete_settings(self.settings)

    @property
    def traits(self) -> Traits:
        settings = self.all_settings
        own = Traits(
            context=settings.context,
            prefill=bool(settings.prefill),
            reminder=settings.reminder or Reminder.SYSTEM,
            images=bool(settings.images),
        )
        return self.pair_traits or own

    @cached_property
    def sent_temperature(self) -> float | None:
        """The temperature that goes with every request; None where the model takes none."""
        # litellm takes a millisecond, and each call asks.
        if self.endpoint.accepts_temperature(self.all_settings, self.temperature):
            return self.temperature
        return None

    @property
    def is_own(self) -> bool:
        """Whether a server of the user is called."""
        return bool(self.api_base) or self.endpoint.is_ollama

    def count(self, text: str) -> int:
        return count_tokens(self.counter or self.name, text)

    def _own_count(self, text: str) -> int:
        return count_tokens(self.name, text)

    def complete(self, request: Request, tools: Sequence[Tool] = ()) -> Reply:
        """Return the reply to a conversation, or the text with which a text is continued.

        A text is sent to ``/v1/completions``, where servers stop after 16 tokens if no limit is
        sent.

        Raises:
            UserError: also if the provider has no plain-text completions.
        """
        options = self._options(request)
        prompt = size(request, self._own_count) + _PRIMING
        if tools:
            prompt += self._own_count(json.dumps(tools_as_sent(tools)))
        limit = self._default_limit(prompt)
        window = self.all_settings.context
        call = self.plan_call(
            request_sha256(request),
            exchange_sha256(self.name, request, options, tools),
            prompt,
            self.max_output_tokens or limit,
            window,
        )
        if limit:
            options["max_tokens"] = limit
        send = partial(self._send, request, tools, options)
        try:
            with self.waiting():
                reply = self.gate.recorded_reply(
                    call.request_sha256, call.exchange_sha256
                )
                if not reply:
                    reply = self.send_with_retries(call, send, self.gate.pause)
                    self._check_prompt(prompt, reply)
                return reply
        except WindowExceededError as error:
            # Some servers refuse a prompt that leaves no room for so long a reply.
            room = room_for_reply(str(error), limit or 0, window, prompt)
            if room is None:
                raise
            limited = replace(self, max_output_tokens=room)
        return limited.complete(request, tools)

    def _check_prompt(self, counted: int, reply: Reply) -> None:
        """Warn of a server that drops the beginning of a prompt in silence, as Ollama does."""
        counted_there = reply.usage and reply.usage.prompt_tokens
        if not (self.is_own and counted_there):
            return
        # Tokenizers differ by less than a factor of two.
        if counted > max(_LEAST_CUT, 2 * counted_there):
            self.warn_once(
                f"{self.name}: its server counts less than half of the tokens of a prompt: "
                "it may have dropped the beginning; state its window as context in models.file"
            )

    def _default_limit(self, prompt: int) -> int | None:
        """Return the limit that is sent to a server of the user where no other one is known.

        The exchange does not contain it: a recorded reply answers the request all the same.
        """
        settings = self.all_settings
        if self.max_output_tokens or settings.max_output or not self.is_own:
            return None
        room = (settings.context or prompt + MAX_REPLY) - prompt
        return max(_MIN_REPLY, min(room, MAX_REPLY))

    def send_with_retries(
        self,
        call: PlannedCall,
        send: Callable[[Wire], Reply],
        pause: Callable[[float, str], None],
    ) -> Reply:
        """Return the reply of ``send``, which passes the gate each time that it is tried."""
        attempts = self.retries.attempts
        sent = 0
        used = 0
        while True:
            ticket = self.gate.begin(call)
            wire = Wire(report=partial(self.gate.note_arrival, ticket))
            try:
                reply = redact_reply(send(wire), self.redact)
            except BaseException as error:
                uses_try = self.gate.end(ticket, outcome_of(error, wire))
                if not isinstance(error, TransientError):
                    raise
                used += uses_try
                if used >= attempts:
                    calls = quantity(attempts, "call")
                    raise InfrastructureError(
                        f"{self.name} did not answer in {calls}: {error}"
                    ) from error
                seconds = self.retries.wait(sent, error.failure.retry_after)
                problem = (
                    f"{self.name}: {error}; asked again in {seconds:.0f} s "
                    f"({used} of {attempts} tries used)"
                )
            else:
                reply = self._with_cost(reply, call.bound)
                self.gate.end(ticket, reply)
                return replace(reply, exchange_sha256=call.exchange_sha256)
            sent += 1
            pause(seconds, problem)

    def _with_cost(self, reply: Reply, bound: Decimal | None) -> Reply:
        """Return a reply that is free if its call was; warn of an unknown cost."""
        if reply.cost is None and bound == 0:
            return replace(reply, cost=bound)
        if reply.cost is None:
            problem = "reports no usage of which all prices are known"
            if reply.usage:
                problem = "has no known price"
            self.warn_once(
                f"{self.name} {problem}: its cost counts as unknown, not as 0"
            )
        return reply

    def rehearse(self) -> None:
        """Prepare a request as ``complete`` does, and do not send it.

        Raises:
            UserError: litellm cannot make one here: a package or credentials are missing.
        """
        wire = Wire(rehearsal=True)
        request = [Message("user", "hello")]
        try:
            self._send(request, (), self._options(request), wire)
        except Exception as error:
            if not wire.sent and not isinstance(error, TransientError):
                raise

    def _send(
        self,
        request: Request,
        tools: Sequence[Tool],
        options: dict[str, Any],
        wire: Wire,
    ) -> Reply:
        arguments = self._arguments(request, tools) | options
        litellm = load_litellm()
        # litellm refuses options of unknown models unless they are allowed here.
        allowed = {"reasoning_effort", "tools", "tool_choice"} & arguments.keys()
        if allowed:
            arguments["allowed_openai_params"] = sorted(allowed)
        wire.reports_usage = self.endpoint.reports_usage
        started = time.monotonic()
        try:
            call = litellm.acompletion(**arguments)
            response = run_in_loop(watch(wire, call, self.call_timeout))
            seconds = time.monotonic() - started
            prefix = prefill(request)
            counted = wire.is_priced
            reply = reply_of(
                response, self.name, self.price, prefix, is_counted=counted
            )
        except RequestRefusedError:
            raise
        except Exception as error:
            self.price_arrival(wire, size(request, self._own_count))
            raise translate_error(litellm, self.name, error, wire) from error
        return replace(reply, seconds=round(seconds, 3))

    def price_arrival(self, wire: Wire, prompt: int) -> None:
        """Note the tokens and the cost of what arrived of an answer that broke off."""
        tokens = wire.arrived_tokens(prompt, self._own_count)
        if tokens:
            wire.usage, wire.cost = cost_of_tokens(self.name, self.price, tokens)

    def plan_call(
        self,
        request: str,
        exchange: str,
        prompt: int,
        output: int | None,
        window: int | None,
    ) -> PlannedCall:
        """Return the call for a prompt of so many tokens, by the hashes of what is asked.

        ``output`` limits the answer; None leaves it to the model. A provider refuses what is
        longer than ``window``, so that it costs nothing.
        """
        output = output or self.all_settings.max_output or 0
        if window:
            output = min(output, window)
        return PlannedCall(
            model=self.name,
            provider=self.endpoint.provider,
            request_sha256=request,
            tokens=prompt + output,
            bound=cost_bound(self.name, self.price, prompt, output or None, window),
            exchange_sha256=exchange,
        )

    def _arguments(self, request: Request, tools: Sequence[Tool]) -> dict[str, Any]:
        settings = self.all_settings
        # The wire ends a silence before litellm, whose clients would retry unnoticed.
        seconds = self.call_timeout + _PATIENCE
        arguments = self.endpoint.arguments(seconds, text=isinstance(request, str))
        arguments |= {
            "messages": messages_as_sent(
                request,
                markers=bool(settings.cache_markers),
                provider=self.endpoint.provider,
            ),
            "timeout": seconds,
            "num_retries": 0,
            "max_retries": 0,
        }
        if tools:
            if settings.tools is None:
                self.warn_once(
                    f"{self.name}: whether it can call functions is unknown: trying"
                )
            arguments |= {"tools": tools_as_sent(tools), "tool_choice": "auto"}
            # litellm would search for MCP servers among the tools, with an optional package.
            arguments["_skip_mcp_handler"] = True
        return arguments

    def _options(self, request: Request) -> dict[str, Any]:
        settings = self.all_settings
        temperature = self.sent_temperature
        options: dict[str, Any] = {}
        if temperature is not None:
            options["temperature"] = temperature
        else:
            self.warn_once(f"{self.name} takes no temperature: none is sent")
        # Plain-text completions have no such option.
        if settings.reasoning_effort and not isinstance(request, str):
            options["reasoning_effort"] = settings.reasoning_effort
        # litellm's own limit for Claude cuts replies of names that its map lacks.
        limit = self.max_output_tokens or self.settings.max_output
        if not limit and self.endpoint.is_claude:
            limit = settings.max_output
        if limit:
            options["max_tokens"] = limit
        if self.endpoint.is_ollama:
            # Its small default drops the beginning of longer prompts without an error.
            options["num_ctx"] = settings.context
        parameters = settings.parameters or {}
        if self.api_base and parameters:
            options["extra_body"] = dict(parameters)
        else:
            options |= parameters
        for name, value in self.sampling.as_sent().items():
            if self.endpoint.accepts({name: value}):
                options[name] = value
            else:
                self.warn_once(f"{self.name} takes no {name}: none is sent")
        return options
