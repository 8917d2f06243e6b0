"""An agent's calls are answered piece by piece behind the gateway, however it asks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from swe_retry.agent.agentsettings import AgentSettings
from swe_retry.agent.gateway.gateway import Gateway
from swe_retry.llm.client import LiteLLMModel
from swe_retry.llm.dialects.pieces import events_of
from swe_retry.llm.gate import Failed
from swe_retry.llm.provider_errors import RetryPolicy
from tests.agent.gateway.conftest import BY_NAME, post
from tests.llm.test_streams import Books
from tests.support.dialects import ADDRESSES, APIS, MODELS, Turn, _response
from tests.support.streams import PATHS, Streamed, StreamServer

PROTOCOLS = tuple(MODELS)
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
SLOW = 0.3
CALL = Turn("I look.", ("look", {"path": "a b"}))
Serve = Callable[..., StreamServer]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(*answers: Streamed) -> StreamServer:
            server = stack.enter_context(StreamServer(*answers))
            for name in ADDRESSES:
                monkeypatch.setenv(name, server.url)
            return server

        yield start


def send(
    protocol: str, books: Books, *, streamed: bool, tries: int = 1, **more: Any
) -> tuple[int, Any]:
    """Return the status of the answer, and it as it is not streamed."""
    model = LiteLLMModel(
        MODELS[protocol],
        0.0,
        2.0,
        gate=books,
        retries=RetryPolicy(tries, 0.01, 0.01),
        warn_once=lambda _: None,
    )
    with Gateway(model, AgentSettings(api=(APIS[protocol],))) as gateway:
        limit = {"max_tokens": 99}
        body: dict[str, Any] = {"model": gateway.model_name, **(more or limit)}
        message = {"role": "user", "content": "hello"}
        path = PATHS[protocol]
        if protocol == "gemini":
            body = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
            if streamed:
                path = path.replace(":gen", ":streamGen")
        elif protocol == "responses":
            body = {"model": gateway.model_name, "input": "hello"}
        else:
            body["messages"] = [message]
        if streamed and protocol != "gemini":
            body["stream"] = True
        answer = post(gateway, body, path)
    text = answer.body.decode()
    if not streamed:
        return answer.status, json.loads(text)
    name = protocol.replace("gemini", "generateContent")
    return answer.status, BY_NAME[name].merge_events(list(events_of(text)))


@every_protocol
@pytest.mark.parametrize("streamed", [True, False])
def test_a_slow_answer_arrives_whole(
    serve: Serve, protocol: str, streamed: bool
) -> None:
    server = serve(Streamed(CALL, pause=SLOW, pings=8))
    books = Books()
    status, answer = send(protocol, books, streamed=streamed)
    assert status == 200
    assert answer == _response(protocol, CALL)
    (path,) = server.paths
    assert server.requests[0].get("stream") or ":streamGenerateContent" in path
    assert books.arrived or protocol in ("gemini", "responses"), "few events"


@every_protocol
def test_silence_ends_a_call_and_the_next_is_the_answer(
    serve: Serve, protocol: str
) -> None:
    serve(Streamed(end="silent"), Streamed(end="dies"), Streamed())
    books = Books()
    status, answer = send(protocol, books, streamed=False, tries=3)
    assert status == 200
    assert answer == _response(protocol, Streamed().turn)
    silent, dead, _ = books.ends
    assert isinstance(silent, Failed)
    assert isinstance(dead, Failed)
    assert silent.error.startswith(("silent for 2 s", "no answer within 2 s"))
    assert silent.billed
    assert silent.cost is not None
    assert dead.billed
    assert len(books.retries) == 2


@every_protocol
def test_an_agent_that_wants_no_stream_gets_no_error_as_an_answer(
    serve: Serve, protocol: str
) -> None:
    serve(Streamed(end="error", error="the machine is on fire"))
    status, answer = send(protocol, Books(), streamed=False)
    assert status == 502
    assert "the machine is on fire" in json.dumps(answer["error"])


@every_protocol
def test_servers_that_stream_nothing_answer_as_before(
    serve: Serve, protocol: str
) -> None:
    server = serve(Streamed(CALL, refusal="cannot stream"), Streamed(CALL, plain=True))
    for requests in (2, 3):
        assert send(protocol, Books(), streamed=False) == (
            200,
            _response(protocol, CALL),
        )
        assert len(server.requests) == requests


@pytest.mark.parametrize(
    ("written", "calls"), [(9_000, 1), (15_500, 2)], ids=["window", "limit"]
)
def test_an_answer_that_the_window_cut_off_is_not_asked_for_again(
    serve: Serve, written: int, calls: int
) -> None:
    cut = Turn("one two", tokens=(1500, written, 0, 0), cut=True)
    server = serve(Streamed(cut))
    send("chat", Books(), streamed=False, max_completion_tokens=30_000)
    assert [request["max_completion_tokens"] for request in server.requests] == (
        [16_000, 30_000][:calls]
    )


SAMPLING = {"top_k": 20, "min_p": 0.05, "repetition_penalty": 1.1}


@pytest.mark.parametrize("own", [True, False])
def test_a_server_of_one_s_own_samples_as_the_agent_says(own: bool) -> None:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        **SAMPLING,
        "return_token_ids": True,
        "lora": [1],
        "n": 3,
    }
    request = BY_NAME["chat"].prepare_request(
        "/v1/chat/completions", body, "m", own=own
    )
    expected = {*SAMPLING, "return_token_ids"}
    assert expected & request.body.keys() == (expected if own else set())
    assert {"lora", "n"} <= {*request.removed}
