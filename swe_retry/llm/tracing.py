"""Send attempts and their calls as spans of OpenTelemetry (``calls.trace``).

The exporter speaks OTLP over HTTP. Its address and its headers are OpenTelemetry's own variables.
An attempt is a span, and below it each call that passes the gate is one, those of coding agents of
others too. Attributes are those of OpenTelemetry's GenAI conventions, version 0.1.0.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from swe_retry.core.errors import StoppedError, UserError
from swe_retry.core.redaction import Redactor
from swe_retry.llm.chat import Message, Reply
from swe_retry.llm.gate import CallOutcome, PlannedCall

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

OUTCOME = "retry_harness.outcome"
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
    tracer: Tracer
    redact: Redactor

    @contextmanager
    def attempt(
        self,
        instance: str,
        number: int,
        model: str,
        agent: str,
    ) -> Iterator[Span]:
        """Make the span of an attempt; the caller notes its end, or an exception does."""
        # The SDK would note the words of an exception.
        with self.tracer.start_as_current_span(
            f"invoke_agent {agent}",
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": agent,
                "gen_ai.request.model": model,
                "gen_ai.conversation.id": f"{self.run}/{instance}/{number}",
                "retry_harness.run": self.run,
                "retry_harness.instance": instance,
                "retry_harness.attempt": number,
            },
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as error:
                stopped = isinstance(error, (StoppedError, KeyboardInterrupt))
                span.set_attribute(OUTCOME, "interrupted" if stopped else "infra_error")
                note_error(span, type(error).__name__)
                raise

    def note_messages(self, span: Span, name: str, messages: Sequence[Message]) -> None:
        """Add messages in the JSON of the conventions, without secrets."""
        if self.content:
            plain = [
                {
                    "role": message.role,
                    "parts": [{"type": "text", "content": message.content}],
                }
                for message in messages
            ]
            span.set_attribute(name, self.redact(json.dumps(plain)))

    def flush(self) -> bool:
        """Wait some seconds until all spans are sent; return whether that was enough."""
        # The SDK's own flush has no limit, and no exit of the process waits for such a thread.
        thread = threading.Thread(target=self.provider.force_flush, daemon=True)
        thread.start()
        thread.join(_FLUSH_SECONDS)
        return not thread.is_alive()


def note_error(span: Span, kind: str) -> None:
    """Say what kind of error broke the attempt or the call of ``span``."""
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)


@dataclass(frozen=True)
class CallSpans:
    """The spans of the calls of one attempt, by their tickets, below its own."""

    tracing: Tracing
    attempt: Span
    spans: dict[str, Span] = field(default_factory=dict)

    def start(self, ticket: str, call: PlannedCall) -> None:
        from opentelemetry.trace import set_span_in_context

        name = call.model.removeprefix(f"{call.provider}/")
        # The thread of a call may be another one than that of its attempt.
        self.spans[ticket] = self.tracing.tracer.start_span(
            f"chat {name}",
            set_span_in_context(self.attempt),
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": call.provider,
                "gen_ai.request.model": name,
            },
        )

    def end(self, ticket: str, outcome: CallOutcome) -> None:
        span = self.spans.pop(ticket)
        if isinstance(outcome, Reply):
            _note_reply(span, outcome)
            message = Message("assistant", outcome.content)
            self.tracing.note_messages(span, "gen_ai.output.messages", [message])
        else:
            note_error(span, type(outcome).__name__)
            if self.tracing.content:  # providers quote prompts
                span.set_attribute("error.message", self.tracing.redact(outcome.error))
        span.end()


def _note_reply(span: Span, reply: Reply) -> None:
    """Add what is known of a reply, without its text."""
    span.set_attribute("gen_ai.response.model", reply.model)
    if reply.cost is not None:
        span.set_attribute("retry_harness.cost_usd", float(reply.cost))
    if reply.usage:
        counts = {
            "input_tokens": reply.usage.prompt_tokens,
            "output_tokens": reply.usage.completion_tokens,
            "cache_read.input_tokens": reply.usage.cached_tokens,
        }
        for name, count in counts.items():
            if count is not None:
                span.set_attribute(f"gen_ai.usage.{name}", count)


@cache
def make_tracing(run: str, *, enabled: bool, content: bool) -> Tracing | None:
    """Return the one tracing of this process, None without ``calls.trace``.

    Raises:
        UserError: a package or the address is missing, or a variable of OpenTelemetry is wrong.
    """
    if not enabled:
        return None
    if not any(map(os.environ.get, _ENDPOINTS)):
        raise UserError(f"calls.trace: set {_ENDPOINTS[0]} (docs/tracing.md)")
    os.environ.setdefault("OTEL_SERVICE_NAME", "swe-retry-harness")
    # The exporter repeats what fails, and each time would be a line.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        # At the exit it would wait for half a minute.
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    except (ImportError, RuntimeError, ValueError) as error:
        raise UserError(
            f"calls.trace: {error}; run `make setup-trace`, or correct the variables of "
            "OpenTelemetry (docs/tracing.md)"
        ) from error
    tracer = provider.get_tracer("retry_harness")
    return Tracing(run, content, provider, tracer, Redactor.of_environment(os.environ))
