"""Run one command in a running container, with input, a time limit and bounded output."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from environments.docker.engine import engine_errors

_POLL = 0.2
_ASK = 0.5
_START_SECONDS = 60.0
_END_SECONDS = 5.0
_ERRORS = 2


@dataclass(frozen=True)
class ExecEnd:
    """How a command ended.

    Attributes:
        exit_code: None if its time was over before.
        seconds: wall-clock time from its start marker, or from the request without one.
    """

    exit_code: int | None
    seconds: float


@dataclass
class Sinks:
    """Take the bytes of standard output and error; output before ``marker`` is dropped."""

    output: Callable[[bytes], None]
    errors: Callable[[bytes], None]
    marker: bytes = b""
    started: float = field(default_factory=time.monotonic)

    def take(self, stream: int, data: bytes) -> None:
        if stream == _ERRORS:
            self.errors(data)
            return
        if self.marker and data.startswith(self.marker):
            data, self.marker, self.started = data[len(self.marker) :], b"", time.monotonic()
        if data and not self.marker:
            self.output(data)

    def late(self, timeout: float) -> bool:
        """Tell whether ``timeout`` seconds have passed; the start itself may take longer."""
        allowed = timeout + (_START_SECONDS if self.marker else 0)
        return time.monotonic() - self.started > allowed


def run_exec(
    client: Any,  # noqa: ANN401 - the SDK has no types
    container: str,
    argv: Sequence[str],
    stdin: bytes,
    sinks: Sinks,
    timeout: float,
    check: Callable[[], None] = lambda: None,
    **options: object,
) -> ExecEnd:
    """Run ``argv`` in ``container``; it and its children may still run at the end.

    ``timeout`` counts from the start marker. The end of ``stdin`` is seen only by what counts
    bytes. ``options`` are those of the SDK's ``exec_create``: user, environment, workdir.
    """
    with engine_errors(), contextlib.ExitStack() as stack:
        api = client.api
        made = api.exec_create(container, list(argv), stdin=bool(stdin), **options)["Id"]
        connection = api.exec_start(made, socket=True)
        stack.callback(_close, connection)
        raw = getattr(connection, "_sock", connection)
        stack.callback(_hang_up, raw)
        early = bytearray(early_bytes(connection))
        if stdin:
            raw.settimeout(_START_SECONDS)
            raw.sendall(stdin)
        raw.settimeout(_POLL)
        ended = _pump(lambda: api.exec_inspect(made), raw, early, sinks, timeout, check)
        seconds = time.monotonic() - sinks.started
        code = exit_code_of(api, made) if ended else None
        return ExecEnd(-1 if ended and code is None else code, seconds)


def early_bytes(connection: Any) -> bytes:  # noqa: ANN401
    """Return the output that came in one piece with the head of the engine's reply.

    On a busy machine a command may have written before the head is read. The HTTP library then has
    these bytes in its buffer, and the SDK, which reads the socket below it, loses them.
    """
    buffered = getattr(connection, "_response", None)
    for name in ("raw", "_fp", "fp"):
        buffered = getattr(buffered, name, None)
    if buffered is None or not hasattr(buffered, "peek"):
        return b""
    raw = getattr(connection, "_sock", connection)
    raw.setblocking(False)
    try:
        return bytes(buffered.peek() or b"")
    except (OSError, ValueError):
        return b""
    finally:
        raw.settimeout(_START_SECONDS)


def _close(connection: Any) -> None:  # noqa: ANN401
    """Close the reply above the connection first: Python 3.13 warns of one whose file is closed."""
    if response := getattr(connection, "_response", None):
        response.close()
    connection.close()


def _hang_up(raw: Any) -> None:  # noqa: ANN401
    """End a connection that others refer to: an engine waits for a reader of endless output."""
    with contextlib.suppress(OSError):
        raw.shutdown(socket.SHUT_RDWR)
    raw.close()


def _pump(
    inspect: Callable[[], Any],
    raw: Any,  # noqa: ANN401
    frames: bytearray,
    sinks: Sinks,
    timeout: float,
    check: Callable[[], None],
) -> bool:
    asked = time.monotonic()
    while not sinks.late(timeout):
        check()
        for stream, data in _frames(frames):
            sinks.take(stream, data)
        try:
            chunk = raw.recv(1 << 16)
            if not chunk:
                return True
            frames += chunk
        except TimeoutError:
            if time.monotonic() - asked > _ASK:
                if not inspect()["Running"]:
                    return True
                asked = time.monotonic()
    for stream, data in _frames(frames):
        sinks.take(stream, data)
    return False


def _frames(buffer: bytearray) -> Iterator[tuple[int, bytes]]:
    # A frame is: stream, three zeros, length in 4 bytes, data.
    while len(buffer) >= 8 and len(buffer) >= (end := 8 + int.from_bytes(buffer[4:8], "big")):
        yield buffer[0], bytes(buffer[8:end])
        del buffer[:end]


def exit_code_of(api: Any, made: str) -> int | None:  # noqa: ANN401
    """Return an exit code, which the engine may know a moment after the end of the output.

    It is None where the command does not end although it has closed its output.
    """
    end = time.monotonic() + _END_SECONDS
    while (state := api.exec_inspect(made))["Running"] and time.monotonic() < end:
        time.sleep(_POLL / 10)
    code: int | None = state["ExitCode"]
    return code
