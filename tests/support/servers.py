"""Servers on a free port of loopback, which answer as a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

Server = TypeVar("Server", bound="LoopbackServer")


class Handler(BaseHTTPRequestHandler):
    """Handles the requests of one connection for its ``stub``, and logs nothing."""

    stub: Any

    def respond(self) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        self.respond()

    def do_HEAD(self) -> None:
        self.respond()

    def do_POST(self) -> None:
        self.respond()

    def read_body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def send_head(self, status: int, headers: Mapping[str, Any]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()

    def send_json(
        self, value: object, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        data = json.dumps(value).encode()
        sizes = {"Content-Type": "application/json", "Content-Length": len(data)}
        self.send_head(status, {**sizes, **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


class LoopbackServer:
    """A context manager; ``handler`` is the class that answers."""

    handler: type[Handler]
    host = "127.0.0.1"

    def __init__(self) -> None:
        handler = type("Handler", (self.handler,), {"stub": self})
        self.server = ThreadingHTTPServer((self.host, 0), handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(
            target=self.server.serve_forever, args=(0.02,), daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.server.server_port}"

    def __enter__(self: Server) -> Server:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
