"""A proxy on which nodes of a cluster reach a package index, and which can refuse them."""

from __future__ import annotations

import select
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_CHUNK = 1 << 16
_SECONDS = 60.0


class ConnectProxy:
    """Connects those who ask it with ``CONNECT``, from the network of the thread that serves.

    The port is opened in the network of the thread that makes it. A context manager; ``hosts``
    are those with their ports that it connected to.
    """

    def __init__(self, host: str) -> None:
        self.hosts: list[str] = []
        self.refuses = True
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_CONNECT(self) -> None:
                if proxy.refuses:
                    self.send_error(403)
                    return
                proxy.hosts.append(self.path)
                name, _, port = self.path.rpartition(":")
                with socket.create_connection((name, int(port)), _SECONDS) as server:
                    self.send_response(200)
                    self.end_headers()
                    _copy_both_ways(self.connection, server)
                self.close_connection = True

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer((host, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def url(self) -> str:
        return "http://{}:{}".format(*self._server.server_address)

    def __enter__(self) -> ConnectProxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _copy_both_ways(client: socket.socket, server: socket.socket) -> None:
    """Copy until one of the two sockets ends or both are silent."""
    targets = {client: server, server: client}
    while True:
        ready, _, _ = select.select([client, server], [], [], _SECONDS)
        if not ready:
            return
        for source in ready:
            chunk = source.recv(_CHUNK)
            if not chunk:
                return
            targets[source].sendall(chunk)
