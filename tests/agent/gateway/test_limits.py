"""One agent cannot hurt the attempts of others: what its requests may take."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from swe_retry.agent.gateway import gateway as gateway_module
from swe_retry.agent.gateway.gateway import Gateway
from swe_retry.llm.chat import AttemptLimitError
from swe_retry.llm.wire import call_loop
from tests.agent.gateway.test_provider_words import ask, gateway_of, request_of
from tests.support import TOP, wait_until
from tests.support.dialects import Stub

HEAD = (
    "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\n"
    "content-length: {length}\r\n\r\n"
)


Pair = tuple[Gateway, Stub]


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    """A gateway, and the provider behind it."""
    with gateway_of("messages", monkeypatch) as pair:
        yield pair


def connect(gateway: Gateway) -> socket.socket:
    return socket.create_connection(("127.0.0.1", gateway.port), timeout=20)


def head_of(gateway: Gateway, length: int) -> bytes:
    """Return the head of a request with a body of ``length`` bytes."""
    return HEAD.format(token=gateway.token, length=length).encode()


def send_half(gateway: Gateway, length: int) -> socket.socket:
    """Send the head of a request and half of its body."""
    connection = connect(gateway)
    half = b" " * (length // 2)
    connection.sendall(head_of(gateway, length) + half)
    return connection


def send(gateway: Gateway, data: bytes) -> bytes:
    """Send a request and return the beginning of its answer."""
    with connect(gateway) as connection:
        connection.sendall(head_of(gateway, len(data)) + data)
        return connection.recv(1000)


def test_a_token_is_checked_before_the_body_is_read(
    pair: Pair,
) -> None:
    gateway, _ = pair
    with connect(gateway) as connection:
        head = HEAD.format(token="wrong", length=50_000_000)
        connection.sendall(head.encode())
        assert b" 400 " in connection.recv(100)


def test_bytes_in_flight_are_limited_over_all_requests(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, stub = pair
    monkeypatch.setattr(gateway_module, "_MAX_IN_FLIGHT", 2_000_000)
    with ExitStack() as stack:
        for _ in range(2):
            half = send_half(gateway, 1_999_000)
            stack.enter_context(half)
        wait_until(lambda: gateway.bytes_in_flight > 1_990_000)
        _, body = request_of("messages")
        body["system"] = "word " * 20_000
        answer = send(gateway, json.dumps(body).encode())
        assert b" 503 " in answer
        assert b"should-retry" not in answer
        assert not stub.requests
    wait_until(lambda: gateway.bytes_in_flight == 0)
    assert ask(gateway, "messages").status == 200


def test_a_request_beyond_its_bound_ends_the_attempt(pair: Pair) -> None:
    gateway, stub = pair
    gateway.settings = gateway.settings.model_copy(update={"max_request": 1})
    assert b" 413 " in send(gateway, b" " * 1_100_000)
    assert isinstance(gateway.problem, AttemptLimitError)
    assert "agent.max_request: a request has more than 1 MiB" in str(gateway.problem)
    assert ask(gateway, "messages").status == 400
    assert not stub.requests


def test_a_record_beyond_its_bound_ends_the_attempt(pair: Pair) -> None:
    gateway, stub = pair
    gateway.settings = gateway.settings.model_copy(update={"max_record": 1})
    _, body = request_of("messages")
    body["system"] = "x" * 600_000
    for _ in range(5):
        assert b" 200 " in send(gateway, json.dumps(body).encode()), "it is kept once"
    body["system"] = "y" * 600_000
    assert b" 400 " in send(gateway, json.dumps(body).encode())
    assert isinstance(gateway.problem, AttemptLimitError)
    assert "agent.max_record" in str(gateway.problem)
    assert len(stub.requests) == 5


def test_connections_are_limited(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, _ = pair
    monkeypatch.setattr(gateway_module, "_MAX_CONNECTIONS", 5)
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(connect(gateway))
        server = gateway._runner.server
        assert server is not None
        wait_until(lambda: len(server.connections) == 5)
        with connect(gateway) as connection:
            assert connection.recv(1) == b"", "it is closed at once"

    def is_answered() -> bool:
        try:
            return ask(gateway, "messages").status == 200
        except OSError:
            return False

    wait_until(is_answered)


def test_large_bodies_do_not_hold_up_the_calls_of_others(
    pair: Pair,
) -> None:
    gateway, _ = pair
    _, body = request_of("messages")
    body["model"] = "another"
    body["messages"] = [{"role": "user", "content": "x"}] * 300_000
    data = json.dumps(body).encode()
    started = time.monotonic()
    json.loads(data)
    alone = time.monotonic() - started
    head = head_of(gateway, len(data))
    gaps: list[float] = []

    async def tick() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - before)

    ticks = asyncio.run_coroutine_threadsafe(tick(), call_loop())
    try:
        with ExitStack() as stack:
            connections = []
            for _ in range(6):
                connection = stack.enter_context(connect(gateway))
                connection.sendall(head + data)
                connections.append(connection)
            for connection in connections:
                assert b" 400 " in connection.recv(100)
    finally:
        ticks.cancel()
    # A parser holds the interpreter, so that the loop waits for the end of one body.
    assert max(gaps) < 5 * alone + 0.5, (max(gaps), alone)


def test_a_request_that_cannot_be_read_is_refused_alone(
    pair: Pair,
) -> None:
    gateway, stub = pair
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    odd = b'{"model": "claude-sonnet-4-5-20250929", "messages": '
    deeper = odd + b"[" * 900 + b"]" * 900 + b"}"
    for data in (deep, deeper, b"\xff\xfe", b"5", b""):
        assert b"HTTP/1.1 " in send(gateway, data)
    _, body = request_of("messages")
    tool = {"type": "web\x1b]0;evil\x07\n" + "x" * 10_000}
    body["tools"] = [tool]
    assert b" 200 " in send(gateway, json.dumps(body).encode())
    (name,) = gateway.removed
    assert name.isprintable()
    assert len(name) < 200
    assert gateway.problem is None
    assert len(stub.requests) <= 2


QUIET = """
import http.client, json, socket, sys, time
from swe_retry.agent.agentsettings import AgentSettings
from swe_retry.agent.gateway.gateway import Gateway
from swe_retry.llm.client import LiteLLMModel
from swe_retry.llm.gate import OpenGate

model = LiteLLMModel("anthropic/claude-sonnet-4-5-20250929", 0.0, 5.0, gate=OpenGate())
with Gateway(model, AgentSettings(api=("anthropic",))) as gateway:
    head = "POST /v1/messages HTTP/1.1\\r\\nhost: x\\r\\nx-api-key: %s\\r\\n" % gateway.token
    for data in (
        b"nonsense\\r\\n\\r\\n",
        head.encode() + b"content-length: 1000\\r\\n\\r\\n{",
        head.encode() + b"content-length: 4\\r\\ncontent-encoding: gzip\\r\\n\\r\\nabcd",
        head.encode() + b"transfer-encoding: chunked\\r\\n\\r\\nZZ\\r\\n",
        b"GET /%ff%00 HTTP/1.1\\r\\nhost: \\xff\\r\\n\\r\\n",
    ):
        connection = socket.create_connection(("127.0.0.1", gateway.port))
        connection.sendall(data)
        time.sleep(0.2)
        connection.close()
    time.sleep(0.2)
print("ended", gateway.problem)
"""


def test_nothing_of_the_server_reaches_the_terminal() -> None:
    done = subprocess.run(
        [sys.executable, "-c", QUIET],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("ended None\n", "")
