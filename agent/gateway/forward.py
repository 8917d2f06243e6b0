"""Start a command with a way to the gateway: ``python forward.py PORT SOCKET ARGV…``.

A sandbox without network has a loopback interface of its own. This listens there on PORT, passes
each connection on to the unix socket SOCKET, and ends with the command's exit code.

This file runs by itself in an isolated interpreter and imports nothing else of the harness.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time


def passed_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            end.close()


def listen(port: int, path: str) -> None:
    server = socket.create_server(("127.0.0.1", port), backlog=128)

    def accept() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:  # too many files; one of them will be closed
                time.sleep(0.1)
                continue
            try:
                gateway = socket.socket(socket.AF_UNIX)
                gateway.connect(path)
            except OSError:
                client.close()
                continue
            for ends in ((client, gateway), (gateway, client)):
                threading.Thread(target=passed_on, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def main(argv: list[str]) -> int:
    listen(int(argv[0]), argv[1])
    code = subprocess.run(argv[2:], check=False).returncode
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
