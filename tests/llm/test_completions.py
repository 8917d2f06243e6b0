"""Options of sampling and plain-text completions, as a real server receives them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.llm.chat import (
    REPLY,
    Message,
    Reply,
    RequestRefusedError,
    ToolCall,
    Usage,
    WindowExceededError,
    exchange_sha256,
    reply_sha256,
    request_sha256,
)
from swe_retry.llm.client import LiteLLMModel
from swe_retry.llm.gate import OpenGate, PlannedCall
from swe_retry.llm.model_settings import ModelSettings
from swe_retry.llm.options import Sampling
from swe_retry.llm.prices import Price
from swe_retry.llm.provider_errors import RetryPolicy
from swe_retry.llm.replay import ReplayModel
from tests.llm.test_client import ASK, model
from tests.support.modelserver import VLLM, ModelServer
from tests.support.provider import Answer, Provider

PROMPT = "## Code Before:\nx = 1 \n## Instruction:\nRename é.\n## Code After:\n"
STOP = (
    "## Code After:",
    "## Instruction:",
    "## Code Before:",
    "## Test Case:",
    "## Explanation:",
)
EVERY = Sampling(top_p=0.95, stop=STOP, seed=0)
LONG = Answer(
    status=400,
    error={
        "code": "context_length_exceeded",
        "message": "This model's maximum context length is 4096 tokens. You requested 5000.",
    },
)


def ask(served: LiteLLMModel, text: bool) -> Reply:
    if text:
        return served.complete(PROMPT)
    return served.complete(ASK)


both = pytest.mark.parametrize("text", [False, True], ids=["chat", "text"])


@both
def test_options_that_are_not_set_are_not_sent(provider: Provider, text: bool) -> None:
    provider.will_answer("hi")
    ask(model(provider, name="own/model"), text)
    (request,) = provider.requests
    expected: dict[str, Any] = {
        "model": "own/model",
        "temperature": 0.4,
        # The limit of a reply where nothing else limits it.
        "max_tokens": 8192,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if text:
        path = "/v1/completions"
        expected["prompt"] = PROMPT
    else:
        path = "/v1/chat/completions"
        expected["messages"] = request["messages"]
    assert request == expected
    assert provider.paths == [path]


@both
@pytest.mark.parametrize(
    ("name", "served"),
    [
        ("base", "base"),
        ("openai/base", "base"),
        ("openai/openai/gpt-oss-20b", "openai/gpt-oss-20b"),
        ("hosted/base", "hosted/base"),
    ],
)
def test_a_server_gets_the_name_without_the_provider(
    provider: Provider, name: str, served: str, text: bool
) -> None:
    provider.will_answer("hi")
    ask(model(provider, name=name), text)
    (request,) = provider.requests
    assert request["model"] == served


@both
def test_every_option_is_sent_as_it_is(provider: Provider, text: bool) -> None:
    provider.will_answer("hi")
    warnings: list[str] = []
    sampled = model(provider, warnings, sampling=EVERY, max_output_tokens=3072)
    ask(sampled, text)
    (request,) = provider.requests
    assert request["stop"] == list(STOP), "litellm alone would send four"
    sent = {}
    for name in ("temperature", "top_p", "seed", "max_tokens"):
        sent[name] = request[name]
    assert sent == {
        "temperature": 0.4,
        "top_p": 0.95,
        "seed": 0,
        "max_tokens": 3072,
    }
    assert "tools" not in request
    assert warnings == []


def test_an_option_that_a_model_does_not_take_is_left_out_and_said(
    provider: Provider,
) -> None:
    provider.will_answer("hi")
    warnings: list[str] = []
    o3 = model(provider, warnings, name="o3", sampling=EVERY)
    reply = o3.complete(ASK)
    (request,) = provider.requests
    assert not {"temperature", "top_p"} & request.keys()
    assert request["seed"] == 0
    assert warnings[:2] == [
        "o3 takes no temperature: none is sent",
        "o3 takes no top_p: none is sent",
    ]
    sent = {"seed": 0, "stop": list(STOP)}
    assert reply.exchange_sha256 == exchange_sha256("o3", ASK, sent)


def test_a_text_is_continued_with_usage_cost_and_truncation(provider: Provider) -> None:
    provider.will_answer(Answer("  y = 1\n", finish="length"))
    reply = model(provider).complete(PROMPT)
    assert reply.content == "  y = 1\n"
    assert reply.truncated is True
    assert reply.usage == Usage(100, 10, 0)
    assert reply.cost == Decimal("0.00035")
    assert reply.tool_calls == ()


def test_a_text_goes_to_the_address_with_its_login(provider: Provider) -> None:
    provider.will_answer("hi")
    address = provider.url.replace("http://", "http://me:secret99@")
    model(provider, api_base=address).complete("a\ud800")
    login = base64.b64encode(b"me:secret99").decode()
    assert provider.headers[0]["authorization"] == f"Basic {login}"
    assert provider.requests[0]["prompt"] == "a?"


def test_a_text_has_no_reasoning_effort(provider: Provider) -> None:
    provider.will_answer("hi")
    settings = ModelSettings(reasoning_effort="low")
    model(provider, settings=settings).complete(PROMPT)
    assert "reasoning_effort" not in provider.requests[0]


@both
def test_a_missing_usage_is_unknown(provider: Provider, text: bool) -> None:
    provider.will_answer(Answer("hi", usage=False))
    reply = ask(model(provider), text)
    assert reply.usage is None
    assert reply.cost is None


@both
@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
def test_overload_is_retried_once_for_each_try(
    provider: Provider, status: int, text: bool
) -> None:
    overload = Answer(status=status)
    provider.will_answer(overload, overload, "hi")
    assert ask(model(provider), text).content == "hi"
    assert len(provider.requests) == 3, "one request for each of our own tries"
    assert provider.requests[0] == provider.requests[2]


@both
def test_a_hang_ends_in_time(provider: Provider, text: bool) -> None:
    provider.will_answer(Answer("hi", hang=60))
    hasty = model(provider, call_timeout=1, retries=RetryPolicy(1))
    started = time.monotonic()
    with pytest.raises(InfrastructureError, match="did not answer in 1 call"):
        ask(hasty, text)
    assert time.monotonic() - started < 50


@both
def test_a_server_that_is_not_there_is_infrastructure(text: bool) -> None:
    server = Provider()
    server.server.server_close()
    with pytest.raises(InfrastructureError, match="annot connect"):
        ask(model(server), text)


NO_QUOTA = {"code": "insufficient_quota", "message": "insufficient_quota"}


@both
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, {}),
        (402, {}),
        (403, {}),
        (404, {}),
        (429, NO_QUOTA),
    ],
)
def test_refused_keys_and_accounts_stop_the_run(
    provider: Provider, status: int, error: dict[str, str], text: bool
) -> None:
    provider.will_answer(Answer(status=status, error=error))
    with pytest.raises(UserError, match="gpt-4o"):
        ask(model(provider), text)
    assert len(provider.requests) == 1


REFUSALS = {
    "bad request": Answer(status=400),
    "bad value": Answer(status=422),
    "policy": Answer(status=400, error={"code": "content_policy_violation"}),
    "moderated": Answer(status=403, error={"message": "your input was flagged"}),
    "filtered": Answer("", finish="content_filter"),
    "filtered with a message": Answer(
        "litellm.ContextWindowExceededError", finish="content_filter"
    ),
    "window": LONG,
}


@both
@pytest.mark.parametrize("reason", REFUSALS)
def test_a_full_window_is_told_from_a_refusal(
    provider: Provider, reason: str, text: bool
) -> None:
    kind = WindowExceededError if reason == "window" else RequestRefusedError
    provider.will_answer(REFUSALS[reason])
    with pytest.raises(RequestRefusedError) as error:
        ask(model(provider), text)
    assert type(error.value) is kind
    assert not re.search(r"litellm\.\w+Error: |OpenAIException", str(error.value))
    assert len(provider.requests) == 1
    again = ReplayModel((), str(error.value))
    with pytest.raises(RequestRefusedError) as error:
        again.complete(ASK)
    assert type(error.value) is kind


def test_a_provider_without_texts_is_named() -> None:
    opus = LiteLLMModel(
        "anthropic/claude-opus-4-1",
        temperature=0.0,
        call_timeout=5.0,
        gate=OpenGate(),
        warn_once=lambda _: None,
    )
    problem = "anthropic has no plain-text completions; give --api-base"
    with pytest.raises(UserError, match=problem):
        opus.complete(PROMPT)


def test_texts_share_one_connection(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler: Any = provider.server.RequestHandlerClass
    monkeypatch.setattr(handler, "protocol_version", "HTTP/1.1")
    provider.will_answer("hi")
    served = model(provider)
    for _ in range(5):
        assert served.complete(PROMPT).content == "hi"
    assert len(set(provider.ports)) == 1


def canonical(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_exchange_is_all_that_is_sent_in_the_documented_layout(
    provider: Provider,
) -> None:
    provider.will_answer("hi")
    tool = {
        "name": "f",
        "description": "d",
        "parameters": {"type": "object", "properties": {}},
    }
    call = ToolCall("f", "{}", "differs-each-time")
    conversation = [
        *ASK,
        Message("assistant", "", (call,)),
        Message("tool", "ok", (), call.id),
    ]
    settings = ModelSettings(reasoning_effort="low", max_output=9)
    served = model(
        provider,
        name="own",
        sampling=EVERY,
        settings=settings,
    )
    options = {
        "model": "own",
        "temperature": 0.4,
        "top_p": 0.95,
        "stop": list(STOP),
        "seed": 0,
        "max_tokens": 9,
    }
    messages = [
        ["system", "be brief"],
        ["user", "hello"],
        ["assistant", "", [["f", "{}"]]],
        ["tool", "ok"],
    ]
    chat = {
        **options,
        "reasoning_effort": "low",
        "messages": messages,
        "tools": [tool],
    }
    reply = served.complete(conversation, [tool])
    assert reply.exchange_sha256 == canonical(chat)
    continued = served.complete(PROMPT)
    assert continued.exchange_sha256 == canonical({**options, "prompt": PROMPT})


def test_each_part_of_an_exchange_changes_its_hash() -> None:
    tool = {"name": "f", "description": "d", "parameters": {}}
    other_tool = {**tool, "description": "e"}
    hashes = [
        exchange_sha256("m", ASK, {}),
        exchange_sha256("n", ASK, {}),
        exchange_sha256("m", ASK[1:], {}),
        exchange_sha256("m", "hello", {}),
        exchange_sha256("m", ASK, {"seed": 1}),
        exchange_sha256("m", ASK, {"seed": 2}),
        exchange_sha256("m", ASK, {"stop": ["1"]}),
        exchange_sha256("m", ASK, {}, [tool]),
        exchange_sha256("m", ASK, {}, [other_tool]),
    ]
    assert len(set(hashes)) == len(hashes)
    message = Message("user", "hello")
    assert request_sha256("hello") != request_sha256([message])


def test_hashes_that_users_compare_never_change() -> None:
    digest = exchange_sha256("m", ASK, {"temperature": 0.2, "seed": 7})
    assert digest == "ae0d035591ef0237798df459a510802238f6df722d5757b7bb9c390829c7ae81"
    digest = request_sha256(ASK)
    assert digest == "5ecc4cd183a1319106426413ea119992c02b193de027e0318f794dd3577a17b1"
    call = ToolCall("f", "{}", "x")
    digest = reply_sha256(Reply("hi", tool_calls=(call,)))
    assert digest == "a39bdb4b2b9e6231a2f84e8eb6ed01344d8bffa0b09e5e9d87ed6bd34d723d1f"


def test_the_reply_counts_with_its_calls_and_without_their_ids() -> None:
    plain = Reply("hi")
    without_calls = {"content": "hi", "tool_calls": []}
    assert reply_sha256(plain) == canonical(without_calls)
    call = ToolCall("f", "{}", "1")
    calling = Reply("hi", tool_calls=(call,))
    with_calls = {"content": "hi", "tool_calls": [["f", "{}"]]}
    assert reply_sha256(calling) == canonical(with_calls)
    other_call = replace(call, id="2")
    later = replace(calling, seconds=9.0, tool_calls=(other_call,))
    assert reply_sha256(later) == reply_sha256(calling)


def test_a_call_keeps_its_exchange_in_a_trajectory_and_an_older_one_has_none() -> None:
    reply = Reply("hi", exchange_sha256="b" * 64, request_sha256="a" * 64)
    assert reply.sha256_pair == ("b" * 64, reply_sha256(reply))
    dumped = REPLY.dump_python(reply, mode="json")
    assert REPLY.validate_python(dumped) == reply
    without_exchange = Reply("hi", request_sha256="a" * 64)
    older = REPLY.dump_python(without_exchange, mode="json")
    assert "exchange_sha256" not in older
    assert REPLY.validate_python(older).exchange_sha256 is None
    with pytest.raises(ValidationError, match="exchange_sha256"):
        REPLY.validate_python({**older, "exchange_sha256": 5})


def test_a_replay_has_the_recorded_exchange_only_for_the_recorded_request() -> None:
    request = request_sha256(ASK)
    reply = Reply("hi", exchange_sha256="b" * 64, request_sha256=request)
    replayed = ReplayModel((reply, reply))
    assert replayed.complete(ASK) == reply
    assert replayed.complete(ASK[1:]) == Reply("hi")


def own(server: Provider, **changes: Any) -> LiteLLMModel:
    """Return a model of which litellm's map knows nothing."""
    return model(server, name="qwen", **changes)


def sent_limits(server: Provider) -> list[int | None]:
    return [request.get("max_tokens") for request in server.requests]


@pytest.mark.parametrize(
    ("window", "limit"),
    [(None, 8192), (200_000, 8192), (4096, range(4000, 4096)), (10, 256)],
)
def test_a_reply_of_unknown_length_has_what_the_window_leaves(
    provider: Provider, window: int | None, limit: Any
) -> None:
    provider.will_answer("hi")
    own(provider, settings=ModelSettings(context=window)).complete(ASK)
    (sent,) = sent_limits(provider)
    assert sent in (limit if isinstance(limit, range) else [limit])


def test_a_known_limit_is_left_to_the_model(provider: Provider) -> None:
    provider.will_answer("hi")
    model(provider, name="gpt-4o").complete(ASK)
    own(provider, max_output_tokens=9).complete(ASK)
    own(provider, settings=ModelSettings(max_output=70)).complete(ASK)
    assert sent_limits(provider) == [None, 9, 70]


@pytest.mark.parametrize("window", [None, 8192])
def test_a_default_limit_is_no_part_of_the_exchange(
    provider: Provider, window: int | None
) -> None:
    provider.will_answer("hi")
    settings = ModelSettings(context=window)
    reply = own(provider, settings=settings).complete(ASK)
    options = {"temperature": 0.4}
    assert reply.exchange_sha256 == exchange_sha256("qwen", ASK, options)


def test_a_refused_default_limit_is_lowered_to_what_the_server_states() -> None:
    request = [Message("user", "word " * 600)]
    with ModelServer(VLLM, window=3000) as server:
        server.refuses = True
        server.will_answer("hi")
        assert own(server).complete(request).content == "hi"
        assert sent_limits(server) == [8192, 2000]
        # A limit that the user sets is not lowered in silence.
        with pytest.raises(WindowExceededError):
            own(server, max_output_tokens=8000).complete(request)


@pytest.mark.parametrize(("counted", "lines"), [(1100, 1), (2100, 0)])
def test_a_prompt_that_a_server_cut_off_is_said_once(
    provider: Provider, counted: int, lines: int
) -> None:
    said: list[str] = []
    served = model(provider, said)
    provider.will_answer(Answer("hi", tokens=(counted, 10)))
    for length in (1000, 3000, 4000):
        served.complete([Message("user", "word " * length)])
    assert len(set(said)) == lines
    assert all("less than half" in line for line in said)


def test_a_default_limit_bounds_the_cost(provider: Provider) -> None:
    provider.will_answer("hi")
    calls: list[PlannedCall] = []

    class Asked(OpenGate):
        def begin(self, call: PlannedCall) -> str:
            calls.append(call)
            return ""

    price = Price(Decimal(0), Decimal("0.001"))
    own(provider, price=price, gate=Asked()).complete(ASK)
    assert calls[0].bound == Decimal("8.192")
