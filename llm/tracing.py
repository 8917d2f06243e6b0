"""Report attempts and their calls as spans of OpenTelemetry (``--trace``).

The names are callbacks of litellm, which knows where each service takes spans, and by which
variables. The spans are ours: one of an attempt, and below it one of each call that passes the
gate, as those of coding agents of others do. litellm's own logging would not see these, and it
gets all text. Attributes are those of OpenTelemetry's GenAI conventions, version 0.1.0.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import repeat
from typing import Any

from core.errors import StoppedError, UserError
from core.redaction import Redactor
from llm.chat import Message, Reply
from llm.gate import Answered, CallOutcome, Gate, PlannedCall
from llm.registry import the_litellm

_PATIENCE = 5.0  # seconds for what was not sent yet
_ALIASES = {"langfuse": "langfuse_otel"}
# One of these must be set: litellm would send elsewhere without a word.
_NEEDED = {
    "otel": ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_ENDPOINT", "OTEL_EXPORTER"),
    "langfuse_otel": ("LANGFUSE_SECRET_KEY",),
}


Spans = tuple[Any, ...]
"""One for each provider."""


@dataclass(frozen=True)
class Tracing:
    """Where this process sends spans; nowhere by default.

    Attributes:
        content: with prompts, replies and words of errors, from which secrets are redacted.
        providers: of tracers.
    """

    run: str = ""
    content: bool = False
    providers: tuple[Any, ...] = ()
    redact: Redactor = field(default_factory=Redactor)

    @contextmanager
    def attempt(self, instance: str, number: int, model: str, agent: str) -> Iterator[AttemptTrace]:
        """Make a span of an attempt, which ends with the block."""
        facts = {"run": self.run, "instance": instance, "attempt": number}
        own = {f"retry_harness.{key}": value for key, value in facts.items()}
        name = f"{self.run}/{instance}/{number}"
        own |= {"gen_ai.agent.name": agent, "gen_ai.conversation.id": name}
        trace = AttemptTrace(self, self.started("invoke_agent", agent, model, own))
        try:
            yield trace
        except BaseException as error:
            stopped = isinstance(error, (StoppedError, KeyboardInterrupt))
            trace.ended("interrupted" if stopped else "infra_error", type(error).__name__)
            raise
        finally:
            for span in trace.spans:
                span.end()

    def started(
        self, operation: str, name: str, model: str, more: dict[str, Any], above: Spans = ()
    ) -> Spans:
        """Return a new span for each provider; ``above`` are those that it lies below."""
        if not self.providers:
            return ()
        from opentelemetry.context import Context
        from opentelemetry.trace import set_span_in_context

        usual = {"gen_ai.operation.name": operation, "gen_ai.request.model": model}
        places = [set_span_in_context(one, Context()) for one in above]
        return tuple(
            provider.get_tracer("retry_harness").start_span(
                f"{operation} {name}", place, attributes=usual | more
            )
            for provider, place in zip(self.providers, places or repeat(Context()), strict=False)
        )

    def texts(self, messages: Sequence[Message]) -> str:
        """Return messages in the JSON of the conventions, without secrets."""
        return self.redact(
            json.dumps(
                [
                    {"role": one.role, "parts": [{"type": "text", "content": one.content}]}
                    for one in messages
                ]
            )
        )

    def send_all(self) -> bool:
        """Wait some seconds until all is sent; return whether it was."""

        def send() -> None:
            for provider in self.providers:
                with suppress(Exception):
                    provider.force_flush()

        # No exit of the process waits for such a thread.
        sending = threading.Thread(target=send, daemon=True)
        sending.start()
        sending.join(_PATIENCE)
        return not sending.is_alive()


@dataclass(frozen=True)
class AttemptTrace:
    """An attempt and its spans."""

    tracing: Tracing
    spans: Spans

    def gate(self, gate: Gate) -> Gate:
        """Return ``gate``, whose calls become spans."""
        return TracedGate(gate, self) if self.spans else gate

    def ended(self, outcome: str, error: str = "", said: Sequence[Message] = ()) -> None:
        """Note how the attempt ended; ``error`` is the kind of what broke it."""
        found = {"retry_harness.outcome": outcome}
        if self.tracing.content:
            found["gen_ai.input.messages"] = self.tracing.texts(said)
        set_all(self.spans, found, error)


@dataclass(frozen=True)
class TracedGate:
    """A gate whose calls become spans."""

    inner: Gate
    trace: AttemptTrace
    open: dict[str, Spans] = field(default_factory=dict)

    def recorded(self, request_sha256: str, exchange_sha256: str | None = None) -> Reply | None:
        return self.inner.recorded(request_sha256, exchange_sha256)

    def pause(self, seconds: float) -> None:
        self.inner.pause(seconds)

    def begin(self, ask: PlannedCall) -> str:
        ticket, name = self.inner.begin(ask), ask.model.removeprefix(f"{ask.provider}/")
        by, above = {"gen_ai.provider.name": ask.provider}, self.trace.spans
        self.open[ticket] = self.trace.tracing.started("chat", name, name, by, above)
        return ticket

    def end(self, ticket: str, outcome: CallOutcome) -> bool:
        found: dict[str, Any] = {}
        tracing, spans, error = self.trace.tracing, self.open.pop(ticket), type(outcome).__name__
        if isinstance(outcome, Answered):
            reply, error = outcome.reply, ""
            found["gen_ai.response.model"] = reply.model
            if reply.cost is not None:
                found["retry_harness.cost_usd"] = float(reply.cost)
            if used := reply.usage:
                found["gen_ai.usage.input_tokens"] = used.prompt_tokens
                found["gen_ai.usage.output_tokens"] = used.completion_tokens
                found["gen_ai.usage.cache_read.input_tokens"] = used.cached_tokens
            if tracing.content:
                said = Message("assistant", reply.content, reply.tool_calls)
                found["gen_ai.output.messages"] = tracing.texts([said])
        elif tracing.content:  # providers quote prompts
            found["error.message"] = tracing.redact(outcome.error)
        set_all(spans, found, error)
        for span in spans:
            span.end()
        return self.inner.end(ticket, outcome)


def set_all(spans: Spans, attributes: dict[str, Any], error: str) -> None:
    """Set attributes of spans, and where there is one the kind of an error."""
    for span in spans:
        span.set_attributes(attributes)
        if error:
            from opentelemetry.trace import StatusCode

            span.set_attribute("error.type", error)
            span.set_status(StatusCode.ERROR)


@cache
def make_tracing(names: tuple[str, ...], run: str, *, content: bool) -> Tracing:
    """Return the one tracing of this process, by the names of ``--trace``.

    Raises:
        UserError: litellm has no such callback, or cannot start it here.
    """
    if not names:
        return Tracing()
    os.environ.setdefault("OTEL_SERVICE_NAME", "swe-retry-harness")
    providers = tuple(dict.fromkeys(_provider(_ALIASES.get(name, name)) for name in names))
    # What is tried again is not worth a line.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    for provider in providers:
        atexit.unregister(provider.shutdown)  # it would wait for half a minute
    return Tracing(run, content, providers, Redactor.of_environment(os.environ))


def _provider(name: str) -> Any:  # noqa: ANN401 - litellm is untyped
    needed = _NEEDED.get(name, ())
    if needed and not any(map(os.environ.get, needed)):
        raise UserError(f"--trace {name}: set {needed[0]} (docs/tracing.md)")
    the_litellm()
    from litellm._logging import verbose_logger
    from litellm.litellm_core_utils import litellm_logging as private

    level = verbose_logger.level
    verbose_logger.setLevel(logging.CRITICAL)  # it would say over many lines why it has none
    with suppress(Exception):
        made = private._init_custom_logger_compatible_class(name, None, None)
        if provider := getattr(made, "_tracer_provider", None):
            return provider
    verbose_logger.setLevel(level)
    raise UserError(
        f"--trace {name}: litellm makes no spans with it; choose a callback of litellm that speaks "
        "OpenTelemetry, install requirements-trace.txt, set its variables (docs/tracing.md)"
    )
