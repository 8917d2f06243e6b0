"""Answers that arrive piece by piece: only silence ends them, and none is lost or unpaid."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from swe_retry.agent.formats import format_names
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.llm.chat import Reply, Usage
from swe_retry.llm.client import LiteLLMModel
from swe_retry.llm.gate import CallOutcome, Failed, OpenGate, PlannedCall
from swe_retry.llm.model_settings import ModelSettings, load_settings
from swe_retry.llm.provider_errors import RetryPolicy
from tests.llm.test_client import ASK
from tests.support.dialects import Turn
from tests.support.streams import Streamed, StreamServer

NAMES = {
    "chat": "gpt-4o",
    "messages": "anthropic/claude-sonnet-4-5",
    "responses": "gpt-5-codex",
    "gemini": "gemini/gemini-2.5-pro",
    "ollama": "ollama_chat/qwen",
}
STREAM_PATHS = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    "gemini": "/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
    "ollama": "/api/chat",
}
every_protocol = pytest.mark.parametrize("protocol", NAMES)
FEW_EVENTS = ("gemini", "responses")
SLOW = 0.3
"""Seconds between two of at least eight pieces, where silence ends a call after two."""


class Books(OpenGate):
    """A gate that keeps what it is told."""

    def __init__(self) -> None:
        self.ends: list[CallOutcome] = []
        self.arrived: list[int] = []
        self.retries: list[str] = []

    def pause(self, seconds: float, problem: str = "") -> None:
        self.retries.append(problem)

    def begin(self, call: PlannedCall) -> str:
        return ""

    def note_arrival(self, ticket: str, tokens: int) -> None:
        self.arrived.append(tokens)

    def end(self, ticket: str, outcome: CallOutcome) -> bool:
        self.ends.append(outcome)
        return True


@pytest.fixture
def books() -> Books:
    return Books()


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("OPENAI", "ANTHROPIC", "GEMINI"):
        monkeypatch.setenv(f"{name}_API_KEY", "none")
    with contextlib.ExitStack() as stack:

        def start(*answers: Streamed) -> StreamServer:
            server = stack.enter_context(StreamServer(*answers))
            monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
            for name in ("ANTHROPIC", "GEMINI", "OLLAMA"):
                monkeypatch.setenv(f"{name}_API_BASE", server.url)
            return server

        yield start


def model(name: str, gate: OpenGate, **changes: Any) -> LiteLLMModel:
    values = {"retries": RetryPolicy(1), "call_timeout": 2.0, **changes}
    return LiteLLMModel(name, 0.4, gate=gate, warn_once=lambda _: None, **values)


def fail(name: str, books: Books, **changes: Any) -> Failed:
    """Return how the only call ended."""
    with pytest.raises(InfrastructureError, match="did not answer in 1 call"):
        model(name, books, **changes).complete(ASK)
    (end,) = books.ends
    assert isinstance(end, Failed)
    return end


def what_is_said(reply: Reply) -> Any:
    calls = [(call.name, call.arguments) for call in reply.tool_calls]
    return reply.content, calls, reply.usage, reply.cost, reply.truncated


@every_protocol
def test_an_answer_may_take_many_times_the_time_out(
    serve: Any, books: Books, protocol: str
) -> None:
    pings = 8 if protocol in FEW_EVENTS else 0
    server = serve(Streamed(pause=SLOW, pings=pings))
    reply = model(NAMES[protocol], books).complete(ASK)
    assert reply.content == Streamed().turn.text
    assert reply.usage is not None
    (path,) = server.paths
    assert path == STREAM_PATHS[protocol]


@every_protocol
@pytest.mark.parametrize(
    "turn",
    [Turn("one two"), Turn("so", ("look", {"path": "a b"})), Turn("one", cut=True)],
    ids=["text", "call", "cut"],
)
def test_a_stream_is_read_as_the_answer_that_is_not_one(
    serve: Any, books: Books, protocol: str, turn: Turn
) -> None:
    if protocol == "ollama" and (turn.tool or turn.cut):
        pytest.skip("the server speaks it without these")
    tool = {"name": "look", "description": "d", "parameters": {"type": "object"}}
    server = serve(Streamed(turn), Streamed(turn, plain=True))
    asked = model(NAMES[protocol], books)
    streamed = asked.complete(ASK, [tool])
    plain = asked.complete(ASK, [tool])
    assert len(server.requests) == 2
    assert what_is_said(streamed) == what_is_said(plain)
    assert streamed.cost is not None or protocol == "ollama"
    assert streamed.exchange_sha256 == plain.exchange_sha256


@every_protocol
def test_silence_ends_a_call(serve: Any, books: Books, protocol: str) -> None:
    serve(Streamed(end="silent"))
    end = fail(NAMES[protocol], books)
    assert end.error.startswith(("silent for 2 s after about", "no answer within 2 s"))
    assert end.billed


@every_protocol
@pytest.mark.parametrize("ending", ["dies", "stops", "error"])
def test_an_answer_that_breaks_off_is_booked_by_what_arrived(
    serve: Any, books: Books, protocol: str, ending: str
) -> None:
    serve(Streamed(end=ending, error="the machine is on fire"))
    end = fail(NAMES[protocol], books)
    assert end.billed
    words = "the machine is on fire" if ending == "error" else "the answer broke off"
    assert words in end.error
    if protocol == "responses":
        return  # half of its events have no text
    assert end.usage is not None
    assert 0 < (end.usage.completion_tokens or 0) < 50
    if protocol != "ollama":
        assert end.cost is not None
        assert 0 < end.cost < Decimal("0.01")


def test_a_server_that_evaluates_a_prompt_lives(serve: Any, books: Books) -> None:
    server = serve(Streamed(pause=SLOW, pings=8, turn=Turn("hi")))
    at = f"{server.url}/v1"
    assert model("own", books, api_base=at).complete(ASK).content == "hi"


def test_what_arrives_is_reported(serve: Any, books: Books) -> None:
    serve(Streamed(pause=SLOW))
    model("gpt-4o", books).complete(ASK)
    assert books.arrived == sorted(books.arrived)
    assert 1 < len(books.arrived) <= 8
    assert 0 < books.arrived[0] < books.arrived[-1] <= 16


@pytest.mark.parametrize(
    "words",
    [
        "Your organization must be verified to stream this model.",
        "Unsupported value: 'stream' does not support true with this model.",
    ],
)
def test_a_model_that_refuses_to_stream_is_asked_for_a_whole_answer(
    serve: Any, books: Books, words: str
) -> None:
    server = serve(Streamed(refusal=words))
    for _ in range(2):
        reply = model("gpt-4o", books).complete(ASK)
        assert reply.content == Streamed().turn.text
    streamed = ["stream" in request for request in server.requests]
    assert streamed == [True, False, False], "it is remembered"
    assert all(isinstance(end, Reply) for end in books.ends)


def test_a_text_is_streamed_too(serve: Any, books: Books) -> None:
    server = serve(Streamed(pause=SLOW), Streamed(plain=True))
    texts = model("own", books, api_base=f"{server.url}/v1")
    first = texts.complete("def f():")
    assert server.requests[0]["stream_options"] == {"include_usage": True}
    assert first.content == Streamed().turn.text
    assert what_is_said(first) == what_is_said(texts.complete("def f():"))


def test_a_provider_that_refuses_the_option_is_not_asked_for_usage(
    serve: Any, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    monkeypatch.setenv("MISTRAL_API_KEY", "none")
    monkeypatch.setenv("MISTRAL_AZURE_API_BASE", f"{server.url}/v1")
    reply = model("mistral/mistral-small-latest", books).complete(ASK)
    assert server.requests[0]["stream"] is True
    assert "stream_options" not in server.requests[0]
    assert reply.usage == Usage(1500, 50, 300)


def test_a_server_that_loads_its_model_is_tried_again_with_its_words(
    serve: Any, books: Books
) -> None:
    serve(Streamed(status=503), Streamed(status=503), Streamed())
    patient = RetryPolicy(3, 0.01, 0.01)
    model("gpt-4o", books, retries=patient).complete(ASK)
    assert len(books.retries) == 2
    assert "Loading model" in books.retries[0]
    assert books.retries[0].startswith("gpt-4o: ")
    assert "asked again in 0 s (1 of 3 tries used)" in books.retries[0]


@pytest.mark.parametrize("request_", [ASK, "def f():"], ids=["chat", "text"])
def test_parameters_of_a_file_of_models_reach_an_own_server(
    serve: Any, books: Books, request_: Any
) -> None:
    server = serve()
    parameters = {"top_k": 20, "min_p": 0.05, "top_p": 0.8}
    settings = ModelSettings(parameters=parameters)
    at = f"{server.url}/v1"
    plain = model("own", books, api_base=at).complete(request_)
    sampled = model("own", books, api_base=at, settings=settings).complete(request_)
    before, after = server.requests
    assert not parameters.keys() & before.keys()
    assert parameters.items() <= after.items()
    assert plain.exchange_sha256 != sampled.exchange_sha256


@pytest.mark.parametrize("protocol", ["ollama", "messages"])
def test_parameters_reach_a_provider_that_knows_them(
    serve: Any, books: Books, protocol: str
) -> None:
    server = serve()
    settings = ModelSettings(parameters={"top_k": 20})
    model(NAMES[protocol], books, settings=settings).complete(ASK)
    (request,) = server.requests
    assert request.get("options", request)["top_k"] == 20


def test_a_parameter_that_the_harness_sets_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    path.write_text("models: {own: {parameters: {top_k: 1, stream: false, n: 3}}}")
    problem = "models: own: parameters: .*the harness itself sets n, stream"
    with pytest.raises(UserError, match=problem):
        load_settings(path, format_names())
