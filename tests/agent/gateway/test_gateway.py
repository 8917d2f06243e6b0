"""The gateway by itself: what it serves, to whom, and what happens when its process is killed."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import random
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.gateway import gateway as gateway_module
from agent.gateway.dialects import DIALECTS, Chat, Gemini, Messages, Responses
from agent.gateway.dialects.base import Tokens, events_of
from agent.gateway.gateway import Access, Gateway
from agent.gateway.upstream import cost_of_tokens
from llm.client import LiteLLMModel
from llm.gate import OpenGate
from tests.agent.gateway.test_runs import EDIT, ID, ledger_of, needs_bubblewrap
from tests.agent.gateway.test_runs import keys as keys  # a fixture
from tests.support import wait_until
from tests.support.commands import Preloaded
from tests.support.dialects import ADDRESSES, AGENT, MODELS, Fault, Stub, Turn

CLAUDE = "claude-sonnet-4-5-20250929"
ASK: dict[str, Any] = {
    "model": CLAUDE,
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "hello"}],
}


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    with Stub((Turn("hello"),)) as found:
        for name in ADDRESSES:
            monkeypatch.setenv(name, found.url)
        yield found


@pytest.fixture
def gateway(stub: Stub) -> Iterator[Gateway]:
    model = LiteLLMModel(MODELS["messages"], 0.0, 30.0, gate=OpenGate())
    with Gateway(model, Access(("anthropic",))) as found:
        yield found


def post(
    gateway: Gateway,
    body: Any,
    path: str = "/v1/messages",
    **headers: str,
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {
        "x-api-key": gateway.token,
        **{k.replace("_", "-"): v for k, v in headers.items()},
    }
    connection.request("POST", path, data, given)
    response = connection.getresponse()
    return response, response.read()


def test_a_token_of_another_attempt_is_refused_for_good(
    gateway: Gateway, stub: Stub
) -> None:
    response, said = post(gateway, ASK, x_api_key="0" * 32)
    assert (response.status, response.getheader("x-should-retry")) == (400, "false")
    assert (
        json.loads(said)["error"]["message"] == "this is not the token of the attempt"
    )
    assert not stub.requests and gateway.problem is None


def test_headers_pass_by_lists_in_both_directions(gateway: Gateway, stub: Stub) -> None:
    response, _ = post(
        gateway,
        ASK,
        "/v1/messages?beta=true&key=mine",
        anthropic_beta="x",
        cookie="mine",
        authorization="Bearer mine",
        x_stainless_os="Linux",
    )
    assert response.status == 200
    (sent,), (path,) = stub.headers, stub.paths
    assert sent["anthropic-beta"] == "x" and path == "/v1/messages?beta=true"
    assert sent["x-api-key"] == "sk-sentinel-ANTHROPIC_API_KEY"
    assert "mine" not in json.dumps(sent) and "x-stainless-os" not in sent
    ours = {"content-type", "content-length", "transfer-encoding", "date", "server"}
    assert {name.lower() for name, _ in response.getheaders()} <= ours


def test_logins_of_the_user_for_other_programs_are_not_used(
    gateway: Gateway,
    stub: Stub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    netrc = tmp_path / ".netrc"
    host = "127.0.0.1"
    netrc.write_text(
        f"machine {host} login mine password of-the-user\ndefault login any\n"
    )
    netrc.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(netrc))
    response, _ = post(gateway, ASK)
    assert response.status == 200 and "authorization" not in stub.headers[0]
    # The environment's proxy is used, and gets no login either.
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, stub.url)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://provider.invalid")
    response, _ = post(gateway, ASK)
    assert (
        response.status == 200
        and stub.paths[1] == "http://provider.invalid/v1/messages"
    )
    assert not {"authorization", "proxy-authorization"} & stub.headers[1].keys()


def test_large_and_compressed_requests_pass(gateway: Gateway, stub: Stub) -> None:
    long = {**ASK, "messages": [{"role": "user", "content": "word " * 2_000_000}]}
    response, _ = post(gateway, long)
    assert response.status == 200 and len(json.dumps(stub.requests[0])) > 10_000_000
    packed = gzip.compress(json.dumps(ASK).encode())
    response, _ = post(gateway, packed, content_encoding="gzip")
    assert response.status == 200 and stub.requests[1]["messages"] == ASK["messages"]
    response, _ = post(gateway, b"\x28\xb5\x2f\xfd", content_encoding="zstd")
    assert response.status == 400
    response, _ = post(gateway, b"[1]")
    assert response.status == 400 and len(stub.requests) == 2


def test_a_line_ends_where_the_standard_says(stub: Stub, gateway: Gateway) -> None:
    odd = "one\u2028two\u2029three\x85four"
    stub.turns = (Turn(odd),)
    response, _ = post(gateway, {**ASK, "stream": True})
    assert response.status == 200 and len(gateway.calls) == 1
    assert gateway.calls[0].content == odd
    for end in ("\n", "\r\n", "\r"):
        event = 'data: {"a": "x\u2028y"}'
        assert [*events_of(f"event: e{end}{event}{end}{end}{event}{end}{end}")] == [
            {"a": "x\u2028y"}
        ] * 2


def test_what_stands_twice_or_is_not_known_does_not_pass(
    stub: Stub, gateway: Gateway
) -> None:
    search = '{"type": "web_search_20250305", "name": "web_search"}'
    whole = json.dumps(ASK)[:-1]
    twice = (
        f'{{"tools": [{search}], "model": "dear", {whole[1:]}, "tools": [], '
        f'"service_tier": "x"}}'
    )
    response, _ = post(gateway, twice.encode())
    assert response.status == 200
    assert stub.requests == [ASK] and gateway.removed == {"service_tier": 1}
    for tools in ({"googleSearch": {}}, "search", 5):
        request = Gemini().prepare_request(
            "/v1beta/models/m:generateContent", {"tools": tools}, "m", web=False
        )
        assert request.body == {} and request.removed == ("tools",)


def test_bounds_count_every_answer_that_is_asked_for(gateway: Gateway) -> None:
    dialects = {dialect.name: dialect for dialect in DIALECTS}
    limits = {"max_tokens": 1, "max_completion_tokens": 500, "n": 3}
    assert (
        dialects["chat"].output_limit(limits) == 500
        and dialects["chat"].answer_count(limits) == 3
    )
    asked = {"generationConfig": {"candidateCount": 4}}
    assert dialects["generateContent"].answer_count(asked) == 4


def test_a_key_that_a_provider_quotes_stays_here(
    stub: Stub, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Fault, "words", "wrong key sk-sentinel-ANTHROPIC_API_KEY", raising=False
    )
    stub.faults = [Fault(400)]
    response, said = post(gateway, ASK)
    assert response.status == 400 and b"wrong key [redacted]" in said


def test_sub_agents_with_equal_tasks_are_conversations_of_their_own(
    stub: Stub, gateway: Gateway
) -> None:
    for _ in range(2):
        post(gateway, ASK)
    answer = {"role": "assistant", "content": "hello"}
    more = {
        **ASK,
        "messages": [*ASK["messages"], answer, {"role": "user", "content": "and?"}],
    }
    post(gateway, more)
    roles = [message.role for message in gateway.messages]
    assert roles == ["user", "assistant", "user", "assistant", "user", "assistant"]
    assert [message.lane for message in gateway.messages] == [0] * 4 + [1] * 2
    assert len(gateway.calls) == 3


def test_a_silent_provider_is_bridged_by_pings(
    gateway: Gateway, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_module, "PING", 0.1)
    stub.faults = [Fault(silent=1.0)]
    _, said = post(gateway, {**ASK, "stream": True})
    assert said.startswith(Messages.ping) and said.count(Messages.ping) >= 3
    assert said.rstrip().endswith(b'{"type": "message_stop"}')
    stub.faults = [Fault(400, silent=0.5)]
    response, said = post(gateway, {**ASK, "stream": True})
    assert response.status == 200 and b'"invalid_request_error"' in said


def test_probes_and_counts_are_answered_and_other_addresses_are_not(
    gateway: Gateway, stub: Stub
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port)
    connection.request("HEAD", "/")
    assert connection.getresponse().status == 200
    response, said = post(gateway, ASK, "/v1/messages/count_tokens")
    assert response.status == 200 and json.loads(said)["input_tokens"] > 10
    for path in (
        "/v1/files",
        "/v1/chat/completions",
        "/v1/messages/batches",
        "//evil/v1/messages",
    ):
        response, _ = post(gateway, ASK, path)
        assert response.status == 404, path
    assert not stub.requests


def test_the_price_of_a_cache_written_for_an_hour_is_higher() -> None:
    name = MODELS["messages"]
    five = Tokens(1500, 50, 300, 200)
    hour = Tokens(1500, 50, 300, 0, 200)
    costs = [str(cost_of_tokens(name, None, tokens)[1]) for tokens in (five, hour)]
    assert costs == ["0.0045900000", "0.0050400000"]
    usage = {"input_tokens": 5, "output_tokens": 7, "cache_creation_input_tokens": 9}
    hours = {**usage, "cache_creation": {"ephemeral_1h_input_tokens": 4}}
    assert Messages().read_answer({"usage": hours}).tokens == Tokens(14, 7, 0, 5, 4)


@pytest.mark.parametrize("count", [-1, True, 10**12, "5", None])
def test_impossible_counts_make_a_cost_unknown(count: object) -> None:
    said = {"usage": {"prompt_tokens": count, "completion_tokens": 1}}
    assert Chat().read_answer(said).tokens is None


def test_a_tool_counts_as_the_agents_own_only_where_it_is_known_to_run_there() -> None:
    by_name = {dialect.name: dialect for dialect in DIALECTS}
    own = {
        "messages": [{"name": "Bash"}, {"type": "bash_20250124"}, {"type": "custom"}],
        "chat": [{"type": "function"}],
        "responses": [{"type": "function"}, {"type": "local_shell"}],
        "generateContent": [{"functionDeclarations": []}],
    }
    theirs = {
        "messages": [{"type": "web_fetch_20250910"}, {"type": "a_new_one_20270101"}],
        "chat": [{"type": "browser"}],
        "responses": [
            {"type": "web_search_preview"},
            {"type": "mcp"},
            {"type": "namespace", "tools": [{"type": "mcp"}]},
        ],
        "generateContent": [
            {"urlContext": {}},
            {"functionDeclarations": [], "googleSearch": {}},
        ],
    }
    for name, dialect in by_name.items():
        assert all(map(dialect.is_client_tool, own[name])), name
        assert not any(map(dialect.is_client_tool, theirs[name])), name


def test_hostile_requests_and_answers_are_read_without_an_error() -> None:
    odd: list[Any] = [
        None,
        5,
        "x",
        [],
        {},
        [None],
        [{"type": 5, "content": [7, {"text": []}]}],
    ]
    for dialect in DIALECTS:
        path = "/v1beta/models/m:generateContent"
        for value in odd:
            names = (
                "messages",
                "input",
                "contents",
                "tools",
                "system",
                "instructions",
                "model",
            )
            body = {**dict.fromkeys(names, value), "stream_options": value}
            request = dialect.prepare_request(path, body, "m", web=False)
            dialect.conversation(request.body)
            answer = dict.fromkeys(
                ("content", "choices", "output", "candidates", "usage", "error"), value
            )
            dialect.read_answer(answer)
            events = []
            for kind in ("message_start", "x"):
                events.append({**answer, "type": kind, "delta": value})
            dialect.read_answer(dialect.merge_events(events))
            assert not dialect.is_actionable({"type": "ping"})
    assert Responses().read_answer({"output": []}).complete is False


@needs_bubblewrap
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_killed_harness_pays_for_no_journaled_call_twice(
    seed: int,
    tmp_path: Path,
    cache: Path,
    preloaded: Preloaded,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kill the harness, its gateway and its agent five times at random points."""
    random_ = random.Random(seed)
    turns = (
        *[Turn(f"Step {n}.", ("replace", EDIT)) for n in range(6)],
        Turn("It is done."),
    )
    python = str(Path(sys.executable).resolve())
    agent = shlex.join(
        [python, str(AGENT), "messages", "{model}", "{message_file}", "stream", "clock"]
    )
    with Stub(turns) as stub:
        stub.delay = 0.15
        env = {**os.environ, **dict.fromkeys(ADDRESSES, stub.url)}
        words = [
            "--dataset",
            "demo",
            "--instances",
            ID,
            "--models",
            MODELS["messages"],
            "--tries",
            "1",
            "--run",
            "r",
            "--out",
            str(tmp_path),
            "--set",
            f"folders.cache={cache}",
            "--environment",
            "none",
            "--agent",
            f"command:{agent}",
            "--set",
            "agent.api=anthropic",
            "--set",
            "agent.sandbox=closed",
            "--set",
            f"agent.sandbox_read={AGENT}",
        ]
        for _ in range(5):
            seen = len(stub.requests)
            process = preloaded.start(*words, env=env)
            wait_until(lambda: len(stub.requests) > seen or process.poll() is not None)  # noqa: B023
            time.sleep(random_.uniform(0, 0.6))
            process.kill()
            process.communicate()
        ended = preloaded.run(*words, env=env)
        assert ended.returncode == 0, ended.stdout
        billed = stub.billed
    lines = ledger_of(tmp_path)
    lost = [line for line in lines if line.kind == "lost"]
    answered = [line for line in lines if line.kind == "answered"]
    assert len(answered) == len(turns), "each turn was paid for once"
    assert len({line.call for line in lines}) == len(lines)
    # A call that was sent and not journaled is charged with its bound; some were never sent.
    assert len(turns) <= billed <= len(lines) == len(turns) + len(lost)
