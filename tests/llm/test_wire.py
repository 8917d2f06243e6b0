"""What is sent and billed, by what went over the network: litellm's real clients, a real server."""

from __future__ import annotations

import contextlib
import json
import time
from decimal import Decimal
from email.utils import formatdate
from typing import Any

import pytest

from swe_retry.attempts.config import RunConfig
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.llm.chat import REPLY, Message, Reply, RequestRefusedError
from swe_retry.llm.client import LiteLLMModel
from swe_retry.llm.gate import CallOutcome, Failed, OpenGate, PlannedCall
from swe_retry.llm.model_settings import ModelSettings
from swe_retry.llm.options import ModelChoice
from swe_retry.llm.prices import Price
from swe_retry.llm.provider_errors import RetryPolicy, retry_after
from swe_retry.runner.checks import check_models
from swe_retry.runner.settings import Spending
from tests.llm.test_client import ASK, model
from tests.support.provider import Answer, Provider

ONCE = RetryPolicy(1)
THOUSANDTH = Decimal("0.001")


def reread(reply: Reply) -> Reply:
    """Return a reply as it is read from a file that has it."""
    dumped = REPLY.dump_python(reply, mode="json")
    written = json.dumps(dumped)
    return REPLY.validate_json(written)


class Books(OpenGate):
    """A gate that keeps the outcomes."""

    def __init__(self) -> None:
        self.ends: list[CallOutcome] = []

    def pause(self, seconds: float, problem: str = "") -> None:
        pass

    def begin(self, call: PlannedCall) -> str:
        return ""

    def end(self, ticket: str, outcome: CallOutcome) -> bool:
        self.ends.append(outcome)
        return True


@pytest.fixture(autouse=True)
def _addresses(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "none")
    bare = provider.url.removesuffix("/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
    monkeypatch.setenv("ANTHROPIC_API_BASE", bare)
    monkeypatch.setenv("OLLAMA_API_BASE", bare)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")


def direct(name: str, provider: Provider, **changes: Any) -> LiteLLMModel:
    """Return a model at its own provider, whose address is that of the server."""
    values = {
        "api_base": None,
        "retries": ONCE,
        "call_timeout": 60,
        **changes,
    }
    return model(provider, name=name, **values)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("gpt-4o", "/v1/chat/completions"),
        ("gpt-5-codex", "/v1/responses"),
        ("o3-deep-research", "/v1/responses"),
        ("gpt-3.5-turbo-instruct", "/v1/completions"),
        ("anthropic/claude-sonnet-4-5", "/v1/messages"),
        ("ollama/codellama", "/api/chat"),
        ("ollama_chat/llama3", "/api/chat"),
    ],
)
def test_a_model_of_each_mode_sends_one_request(
    provider: Provider, name: str, path: str
) -> None:
    provider.will_answer("hi")
    served = direct(name, provider, max_output_tokens=900)
    served.rehearse()
    assert provider.paths == [], "a rehearsal sends nothing"
    reply = served.complete(ASK)
    assert reply.content == "hi"
    assert provider.paths == [path]
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == 100


def test_a_model_of_responses_calls_functions_and_is_cut_off(
    provider: Provider,
) -> None:
    call = ("f", '{"a": 1}')
    calling = Answer("so", tool_calls=(call,))
    cut_off = Answer("x", finish="length")
    provider.will_answer(calling, cut_off)
    parameters = {"type": "object", "properties": {}}
    tool = {"name": "f", "description": "d", "parameters": parameters}
    served = direct("gpt-5-codex", provider, max_output_tokens=900)
    reply = served.complete(ASK, [tool])
    (received,) = reply.tool_calls
    assert (received.name, received.arguments) == call
    assert reply.cost == Decimal("0.000225")
    conversation = [
        *ASK,
        Message("assistant", "so", reply.tool_calls),
        Message("tool", "done", (), received.id),
    ]
    assert served.complete(conversation, [tool]).truncated
    assert provider.requests[0]["max_output_tokens"] == 900


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("vertex_ai/gemini-2.5-pro", "credentials"),
        ("vertex_ai/claude-sonnet-4-5", "credentials"),
        ("text-unicorn", "import failed"),
        ("bedrock/anthropic.claude-3-5-sonnet-20241022-v2:0", "credentials"),
        ("text-embedding-3-small", "a model for embedding"),
        ("gpt-image-1", "a model for image_generation"),
    ],
)
def test_what_cannot_send_is_named_before_the_run(
    provider: Provider, name: str, problem: str
) -> None:
    money = Spending(allow_unpriced=True)
    config = RunConfig(models=(ModelChoice.parse(name),), money=money)
    with pytest.raises(UserError, match=problem) as error:
        check_models(config)
    assert "\n" not in str(error.value)
    assert name in str(error.value)
    assert provider.requests == []


def test_a_failure_without_a_request_is_not_billed_and_not_repeated(
    provider: Provider,
) -> None:
    books = Books()
    served = model(
        provider,
        name="vertex_ai/gemini-2.5-pro",
        api_base=None,
        gate=books,
    )
    with pytest.raises(UserError, match="credentials"):
        served.complete(ASK)
    (end,) = books.ends
    assert isinstance(end, Failed)
    assert end.billed is False
    assert end.reached is False
    assert end.transient is False


BAD_USAGE: list[dict[str, Any]] = [
    {"prompt_tokens": -5},
    {"completion_tokens": -7},
    {"prompt_tokens": 1e18},
    {"completion_tokens": 10**18},
    {"prompt_tokens": True},
    {"prompt_tokens": None},
    {"prompt_tokens": "many"},
    {"prompt_tokens_details": {"cached_tokens": -50}},
    {"prompt_tokens_details": {"cached_tokens": 5000}},
    {"prompt_tokens_details": {"cached_tokens": "x"}},
    {"completion_tokens_details": {"reasoning_tokens": -1e9}},
    {"cache_creation_input_tokens": -100},
    {"cost": -1.0},
]
UNREADABLE: list[Any] = [
    {"choices": "none"},
    {"id": "1", "choices": [{"message": {"content": ["a"]}}], "model": "m"},
    {"id": "1", "choices": [{"message": {"content": {"a": 1}}}], "model": "m"},
    {
        "choices": [
            {
                "message": {
                    "content": "x",
                    "tool_calls": [{"function": {"name": 5}}],
                }
            }
        ]
    },
    [],
    "text",
]


@pytest.mark.parametrize("counts", BAD_USAGE, ids=str)
@pytest.mark.parametrize("price", [None, Price(THOUSANDTH, THOUSANDTH)])
def test_a_reply_with_impossible_usage_counts_and_is_kept(
    provider: Provider, counts: dict[str, Any], price: Price | None
) -> None:
    provider.will_answer(Answer("hi", counts=counts))
    books = Books()
    served = model(
        provider,
        gate=books,
        retries=ONCE,
        price=price,
    )
    reply = served.complete(ASK)
    (end,) = books.ends
    assert isinstance(end, Reply)
    assert reread(end).usage == reply.usage
    # What a provider says of dollars does not count where there is a price.
    is_known = "cost" in counts
    assert (reply.cost is not None) is is_known


@pytest.mark.parametrize("body", UNREADABLE, ids=str)
def test_an_answer_that_cannot_be_read_is_billed(provider: Provider, body: Any) -> None:
    provider.will_answer(Answer(body=body))
    books = Books()
    with contextlib.suppress(InfrastructureError):
        model(provider, gate=books, retries=ONCE).complete(ASK)
    (end,) = books.ends
    assert len(provider.requests) == 1
    if isinstance(end, Reply):
        assert reread(end).content == ""
    else:
        assert isinstance(end, Failed)
        assert end.billed
        assert end.reached


BODIES: dict[str, dict[str, Any]] = {
    "gpt-4o": {
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "hi"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    },
    "anthropic/claude-sonnet-4-5": {
        "type": "message",
        "role": "assistant",
        "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "hi"}],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
}


@pytest.mark.parametrize("name", BODIES)
def test_a_name_of_megabytes_does_not_block_the_loop(
    provider: Provider, name: str
) -> None:
    body = {
        "model": "a/" * 2_500_000,
        "id": "b" * 1_000_000,
        **BODIES[name],
    }
    provider.will_answer(Answer(body=body))
    served = direct(name, provider)
    served.rehearse()
    started = time.process_time()
    reply = served.complete(ASK)
    # The second one waits for what litellm does after the first.
    served.complete(ASK)
    assert time.process_time() - started < 5
    assert reply.content == "hi"
    assert len(reply.model) <= 200


def test_an_answer_without_end_is_cut_and_billed(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swe_retry.llm.wire.MAX_BYTES", 100_000)
    provider.will_answer("x" * 200_000)
    books = Books()
    with pytest.raises(InfrastructureError):
        model(provider, gate=books, retries=ONCE).complete(ASK)
    (end,) = books.ends
    assert isinstance(end, Failed)
    assert end.billed


@pytest.mark.parametrize(
    "name", ["gpt-4o", "anthropic/claude-sonnet-4-5", "gpt-5-codex"]
)
def test_too_large_a_body_is_refused_at_once(provider: Provider, name: str) -> None:
    provider.will_answer(Answer(status=413))
    books = Books()
    served = model(provider, name=name, api_base=None, gate=books)
    with pytest.raises(RequestRefusedError):
        served.complete(ASK)
    assert len(provider.requests) == 1
    assert len(books.ends) == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "soon", "retry-after-ms": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Wed, 99 Oct 99999999999 07:28:00 GMT"}, None),
        ({}, None),
    ],
)
def test_how_long_a_provider_asks_to_wait(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers) == seconds


def test_a_provider_may_name_the_time_to_wait_for() -> None:
    in_an_hour = formatdate(time.time() + 3600, usegmt=True)
    seconds = retry_after({"retry-after": in_an_hour})
    assert seconds is not None
    assert 3500 <= seconds <= 3600


@pytest.mark.parametrize("name", BODIES)
def test_the_wait_that_a_provider_asks_for_is_recorded(
    provider: Provider, name: str
) -> None:
    headers = {"Retry-After-Ms": "1500"}
    provider.will_answer(Answer(status=429, headers=headers))
    books = Books()
    with pytest.raises(InfrastructureError):
        direct(name, provider, gate=books).complete(ASK)
    (end,) = books.ends
    assert isinstance(end, Failed)
    assert end.retry_after == 1.5


def test_the_limit_of_claude_is_ours_and_hashed(provider: Provider) -> None:
    provider.will_answer("hi")
    reply = direct("anthropic/claude-new-9", provider).complete(ASK)
    assert provider.requests[0]["max_tokens"] == 32_000
    direct("anthropic/claude-sonnet-4-5", provider).complete(ASK)
    assert provider.requests[1]["max_tokens"] == 64_000
    less = ModelSettings(max_output=7000)
    limited = direct("anthropic/claude-new-9", provider, settings=less)
    other = limited.complete(ASK)
    assert provider.requests[2]["max_tokens"] == 7000
    assert reply.exchange_sha256 != other.exchange_sha256


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("ollama/llama3", 8192),
        ("ollama_chat/llama3", 32_768),
    ],
)
def test_ollama_loads_the_window_that_is_counted_with(
    provider: Provider, name: str, window: int
) -> None:
    provider.will_answer("hi")
    llama = direct(name, provider)
    reply = llama.complete(ASK)
    settings = ModelSettings(context=65_536)
    other = direct(name, provider, settings=settings).complete(ASK)
    unlisted = direct(name.replace("llama3", "no-such"), provider)
    unlisted.complete(ASK)
    sent = []
    for request in provider.requests:
        if "options" in request:
            sent.append(request["options"]["num_ctx"])
    assert sent == [llama.traits.context, 65_536, unlisted.traits.context]
    assert sent == [window, 65_536, 32_768]
    assert reply.exchange_sha256 != other.exchange_sha256
