"""A collector of OpenTelemetry on loopback, which keeps what it receives."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """Takes OTLP over HTTP.

    Attributes:
        received: paths, headers and bodies of all requests, as they came.
        spans: those in them.
        delay: seconds before a request counts as received.
    """

    def __init__(self) -> None:
        self.received = b""
        self.spans: list[Span] = []
        self.delay = 0.0
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                time.sleep(collector.delay)
                collector.received += f"{self.path}\n{self.headers}".encode() + body
                request = ExportTraceServiceRequest.FromString(body)
                collector.spans += [
                    span
                    for resource in request.resource_spans
                    for scope in resource.scope_spans
                    for span in scope.spans
                ]
                data = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(
            target=self.server.serve_forever, args=(0.02,), daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> Collector:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def attempts(self) -> list[Span]:
        """The spans of attempts, in the order of their starts."""
        return self._of("invoke_agent")

    @property
    def calls(self) -> list[Span]:
        return self._of("chat")

    def _of(self, operation: str) -> list[Span]:
        found = []
        for s in self.spans:
            if values(s).get("gen_ai.operation.name") == operation:
                found.append(s)
        return sorted(found, key=lambda span: span.start_time_unix_nano)


def values(span: Span) -> dict[str, Any]:
    """Return the attributes of a span."""
    found = {}
    for one in span.attributes:
        kind = one.value.WhichOneof("value")
        found[one.key] = getattr(one.value, kind) if kind else None
    return found
