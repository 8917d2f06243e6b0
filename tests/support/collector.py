"""A collector of OpenTelemetry on loopback, which keeps what it receives."""

from __future__ import annotations

import time
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.servers import Handler, LoopbackServer


class _Handler(Handler):
    stub: Collector

    def respond(self) -> None:
        body = self.read_body()
        time.sleep(self.stub.delay)
        self.stub.received += f"{self.path}\n{self.headers}".encode() + body
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.stub.spans += scope.spans
        data = ExportTraceServiceResponse().SerializeToString()
        kind = {"Content-Type": "application/x-protobuf"}
        self.send_head(200, {**kind, "Content-Length": len(data)})
        self.wfile.write(data)


class Collector(LoopbackServer):
    """Takes OTLP over HTTP.

    Attributes:
        received: paths, headers and bodies of all requests, as they came.
        spans: those in them.
        delay: seconds before a request counts as received.
    """

    handler = _Handler

    def __init__(self) -> None:
        super().__init__()
        self.received = b""
        self.spans: list[Span] = []
        self.delay = 0.0

    @property
    def attempts(self) -> list[Span]:
        """The spans of attempts, in the order of their starts."""
        return self._of("invoke_agent")

    @property
    def calls(self) -> list[Span]:
        return self._of("chat")

    def _of(self, operation: str) -> list[Span]:
        spans = []
        for span in self.spans:
            if values(span).get("gen_ai.operation.name") == operation:
                spans.append(span)
        return sorted(spans, key=lambda span: span.start_time_unix_nano)


def values(span: Span) -> dict[str, Any]:
    """Return the attributes of a span."""
    attributes = {}
    for attribute in span.attributes:
        kind = attribute.value.WhichOneof("value")
        attributes[attribute.key] = getattr(attribute.value, kind) if kind else None
    return attributes
