"""A provider that redirects is a wrong address: neither the key nor the prompt goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from swe_retry.core.errors import UserError
from swe_retry.llm.chat import Message
from swe_retry.llm.client import LiteLLMModel
from swe_retry.llm.gate import Failed
from swe_retry.llm.provider_errors import ProviderRefusalError
from tests.agent.gateway.conftest import serve_stub
from tests.agent.gateway.test_money import RecordingGate
from tests.agent.gateway.test_provider_words import ask, gateway_of
from tests.support.dialects import DIALECTS, MODELS, Fault, Stub, Turn

KEY = "sk-of-a-test-1234"
QUERY = f"?key={KEY}#{KEY}"
STATUSES = (301, 302, 303, 307, 308)
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


@pytest.fixture
def other() -> Iterator[Stub]:
    """Another origin, which would answer."""
    with Stub((Turn("hello"),)) as stub:
        yield stub


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI", "ANTHROPIC", "GEMINI"):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)


def check(problem: Exception, stub: Stub, other: Stub) -> None:
    message = str(problem)
    assert isinstance(problem, ProviderRefusalError)
    assert isinstance(problem, UserError), "it ends the run"
    assert f"{stub.url}{stub.paths[0].partition('?')[0]}" in message
    assert f" redirects to {other.url}/v2" in message
    assert KEY not in message
    assert len(stub.requests) == 1
    assert not other.requests
    assert not other.headers


@each_dialect
@pytest.mark.parametrize("status", STATUSES)
def test_the_client_follows_no_redirection(
    monkeypatch: pytest.MonkeyPatch, other: Stub, dialect: str, status: int
) -> None:
    fault = Fault(status, {"Location": f"{other.url}/v2{QUERY}"})
    gate = RecordingGate()
    with serve_stub(monkeypatch, fault) as stub:
        model = LiteLLMModel(MODELS[dialect], 1.0, 30.0, gate=gate)
        with pytest.raises(UserError) as problem:
            model.complete([Message("user", "hello")])
    check(problem.value, stub, other)
    (outcome,) = gate.outcomes
    assert isinstance(outcome, Failed)
    assert not outcome.billed
    assert outcome.reached


@each_dialect
def test_the_gateway_follows_none_either(
    monkeypatch: pytest.MonkeyPatch, other: Stub, dialect: str
) -> None:
    fault = Fault(307, {"Location": f"{other.url}/v2{QUERY}"})
    with gateway_of(dialect, monkeypatch, fault) as (gateway, stub):
        assert ask(gateway, dialect).status == 400
    assert gateway.problem
    check(gateway.problem, stub, other)


@pytest.mark.parametrize("location", ["/v2", "http://[", "", "//user:pass@h/"])
def test_a_location_of_any_form_is_said(
    monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    with serve_stub(monkeypatch, Fault(307, {"Location": location})) as stub:
        model = LiteLLMModel(MODELS["chat"], 1.0, 30.0, gate=RecordingGate())
        with pytest.raises(UserError, match=" redirects to ") as problem:
            model.complete([Message("user", "hello")])
    assert "pass" not in str(problem.value)
    assert "\n" not in str(problem.value)
    assert len(stub.requests) == 1
