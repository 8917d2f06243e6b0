"""The gateway by itself: what it serves, to whom, and what happens when its process is killed."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from swe_retry.agent.agentsettings import AgentSettings
from swe_retry.agent.gateway import gateway as gateway_module
from swe_retry.agent.gateway.gateway import Gateway
from swe_retry.core.errors import StoppedError
from swe_retry.llm.client import LiteLLMModel
from swe_retry.llm.dialects import DIALECTS
from swe_retry.llm.dialects.answer import Tokens
from swe_retry.llm.dialects.anthropic import Messages
from swe_retry.llm.dialects.gemini import Gemini
from swe_retry.llm.dialects.openai import Chat, Responses
from swe_retry.llm.dialects.pieces import events_of
from swe_retry.llm.gate import OpenGate
from swe_retry.llm.prices import cost_of_tokens
from tests.agent.gateway.conftest import (
    ASK,
    EDIT,
    GatewayRuns,
    agent_command,
    needs_bubblewrap,
    post,
)
from tests.support import wait_until
from tests.support.commands import Preloaded, Started
from tests.support.dialects import ADDRESSES, AGENT, MODELS, Fault, Stub, Turn

STREAM = {**ASK, "stream": True}


@pytest.fixture
def gateway(stub: Stub) -> Iterator[Gateway]:
    model = LiteLLMModel(MODELS["messages"], 0.0, 30.0, gate=OpenGate())
    with Gateway(model, AgentSettings(api=("anthropic",))) as gateway:
        yield gateway


def cost_of(model: str, tokens: Tokens) -> Decimal | None:
    _, dollars = cost_of_tokens(model, None, tokens)
    return dollars


def test_a_token_of_another_attempt_is_refused_for_good(
    gateway: Gateway, stub: Stub
) -> None:
    answer = post(gateway, ASK, x_api_key="0" * 32)
    assert answer.status == 400
    assert answer.headers["x-should-retry"] == "false"
    error = json.loads(answer.body)["error"]
    assert error["message"] == "this is not the token of the attempt"
    assert not stub.requests
    assert gateway.problem is None


def test_headers_pass_by_lists_in_both_directions(gateway: Gateway, stub: Stub) -> None:
    answer = post(
        gateway,
        ASK,
        "/v1/messages?beta=true&key=mine",
        anthropic_beta="x",
        cookie="mine",
        authorization="Bearer mine",
        x_stainless_os="Linux",
    )
    assert answer.status == 200
    assert stub.paths == ["/v1/messages?beta=true"]
    (sent,) = stub.headers
    assert sent["anthropic-beta"] == "x"
    assert sent["x-api-key"] == "sk-sentinel-ANTHROPIC_API_KEY"
    assert "mine" not in json.dumps(sent)
    assert "x-stainless-os" not in sent
    ours = {"content-type", "content-length", "transfer-encoding", "date", "server"}
    assert set(answer.headers) <= ours


def test_logins_of_the_user_for_other_programs_are_not_used(
    gateway: Gateway, stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins = "machine 127.0.0.1 login mine password of-the-user\ndefault login any\n"
    netrc = tmp_path / ".netrc"
    netrc.write_text(logins)
    netrc.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(netrc))
    assert post(gateway, ASK).status == 200
    assert "authorization" not in stub.headers[0]
    # The environment's proxy is used, and gets no login either.
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, stub.url)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://provider.invalid")
    assert post(gateway, ASK).status == 200
    assert stub.paths[1] == "http://provider.invalid/v1/messages"
    assert "authorization" not in stub.headers[1]
    assert "proxy-authorization" not in stub.headers[1]


def test_large_and_compressed_requests_pass(gateway: Gateway, stub: Stub) -> None:
    message = {"role": "user", "content": "word " * 2_000_000}
    long = {**ASK, "messages": [message]}
    assert post(gateway, long).status == 200
    assert len(json.dumps(stub.requests[0])) > 10_000_000
    packed = gzip.compress(json.dumps(ASK).encode())
    assert post(gateway, packed, content_encoding="gzip").status == 200
    assert stub.requests[1]["messages"] == ASK["messages"]
    zstd = b"\x28\xb5\x2f\xfd"
    assert post(gateway, zstd, content_encoding="zstd").status == 400
    assert post(gateway, b"[1]").status == 400
    assert len(stub.requests) == 2


def test_a_line_ends_where_the_standard_says(stub: Stub, gateway: Gateway) -> None:
    odd = "one\u2028two\u2029three\x85four"
    stub.turns = (Turn(odd),)
    assert post(gateway, STREAM).status == 200
    assert [call.content for call in gateway.calls] == [odd]
    event = {"a": "x\u2028y"}
    data = 'data: {"a": "x\u2028y"}'
    for end in ("\n", "\r\n", "\r"):
        text = f"event: e{end}{data}{end}{end}{data}{end}{end}"
        assert list(events_of(text)) == [event, event]


def test_what_stands_twice_or_is_not_known_does_not_pass(
    stub: Stub, gateway: Gateway
) -> None:
    search = '{"type": "web_search_20250305", "name": "web_search"}'
    fields = json.dumps(ASK)[1:-1]
    twice = (
        f'{{"tools": [{search}], "model": "dear", {fields}, "tools": [], '
        f'"service_tier": "x"}}'
    )
    assert post(gateway, twice.encode()).status == 200
    assert stub.requests == [STREAM]
    assert gateway.removed == {"service_tier": 1}
    path = "/v1beta/models/m:generateContent"
    refused: list[Any] = [{"googleSearch": {}}, "search", 5]
    for tools in refused:
        request = Gemini().prepare_request(path, {"tools": tools}, "m")
        assert request.body == {}
        assert request.removed == ("tools",)


def test_a_key_that_a_provider_quotes_stays_here(
    stub: Stub, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    quoted = "wrong key sk-sentinel-ANTHROPIC_API_KEY"
    monkeypatch.setattr(Fault, "words", quoted, raising=False)
    stub.faults = [Fault(400)]
    answer = post(gateway, ASK)
    assert answer.status == 400
    assert b"wrong key [redacted]" in answer.body


def test_sub_agents_with_equal_tasks_are_conversations_of_their_own(
    stub: Stub, gateway: Gateway
) -> None:
    answer = {"role": "assistant", "content": "hello"}
    question = {"role": "user", "content": "and?"}
    later = {**ASK, "messages": [*ASK["messages"], answer, question]}
    for body in (ASK, ASK, later):
        post(gateway, body)
    roles = [message.role for message in gateway.messages]
    lanes = [message.lane for message in gateway.messages]
    assert roles == ["user", "assistant"] * 3
    assert lanes == [0, 0, 0, 0, 1, 1]
    assert len(gateway.calls) == 3


def test_a_silent_provider_is_bridged_by_pings(
    gateway: Gateway, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_module, "PING", 0.1)
    stub.faults = [Fault(silent=1.0)]
    body = post(gateway, STREAM).body
    assert body.startswith(Messages.ping)
    assert body.count(Messages.ping) >= 3
    assert body.rstrip().endswith(b'{"type": "message_stop"}')
    gateway.problem = StoppedError("the run stops")
    answer = post(gateway, STREAM)
    assert answer.status == 400
    assert b'"invalid_request_error"' in answer.body


def test_probes_and_counts_are_answered_and_other_addresses_are_not(
    gateway: Gateway, stub: Stub
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port)
    connection.request("HEAD", "/")
    assert connection.getresponse().status == 200
    answer = post(gateway, ASK, "/v1/messages/count_tokens")
    assert answer.status == 200
    assert json.loads(answer.body)["input_tokens"] > 10
    for path in (
        "/v1/files",
        "/v1/chat/completions",
        "/v1/messages/batches",
        "//evil/v1/messages",
    ):
        assert post(gateway, ASK, path).status == 404, path
    assert not stub.requests


def test_the_price_of_a_cache_written_for_an_hour_is_higher() -> None:
    name = MODELS["messages"]
    five_minutes = Tokens(1500, 50, 300, 200)
    hour = Tokens(1500, 50, 300, 0, 200)
    assert str(cost_of(name, five_minutes)) == "0.0045900000"
    assert str(cost_of(name, hour)) == "0.0050400000"
    usage = {
        "input_tokens": 5,
        "output_tokens": 7,
        "cache_creation_input_tokens": 9,
        "cache_creation": {"ephemeral_1h_input_tokens": 4},
    }
    tokens = Messages().read_answer({"usage": usage}).tokens
    assert tokens == Tokens(14, 7, 0, 5, 4)


def test_the_cost_that_a_provider_reports_counts_without_a_price() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "cost": 0.0123}
    tokens = Chat().read_answer({"usage": usage}).tokens
    assert tokens is not None
    assert cost_of("some/model", tokens) == Decimal("0.0123")


@pytest.mark.parametrize("count", [-1, True, 10**12, "5", None])
def test_impossible_counts_make_a_cost_unknown(count: object) -> None:
    answer = {"usage": {"prompt_tokens": count, "completion_tokens": 1}}
    assert Chat().read_answer(answer).tokens is None


def test_a_tool_counts_as_the_agents_own_only_where_it_is_known_to_run_there() -> None:
    own: dict[str, list[Any]] = {
        "messages": [{"name": "Bash"}, {"type": "bash_20250124"}, {"type": "custom"}],
        "chat": [{"type": "function"}],
        "responses": [{"type": "function"}, {"type": "local_shell"}],
        "generateContent": [{"functionDeclarations": []}],
    }
    theirs: dict[str, list[Any]] = {
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
    for dialect in DIALECTS:
        for tool in own[dialect.name]:
            assert dialect.is_client_tool(tool), tool
        for tool in theirs[dialect.name]:
            assert not dialect.is_client_tool(tool), tool


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
    request_fields = "messages input contents tools system instructions model"
    answer_fields = "content choices output candidates usage error"
    path = "/v1beta/models/m:generateContent"
    for dialect in DIALECTS:
        for value in odd:
            body = dict.fromkeys(request_fields.split(), value)
            body["stream_options"] = value
            request = dialect.prepare_request(path, body, "m")
            dialect.conversation(request.body)
            answer = dict.fromkeys(answer_fields.split(), value)
            dialect.read_answer(answer)
            start = {**answer, "type": "message_start", "delta": value}
            unknown = {**answer, "type": "x", "delta": value}
            merged = dialect.merge_events([start, unknown])
            dialect.read_answer(merged)
            assert not dialect.is_actionable({"type": "ping"})
    assert Responses().read_answer({"output": []}).complete is False


@needs_bubblewrap
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_killed_harness_pays_for_no_journaled_call_twice(
    runs: GatewayRuns, seed: int, preloaded: Preloaded
) -> None:
    """Kill the harness, its gateway and its agent five times at random points."""
    source = random.Random(seed)
    steps = [Turn(f"Step {n}.", ("replace", EDIT)) for n in range(6)]
    turns = (*steps, Turn("It is done."))
    agent = agent_command("messages", "stream", "clock")
    arguments = runs.command_line(agent, f"agent.sandbox_read={AGENT}")
    with Stub(turns) as stub:
        stub.delay = 0.15
        env = {**os.environ, **dict.fromkeys(ADDRESSES, stub.url)}
        for _ in range(5):
            before = len(stub.requests)
            process = preloaded.start(*arguments, env=env)

            def has_called_or_ended(
                before: int = before, process: Started = process
            ) -> bool:
                if len(stub.requests) > before:
                    return True
                return process.poll() is not None

            wait_until(has_called_or_ended)
            time.sleep(source.uniform(0, 0.6))
            process.kill()
            process.communicate()
        ended = preloaded.run(*arguments, env=env)
        assert ended.returncode == 0, ended.stdout
        billed = stub.billed
    lines = runs.ledger()
    kinds = Counter(line.kind for line in lines)
    assert kinds["answered"] == len(turns), "each turn was paid for once"
    assert len({line.call for line in lines}) == len(lines)
    # A call that was sent and not journaled is charged with its bound; some were never sent.
    assert len(turns) <= billed <= len(lines)
    assert len(lines) == len(turns) + kinds["lost"]


def test_each_call_is_noted_before_it_is_sent(stub: Stub) -> None:
    sent: list[int] = []
    model = LiteLLMModel(MODELS["messages"], 0.0, 30.0, gate=OpenGate())
    access = AgentSettings(api=("anthropic",))
    note = lambda: sent.append(len(stub.requests))  # noqa: E731
    with Gateway(model, access, note_call=note) as gateway:
        assert post(gateway, b"", "/v1/messages/count_tokens").status == 200
        assert sent == [], "it called no model"
        post(gateway, ASK)
        post(gateway, ASK)
    assert sent == [0, 1]
