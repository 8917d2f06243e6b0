"""Call models through litellm, with retries and costs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from swe_retry.core.errors import InfrastructureError
from swe_retry.core.plaintext import quantity
from swe_retry.core.redaction import Redactor
from swe_retry.llm.background import background
from swe_retry.llm.chat import (
    REPLY,
    Message,
    Reply,
    Request,
    RequestRefusedError,
    Tool,
    ToolCall,
    Traits,
    Usage,
    WindowExceededError,
    exchange_sha256,
    redact_reply,
    request_sha256,
)
from swe_retry.llm.gate import Answered, Failed, Gate, PlannedCall, Refused
from swe_retry.llm.options import Sampling
from swe_retry.llm.prices import Price, cost_bound, cost_of, cost_of_tokens
from swe_retry.llm.provider_errors import (
    RetryPolicy,
    TransientError,
    failure_of,
    make_retries,
    room_for_reply,
    translate_error,
)
from swe_retry.llm.registry import (
    accepts_options,
    accepts_temperature,
    complete_settings,
    endpoint_arguments,
    is_claude,
    is_ollama,
    load_litellm,
    provider_of,
    reports_usage,
    traits,
)
from swe_retry.llm.settings import ModelSettings
from swe_retry.llm.tokens import MAX_REPLY, count_tokens, size
from swe_retry.llm.usage import is_priced
from swe_retry.llm.wire import Wire, watch

_MAX_NAME = 200
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

    @property
    def traits(self) -> Traits:
        return traits(self.all_settings)

    @property
    def sent_temperature(self) -> float | None:
        """The temperature that goes with every request; None where the model takes none."""
        settings = self.all_settings
        if accepts_temperature(settings, self.name, self.temperature, self.api_base):
            return self.temperature
        return None

    @property
    def is_own(self) -> bool:
        """Whether a server of the user is called."""
        return bool(self.api_base) or is_ollama(self.name, None)

    def count(self, text: str) -> int:
        return count_tokens(self.name, text)

    def complete(self, request: Request, tools: Sequence[Tool] = ()) -> Reply:
        """Return the reply to a conversation, or the text with which a text is continued.

        A text is sent to ``/v1/completions``, where servers stop after 16 tokens if no limit is
        sent.

        Raises:
            UserError: also if the provider has no plain-text completions.
        """
        options = self._options(request)
        prompt = size(request, self.count) + _PRIMING
        if tools:
            prompt += self.count(json.dumps(tools_as_sent(tools)))
        limit = self._default_limit(prompt)
        ask = self.plan_call(
            request_sha256(request),
            exchange_sha256(self.name, request, options, tools),
            prompt,
            self.max_output_tokens or limit,
            self.traits.context,
        )

        def send(wire: Wire) -> Reply:
            arguments = self._arguments(request, tools) | options
            if limit:
                arguments["max_tokens"] = limit
            reply = self._send(request, arguments, wire)
            counted = reply.usage and reply.usage.prompt_tokens
            if self.is_own and counted:
                self._check_prompt(prompt, counted)
            return reply

        try:
            recorded = self.gate.recorded_reply(ask.request_sha256, ask.exchange_sha256)
            if recorded:
                return recorded
            return self.send_with_retries(ask, send, self.gate.pause)
        except WindowExceededError as error:
            # Some servers refuse a prompt that leaves no room for so long a reply.
            window = self.traits.context
            room = room_for_reply(str(error), limit or 0, window, prompt)
            if room is None:
                raise
            limited = replace(self, max_output_tokens=room)
        return limited.complete(request, tools)

    def _check_prompt(self, here: int, there: int) -> None:
        """Warn of a server that drops the beginning of a prompt in silence, as Ollama does."""
        # Tokenizers differ by less than a factor of two.
        if here > max(_LEAST_CUT, 2 * there):
            self.warn_once(
                f"{self.name}: its server counts less than half of the tokens of a prompt: "
                "it may have dropped the beginning; state its window as context in models.file"
            )

    def _default_limit(self, prompt: int) -> int | None:
        """Return the limit that is sent to a server of the user where no other one is known.

        The exchange does not contain it: a recorded reply answers the request all the same.
        """
        settings = self.all_settings
        if self.max_output_tokens or settings.max_output:
            return None
        if not self.is_own:
            return None
        room = (settings.context or prompt + MAX_REPLY) - prompt
        return max(_MIN_REPLY, min(room, MAX_REPLY))

    def send_with_retries(
        self,
        ask: PlannedCall,
        send: Callable[[Wire], Reply],
        pause: Callable[[float], None],
    ) -> Reply:
        """Return the reply of ``send``, which passes the gate each time that it is tried."""

        def say(problem: str) -> None:
            self.gate.note_retry(f"{self.name}: {problem}")

        retries = make_retries(self.retries, pause, say)
        try:
            reply: Reply = retries(self._call_once, ask, send)
        except TransientError as error:
            calls = quantity(self.retries.attempts, "call")
            raise InfrastructureError(
                f"{self.name} did not answer in {calls}: {error}"
            ) from error
        return replace(reply, exchange_sha256=ask.exchange_sha256)

    @property
    def all_settings(self) -> ModelSettings:
        """The settings, completed by litellm's map."""
        return complete_settings(self.settings, self.name, self.api_base)

    def _call_once(self, ask: PlannedCall, send: Callable[[Wire], Reply]) -> Reply:
        ticket = self.gate.begin(ask)
        wire = Wire(report=partial(self.gate.note_arrival, ticket))
        try:
            reply = redact_reply(send(wire), self.redact)
        except TransientError as error:
            error.uses_try = self.gate.end(ticket, error.failure)
            raise
        except RequestRefusedError as error:
            self.gate.end(ticket, Refused(str(error), error.cost))
            raise
        except BaseException as error:
            failed = Failed(
                str(error),
                transient=False,
                billed=wire.may_be_billed,
                reached=wire.status is not None,
                cost=wire.cost,
                usage=wire.usage,
            )
            self.gate.end(ticket, failed)
            raise
        if reply.cost is None and ask.bound == 0:
            reply = replace(reply, cost=ask.bound)
        if reply.cost is None:
            problem = "reports no usage of which all prices are known"
            if reply.usage:
                problem = "has no known price"
            self.warn_once(
                f"{self.name} {problem}: its cost counts as unknown, not as 0"
            )
        self.gate.end(ticket, Answered(reply))
        return reply

    def rehearse(self) -> None:
        """Prepare a request as ``complete`` does, and do not send it.

        Raises:
            UserError: litellm cannot make one here: a package or credentials are missing.
        """
        wire = Wire(rehearsal=True)
        request = [Message("user", "hello")]
        try:
            arguments = self._arguments(request, ()) | self._options(request)
            self._send(request, arguments, wire)
        except Exception as error:
            if not wire.sent and not isinstance(error, TransientError):
                raise

    def _send(self, request: Request, arguments: dict[str, Any], wire: Wire) -> Reply:
        litellm = load_litellm()
        # litellm refuses options of unknown models unless they are allowed here.
        allowed = sorted(
            {"reasoning_effort", "tools", "tool_choice"} & arguments.keys()
        )
        if allowed:
            arguments["allowed_openai_params"] = allowed
        wire.reports_usage = reports_usage(self.name, self.api_base)
        started = time.monotonic()
        try:
            call = litellm.acompletion(**arguments)
            response = background().wait(watch(wire, call, self.call_timeout))
            seconds = time.monotonic() - started
            return self._reply(response, prefill(request), seconds, wire)
        except RequestRefusedError:
            raise
        except TimeoutError as error:
            self.price_arrival(wire, size(request, self.count))
            raise TransientError(failure_of(str(error), wire)) from error
        except Exception as error:
            self.price_arrival(wire, size(request, self.count))
            raise translate_error(litellm, self.name, error, wire) from error

    def price_arrival(self, wire: Wire, prompt: int) -> None:
        """Note the tokens and the cost of what arrived of an answer that broke off."""
        tokens = wire.arrived_tokens(prompt, self.count)
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
            provider=provider_of(self.name, self.api_base)[1],
            request_sha256=request,
            tokens=prompt + output,
            bound=cost_bound(self.name, self.price, prompt, output or None, window),
            exchange_sha256=exchange,
        )

    def _arguments(self, request: Request, tools: Sequence[Tool]) -> dict[str, Any]:
        settings = self.all_settings
        provider = provider_of(self.name, self.api_base)[1]
        markers = bool(settings.cache_markers)
        arguments: dict[str, Any] = {
            "messages": messages_as_sent(request, markers=markers, provider=provider),
            # The wire ends a silence before litellm, whose clients would retry unnoticed.
            "timeout": self.call_timeout + _PATIENCE,
            "num_retries": 0,
            "max_retries": 0,
            **endpoint_arguments(
                self.name,
                self.api_base,
                self.call_timeout + _PATIENCE,
                text=isinstance(request, str),
            ),
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
        if not limit and is_claude(self.name, self.api_base):
            limit = settings.max_output
        if limit:
            options["max_tokens"] = limit
        if is_ollama(self.name, self.api_base):
            # Its small default drops the beginning of longer prompts without an error.
            options["num_ctx"] = settings.context
        parameters = settings.parameters or {}
        if self.api_base and parameters:
            options["extra_body"] = dict(parameters)
        else:
            options |= parameters
        for name, value in self.sampling.as_sent().items():
            if accepts_options(self.name, self.api_base, {name: value}):
                options[name] = value
            else:
                self.warn_once(f"{self.name} takes no {name}: none is sent")
        return options

    def _reply(
        self,
        response: Any,  # noqa: ANN401
        prefix: str,
        seconds: float,
        wire: Wire,
    ) -> Reply:
        choice = response.choices[0] if response.choices else None
        message = choice.message if choice else None
        finish = choice.finish_reason if choice else ""
        content = (message.content if message else None) or ""
        extra = getattr(message, "provider_specific_fields", None) or {}
        tool_calls = tool_calls_of(message)
        usage = None
        if wire.is_priced:
            usage = usage_of(response, is_empty=not (content or tool_calls))
        counts = getattr(response, "usage", None)
        tier = getattr(response, "service_tier", None)
        tier = tier or getattr(counts, "service_tier", None)
        cost = cost_of(self.name, self.price, usage, counts, tier)
        if finish == "content_filter" or extra.get("refusal"):
            why = extra.get("refusal") or content[:200]
            raise RequestRefusedError(f"{self.name} refused to answer: {why}", cost)
        reply = Reply(
            content=continuation(prefix, content),
            truncated=finish == "length",
            usage=usage,
            cost=cost,
            seconds=round(seconds, 3),
            model=str(response.model or "")[:_MAX_NAME],
            tool_calls=tool_calls,
        )
        # What a journal gets must be readable when the reply is needed again.
        journaled = json.dumps(REPLY.dump_python(reply, mode="json"))
        REPLY.validate_python(json.loads(journaled))
        return reply


_MAX_MARKERS_AT_END = 2
_MARKER = {"type": "ephemeral"}
# These need a mark on the last message that the model continues.
_PREFIX_PROVIDERS = frozenset({"deepseek", "mistral", "codestral"})
_MAX_TOOL_NAME = 64
# A shorter beginning may occur twice by chance.
_MIN_ECHO = 16


def messages_as_sent(
    messages: Request,
    *,
    markers: bool = False,
    provider: str = "",
) -> list[dict[str, Any]]:
    """Return ``messages`` in the OpenAI protocol.

    Args:
        messages: a conversation; the model continues a last message of the assistant. A text to
            continue becomes one message: litellm takes it out of that for ``/v1/completions``.
        markers: mark the messages that Anthropic shall cache.
        provider: litellm's name of the provider.
    """
    if isinstance(messages, str):
        return [_message_as_sent(Message("user", messages), marked=False)]
    marked: Collection[int] = ()
    if markers:
        marked = _positions_to_mark(messages)
    sent = []
    for position, message in enumerate(messages):
        sent.append(_message_as_sent(message, position in marked))
    if prefill(messages):
        # Anthropic refuses white space there, and no provider needs it.
        last = messages[-1].content
        sent[-1]["content"] = _encodable(last.rstrip())
        if provider in _PREFIX_PROVIDERS:
            sent[-1]["prefix"] = True
    return sent


def prefill(messages: Request) -> str:
    """Return the text that the model shall continue in its own name, empty without one."""
    if isinstance(messages, str) or not messages:
        return ""
    last = messages[-1]
    if last.role != "assistant" or last.tool_calls:
        return ""
    return last.content


def continuation(prefix: str, content: str) -> str:
    """Return the text after ``prefix`` in a reply to a request that ended with it.

    Some providers repeat ``prefix``; the reply may also begin with its final white space, which was
    not sent.
    """
    if not prefix:
        return content
    stem = prefix.rstrip()
    if len(stem) >= _MIN_ECHO:
        content = content.removeprefix(stem)
    for lost in prefix[len(stem) :]:
        if not content.startswith(lost):
            break
        content = content[1:]
    return content


def tools_as_sent(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": dict(tool)} for tool in tools]


def tool_calls_of(message: Any) -> tuple[ToolCall, ...]:  # noqa: ANN401 - litellm's
    """Return the calls in a message of litellm, with ids for calls without one."""
    calls = []
    for number, call in enumerate(getattr(message, "tool_calls", None) or (), 1):
        name = call.function.name or ""
        arguments = call.function.arguments or ""
        calls.append(ToolCall(name, arguments, call.id or f"call_{number}"))
    return tuple(calls)


def usage_of(response: Any, *, is_empty: bool) -> Usage | None:  # noqa: ANN401
    """Return the tokens, None if any number in the provider's counts is missing or impossible.

    litellm replaces a missing count by 0, which no prompt has, nor an answer that says something.
    """
    usage = getattr(response, "usage", None)
    if not usage or not usage.prompt_tokens or not is_priced(usage.model_dump()):
        return None
    if not usage.completion_tokens and not is_empty:
        return None
    details = getattr(usage, "prompt_tokens_details", None)
    cached = getattr(details, "cached_tokens", None) or 0
    if cached > usage.prompt_tokens:
        return None
    return Usage(usage.prompt_tokens, usage.completion_tokens or 0, cached)


def _positions_to_mark(messages: Sequence[Message]) -> Collection[int]:
    """Return the messages that end a part which the next request repeats: four at most.

    The system message and the first of the user never change; of the last two, the request before
    wrote one to the cache, and this one writes the other for the next.
    """
    system = []
    requests = []
    for number, message in enumerate(messages):
        if message.role == "system":
            system.append(number)
        elif message.role in ("user", "tool"):
            requests.append(number)
    ends = {*system[:1], *requests[:1], *requests[-_MAX_MARKERS_AT_END:]}
    return {number for number in ends if messages[number].content.strip()}


def _message_as_sent(message: Message, marked: bool) -> dict[str, Any]:
    content = _encodable(message.content)
    sent: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        sent["content"] = content or None
        sent["tool_calls"] = [_call_as_sent(call) for call in message.tool_calls]
    if message.tool_call_id:
        sent["tool_call_id"] = message.tool_call_id
    if marked and message.role == "tool":
        sent["cache_control"] = _MARKER
    elif marked:
        sent["content"] = [{"type": "text", "text": content, "cache_control": _MARKER}]
    if message.images:
        parts: list[dict[str, Any]] = [{"type": "text", "text": content}]
        if marked:
            parts = list(sent["content"])
        for address in message.images:
            image = {"url": _encodable(address)}
            parts.append({"type": "image_url", "image_url": image})
        sent["content"] = parts
    return sent


def _call_as_sent(call: ToolCall) -> dict[str, Any]:
    # Providers check both, and refuse the whole conversation for one broken call.
    name = re.sub(r"[^A-Za-z0-9_-]", "_", call.name)[:_MAX_TOOL_NAME] or "unknown"
    arguments = _encodable(call.arguments)
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        arguments = json.dumps({"unreadable": arguments})
    function = {"name": name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
