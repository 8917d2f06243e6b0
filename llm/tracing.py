"""Send attempts and their calls as spans of OpenTelemetry (``--trace``).

The exporter speaks OTLP over HTTP. Its address and its headers are OpenTelemetry's own variables.
An attempt is a span, and below it each call that passes the gate is one, those of coding agents of
others too. Attributes are those of OpenTelemetry's GenAI conventions, version 0.1.0.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from core.errors import StoppedError, UserError
from core.redaction import Redactor
from llm.chat import Message, Reply
from llm.gate import Answered, CallOutcome, Gate, PlannedCall

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

Attribute = str | int | float
_FLUSH_SECONDS = 5.0
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


@dataclass(frozen=True)
class Tracing:
    """Where this process sends spans.

    Attributes:
        content: with prompts, replies and words of errors, from which secrets are redacted.
    """

    run: str
    content: bool
    provider: TracerProvider
    redact: Redactor

    @contextmanager
    def attempt(self, instance: str, number: int, model: str, agent: str) -> Iterator[AttemptTrace]:
        """Start the span of an attempt; the caller or an exception ends it."""
        attributes: dict[str, Attribute] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent,
            "gen_ai.request.model": model,
            "gen_ai.conversation.id": f"{self.run}/{instance}/{number}",
            "retry_harness.run": self.run,
            "retry_harness.instance": instance,
            "retry_harness.attempt": number,
        }
        trace = AttemptTrace(self, self.start(f"invoke_agent {agent}", attributes))
        try:
            yield trace
        except BaseException as error:
            stopped = isinstance(error, (StoppedError, KeyboardInterrupt))
            trace.end("interrupted" if stopped else "infra_error", type(error).__name__)
            raise

    def start(
        self, name: str, attributes: Mapping[str, Attribute], parent: Span | None = None
    ) -> Span:
        """Return a new span below ``parent``, or of a new trace."""
        from opentelemetry.trace import INVALID_SPAN, set_span_in_context

        tracer = self.provider.get_tracer("retry_harness")
        context = set_span_in_context(parent or INVALID_SPAN)
        return tracer.start_span(name, context, attributes=attributes)

    def messages_text(self, messages: Sequence[Message]) -> str:
        """Return messages in the JSON of the conventions, without secrets."""
        plain = [
            {"role": message.role, "parts": [{"type": "text", "content": message.content}]}
            for message in messages
        ]
        return self.redact(json.dumps(plain))

    def flush(self) -> bool:
        """Wait some seconds until all spans are sent; return whether that was enough."""
        # The SDK's own flush has no limit, and no exit of the process waits for such a thread.
        thread = threading.Thread(target=self.provider.force_flush, daemon=True)
        thread.start()
        thread.join(_FLUSH_SECONDS)
        return not thread.is_alive()


@dataclass(frozen=True)
class AttemptTrace:
    """An attempt and its span."""

    tracing: Tracing
    span: Span

    def end(self, outcome: str, error: str = "", messages: Sequence[Message] = ()) -> None:
        """End the span; ``error`` is the kind of what broke the attempt."""
        attributes: dict[str, Attribute] = {"retry_harness.outcome": outcome}
        if self.tracing.content:
            attributes["gen_ai.input.messages"] = self.tracing.messages_text(messages)
        end_span(self.span, attributes, error)


@dataclass(frozen=True)
class TracedGate:
    """A gate whose calls become spans."""

    inner: Gate
    trace: AttemptTrace
    open: dict[str, Span] = field(default_factory=dict)

    def recorded(self, request_sha256: str, exchange_sha256: str | None = None) -> Reply | None:
        return self.inner.recorded(request_sha256, exchange_sha256)

    def pause(self, seconds: float) -> None:
        self.inner.pause(seconds)

    def begin(self, ask: PlannedCall) -> str:
        ticket = self.inner.begin(ask)
        name = ask.model.removeprefix(f"{ask.provider}/")
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": ask.provider,
            "gen_ai.request.model": name,
        }
        self.open[ticket] = self.trace.tracing.start(f"chat {name}", attributes, self.trace.span)
        return ticket

    def end(self, ticket: str, outcome: CallOutcome) -> bool:
        tracing = self.trace.tracing
        attributes: dict[str, Attribute] = {}
        error = ""
        if isinstance(outcome, Answered):
            attributes = reply_attributes(outcome.reply)
            if tracing.content:
                message = Message("assistant", outcome.reply.content)
                attributes["gen_ai.output.messages"] = tracing.messages_text([message])
        else:
            error = type(outcome).__name__
            if tracing.content:  # providers quote prompts
                attributes["error.message"] = tracing.redact(outcome.error)
        end_span(self.open.pop(ticket), attributes, error)
        return self.inner.end(ticket, outcome)


def reply_attributes(reply: Reply) -> dict[str, Attribute]:
    """Return what a span says of a reply, without its text."""
    attributes: dict[str, Attribute] = {"gen_ai.response.model": reply.model}
    if reply.cost is not None:
        attributes["retry_harness.cost_usd"] = float(reply.cost)
    if reply.usage:
        attributes["gen_ai.usage.input_tokens"] = reply.usage.prompt_tokens
        attributes["gen_ai.usage.output_tokens"] = reply.usage.completion_tokens
        attributes["gen_ai.usage.cache_read.input_tokens"] = reply.usage.cached_tokens
    return attributes


def end_span(span: Span, attributes: Mapping[str, Attribute], error: str) -> None:
    """End a span with its last attributes, and with the kind of an error where there is one."""
    span.set_attributes(attributes)
    if error:
        from opentelemetry.trace import StatusCode

        span.set_attribute("error.type", error)
        span.set_status(StatusCode.ERROR)
    span.end()


@cache
def make_tracing(run: str, *, enabled: bool, content: bool) -> Tracing | None:
    """Return the one tracing of this process, None without ``--trace``.

    Raises:
        UserError: a package or the address is missing, or a variable of OpenTelemetry is wrong.
    """
    if not enabled:
        return None
    if not any(map(os.environ.get, _ENDPOINTS)):
        raise UserError(f"--trace: set {_ENDPOINTS[0]} (docs/tracing.md)")
    os.environ.setdefault("OTEL_SERVICE_NAME", "swe-retry-harness")
    # The exporter repeats what fails, and each time would be a line.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        # At the exit it would wait for half a minute.
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    except (ImportError, RuntimeError, ValueError) as error:
        raise UserError(
            f"--trace: {error}; install requirements-trace.txt, or correct the variables of "
            "OpenTelemetry (docs/tracing.md)"
        ) from error
    return Tracing(run, content, provider, Redactor.of_environment(os.environ))
