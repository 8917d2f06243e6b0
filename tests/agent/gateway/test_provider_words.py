"""What a provider says of a call that failed reaches the agent as it was said."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from swe_retry.agent.agentsettings import AgentSettings
from swe_retry.agent.gateway.gateway import Gateway
from swe_retry.core.errors import InfrastructureError
from swe_retry.llm.client import LiteLLMModel
from swe_retry.llm.gate import OpenGate
from swe_retry.llm.provider_errors import RetryPolicy
from tests.agent.gateway.conftest import Answer, read_answer, serve_stub
from tests.support.dialects import (
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

MESSAGE = "prompt is too long: 210000 tokens > 200000 maximum"
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
        tool = {"type": "function", "function": TOOL}
        body |= {"max_tokens": 9, "messages": [USER], "tools": [tool]}
        return "/v1/chat/completions", body
    if dialect == "responses":
        tool = {"type": "function", **TOOL}
        body |= {"max_output_tokens": 9, "input": [USER], "tools": [tool]}
        return "/v1/responses", body
    method = "generateContent"
    if streamed:
        method = "streamGenerateContent?alt=sse"
    path = f"/v1beta/models/{model}:{method}"
    body = {
        "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
        "tools": [{"functionDeclarations": [TOOL]}],
        "generationConfig": {"maxOutputTokens": 9},
    }
    return path, body


@contextmanager
def gateway_of(
    dialect: str, monkeypatch: pytest.MonkeyPatch, *faults: Fault, attempts: int = 1
) -> Iterator[tuple[Gateway, Stub]]:
    retries = RetryPolicy(attempts=attempts, first_wait=0.01, longest_wait=0.05)
    turn = Turn("I look around.", ("look", {}))
    with serve_stub(monkeypatch, *faults, turns=(turn,)) as stub:
        model = LiteLLMModel(
            MODELS[dialect],
            0.0,
            30.0,
            gate=OpenGate(),
            retries=retries,
        )
        access = AgentSettings(api=(APIS[dialect],))
        with Gateway(model, access) as gateway:
            yield gateway, stub


def ask(
    gateway: Gateway, dialect: str, *, streamed: bool = True, port: int = 0
) -> Answer:
    path, body = request_of(dialect, streamed=streamed)
    port = port or gateway.port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    key = {"x-api-key": gateway.token}
    connection.request("POST", path, json.dumps(body), key)
    return read_answer(connection)


@pytest.mark.parametrize("status", [400, 413, 429, 500, 529])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_before_a_stream_passes_unchanged(
    dialect: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fault, "words", MESSAGE)
    headers = {"retry-after": "7", "x-should-retry": "true"}
    fault = Fault(status, headers)
    with gateway_of(dialect, monkeypatch, fault) as (gateway, stub):
        answer = ask(gateway, dialect)
        assert answer.status == status
        assert json.loads(answer.body) == error_body(dialect, MESSAGE)
        assert headers.items() <= answer.headers.items()
        assert ask(gateway, dialect).status == 200, "the agent may try again"
        assert len(stub.requests) == 2
    assert gateway.problem is None
    assert len(gateway.calls) == 1


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
        assert answer.status == without.status
        assert answer.body == without.body
        assert answer.body.endswith(b"(broken off)") == broken
        assert ask(gateway, dialect).status == 200, "the agent may try again"
    assert gateway.problem is None
    assert len(gateway.calls) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_after_a_ping_passes_as_an_event(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swe_retry.agent.gateway.gateway.PING", 0.05)
    name, body = error_event(dialect, Fault.words)
    fault = Fault(529, silent=0.5)
    with gateway_of(dialect, monkeypatch, fault) as (gateway, _):
        answer = ask(gateway, dialect)
    assert answer.status == 200
    assert answer.body.endswith(event_bytes(name, json.dumps(body)))


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_the_gateway_itself_repeats_is_not_seen(
    dialect: str, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [Fault(529), Fault(garbage=True), Fault(500)]
    with gateway_of(dialect, monkeypatch, *faults, attempts=4) as (gateway, stub):
        assert ask(gateway, dialect, streamed=streamed).status == 200
        assert len(stub.requests) == 4


@pytest.mark.parametrize("dialect", DIALECTS)
def test_where_the_provider_says_nothing_the_agent_may_try_again(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gateway_of(dialect, monkeypatch, Fault(garbage=True)) as (gateway, _):
        answer = ask(gateway, dialect)
        assert answer.status == 502
        assert "x-should-retry" not in answer.headers
        error = json.loads(answer.body)["error"]
        kinds = {"messages": "api_error", "gemini": None}
        assert error.get("type") == kinds.get(dialect, "server_error")
        assert error.get("status", "UNAVAILABLE") == "UNAVAILABLE"
        assert ask(gateway, dialect).status == 200
    assert gateway.problem is None


def test_an_attempt_that_ends_without_the_provider_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with gateway_of("messages", monkeypatch, Fault(), Fault(500)) as (gateway, _):
        assert ask(gateway, "messages").status == 200
        assert ask(gateway, "messages").status == 500
        assert gateway.problem is None
    assert isinstance(gateway.problem, InfrastructureError)


@pytest.mark.parametrize("status", [400, 403, 404])
def test_an_error_that_a_request_can_cause_ends_no_run(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider quotes requests, so that its words may be an agent's."""
    monkeypatch.setattr(Fault, "words", "unknown value 'insufficient_quota'")
    with gateway_of("chat", monkeypatch, Fault(status)) as (gateway, _):
        assert ask(gateway, "chat").status == status
    assert isinstance(gateway.problem, InfrastructureError)
