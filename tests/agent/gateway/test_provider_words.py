"""What a provider says of a call that failed reaches the agent as it was said."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agent.gateway.gateway import Access, Gateway
from core.errors import InfrastructureError
from llm.client import LiteLLMModel
from llm.gate import OpenGate
from llm.provider_errors import RetryPolicy
from tests.support.dialects import (
    ADDRESSES,
    APIS,
    DIALECTS,
    MODELS,
    Fault,
    Stub,
    Turn,
    error_body,
    error_event,
    event_bytes,
)

WORDS = "prompt is too long: 210000 tokens > 200000 maximum"
USER = {"role": "user", "content": "hello"}
TOOL = {"name": "look", "description": "Look.", "parameters": {"type": "object"}}


def request_of(dialect: str, *, streamed: bool = True) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a request that offers one tool."""
    model = MODELS[dialect].rpartition("/")[2]
    body: dict[str, Any] = {"model": model, "stream": streamed}
    if dialect == "messages":
        tool = {"name": "look", "input_schema": {"type": "object"}}
        body |= {"max_tokens": 9, "messages": [USER], "tools": [tool]}
        return "/v1/messages", body
    if dialect == "chat":
        body |= {"messages": [USER], "tools": [{"type": "function", "function": TOOL}]}
        body["max_tokens"] = 9
        return "/v1/chat/completions", body
    if dialect == "responses":
        body |= {"input": [USER], "tools": [{"type": "function", **TOOL}]}
        body["max_output_tokens"] = 9
        return "/v1/responses", body
    contents = [{"role": "user", "parts": [{"text": "hello"}]}]
    tools = [{"functionDeclarations": [TOOL]}]
    method = "streamGenerateContent?alt=sse" if streamed else "generateContent"
    path = f"/v1beta/models/{model}:{method}"
    generation = {"maxOutputTokens": 9}
    return path, {"contents": contents, "tools": tools, "generationConfig": generation}


@contextmanager
def gateway_of(
    dialect: str, monkeypatch: pytest.MonkeyPatch, *faults: Fault, attempts: int = 1
) -> Iterator[tuple[Gateway, Stub]]:
    retries = RetryPolicy(attempts=attempts, first_wait=0.01, longest_wait=0.05)
    turn = Turn("I look around.", ("look", {}))
    with Stub((turn,), faults) as stub:
        for name in ADDRESSES:
            monkeypatch.setenv(name, stub.url)
        model = LiteLLMModel(
            MODELS[dialect], 0.0, 30.0, gate=OpenGate(), retries=retries
        )
        with Gateway(model, Access((APIS[dialect],))) as gateway:
            yield gateway, stub


def ask(
    gateway: Gateway, dialect: str, *, streamed: bool = True, port: int = 0
) -> tuple[int, bytes, dict[str, str]]:
    """Return status, body and headers; the body ends in ``(broken off)`` where it did."""
    path, body = request_of(dialect, streamed=streamed)
    port = port or gateway.port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", path, json.dumps(body), {"x-api-key": gateway.token})
    response = connection.getresponse()
    headers = {name.lower(): value for name, value in response.getheaders()}
    try:
        data = response.read()
    except http.client.IncompleteRead as error:
        data = error.partial + b"(broken off)"
    return response.status, data, headers


@pytest.mark.parametrize("status", [400, 413, 429, 500, 529])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_before_a_stream_passes_unchanged(
    dialect: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fault, "words", WORDS)
    asked_to_wait = {"retry-after": "7", "x-should-retry": "true"}
    fault = Fault(status, asked_to_wait)
    with gateway_of(dialect, monkeypatch, fault) as (gateway, stub):
        answer, data, headers = ask(gateway, dialect)
        assert answer == status
        assert json.loads(data) == error_body(dialect, WORDS)
        assert asked_to_wait.items() <= headers.items()
        assert ask(gateway, dialect)[0] == 200, "the agent may try again"
        assert len(stub.requests) == 2
    assert gateway.problem is None and len(gateway.calls) == 1


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_that_fails_passes_as_it_came(
    dialect: str, broken: bool, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = Fault(broken=broken, error_event=not broken, late=late)
    with gateway_of(dialect, monkeypatch, fault, fault) as (gateway, stub):
        without = ask(gateway, dialect, port=stub.server.server_port)
        answer = ask(gateway, dialect)
        assert answer[:2] == without[:2]
        assert answer[1].endswith(b"(broken off)") == broken
        assert ask(gateway, dialect)[0] == 200, "the agent may try again"
    assert gateway.problem is None and len(gateway.calls) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_after_a_ping_passes_as_an_event(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.gateway.gateway.PING", 0.05)
    name, body = error_event(dialect, Fault.words)
    fault = Fault(529, silent=0.5)
    with gateway_of(dialect, monkeypatch, fault) as (gateway, _):
        status, data, _ = ask(gateway, dialect)
    assert status == 200 and data.endswith(event_bytes(name, json.dumps(body)))


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_the_gateway_itself_repeats_is_not_seen(
    dialect: str, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [Fault(529), Fault(garbage=True), Fault(500)]
    with gateway_of(dialect, monkeypatch, *faults, attempts=4) as (gateway, stub):
        assert ask(gateway, dialect, streamed=streamed)[0] == 200
        assert len(stub.requests) == 4


@pytest.mark.parametrize("dialect", DIALECTS)
def test_where_the_provider_says_nothing_the_agent_may_try_again(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gateway_of(dialect, monkeypatch, Fault(garbage=True)) as (gateway, _):
        status, data, headers = ask(gateway, dialect)
        error = json.loads(data)["error"]
        assert status == 502 and "x-should-retry" not in headers
        kinds = {"messages": "api_error", "gemini": None}
        assert error.get("type") == kinds.get(dialect, "server_error")
        assert error.get("status", "UNAVAILABLE") == "UNAVAILABLE"
        assert ask(gateway, dialect)[0] == 200
    assert gateway.problem is None


def test_an_attempt_that_ends_without_the_provider_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with gateway_of("messages", monkeypatch, Fault(), Fault(500)) as (gateway, _):
        assert ask(gateway, "messages")[0] == 200
        assert ask(gateway, "messages")[0] == 500
        assert gateway.problem is None
    assert isinstance(gateway.problem, InfrastructureError)


@pytest.mark.parametrize("status", [400, 403, 404])
def test_an_error_that_a_request_can_cause_ends_no_run(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider quotes requests, so that its words may be an agent's."""
    monkeypatch.setattr(Fault, "words", "unknown value 'insufficient_quota'")
    with gateway_of("chat", monkeypatch, Fault(status)) as (gateway, _):
        assert ask(gateway, "chat")[0] == status
    assert isinstance(gateway.problem, InfrastructureError)
