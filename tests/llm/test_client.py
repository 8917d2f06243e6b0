"""litellm's real client with a real server: the result of each answer for an attempt or a run."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

import swe_retry.llm.wire
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.llm.chat import Message, Usage
from swe_retry.llm.client import LiteLLMModel
from swe_retry.llm.gate import OpenGate
from swe_retry.llm.model_settings import our_settings
from swe_retry.llm.prices import (
    Price,
    cheapest_price,
    cost_bound,
    cost_of,
    dearest_price,
)
from swe_retry.llm.provider_errors import RetryPolicy
from swe_retry.llm.registry import (
    Endpoint,
    load_litellm,
    price_map_version,
    resolve_model,
)
from swe_retry.llm.wire import call_loop
from tests.support.provider import Answer, Provider

ASK = [Message("system", "be brief"), Message("user", "hello")]


def model(
    provider: Provider,
    warnings: list[str] | None = None,
    **changes: object,
) -> LiteLLMModel:
    values: dict[str, object] = {
        "name": "gpt-4o",
        "temperature": 0.4,
        "call_timeout": 5,
        "api_base": provider.url,
        "retries": RetryPolicy(3, 0.01, 0.05),
        "gate": OpenGate(),
        "warn_once": (warnings if warnings is not None else []).append,
    }
    return LiteLLMModel(**{**values, **changes})  # type: ignore[arg-type]


def test_a_reply_with_usage_and_cost(provider: Provider) -> None:
    provider.will_answer("hi")
    reply = model(provider).complete(ASK)
    assert reply.content == "hi"
    assert reply.truncated is False
    assert reply.usage == Usage(100, 10, 0)
    assert reply.cost == Decimal("0.00035")
    (request,) = provider.requests
    assert request["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hello"},
    ]
    assert request["temperature"] == 0.4


def test_an_unknown_price_is_unknown_and_said(provider: Provider) -> None:
    provider.will_answer("hi")
    warnings: list[str] = []
    unpriced = model(provider, warnings, name="my-own-model")
    assert unpriced.complete(ASK).cost is None
    assert "no known price" in warnings[0]


@pytest.mark.parametrize(
    ("tier", "cost"),
    [
        ("default", "0.000225"),
        ("priority", "0.00045"),
        ("flex", "0.0001125"),
    ],
)
def test_the_tier_that_the_answer_names_decides_the_price(
    provider: Provider, tier: str, cost: str
) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    message = {"content": "hi"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {
        "id": "1",
        "model": "gpt-5.1",
        "choices": [choice],
        "usage": usage,
        "service_tier": tier,
    }
    provider.will_answer(Answer("hi", body=body))
    gpt = model(provider, name="gpt-5.1", temperature=1.0)
    assert gpt.complete(ASK).cost == Decimal(cost)


def test_a_model_with_prices_by_length_is_priced(provider: Provider) -> None:
    name = "dashscope/qwen3-coder-plus"
    provider.will_answer("hi")
    qwen = model(provider, name=name)
    reply = qwen.complete(ASK)
    # 100 tokens in and 10 out, at the prices of the lowest tier.
    assert reply.cost == Decimal("0.00015")
    dearest = dearest_price(name)
    cheapest = cheapest_price(name)
    assert dearest == Price(Decimal("0.000006"), Decimal("0.00006"))
    assert cheapest == Price(Decimal("0.000001"), Decimal("0.000005"))
    bound = cost_bound(name, None, 500_000, 1_000)
    usage = Usage(500_000, 1_000)
    raw = load_litellm().Usage(500_000, 1_000)
    actual = cost_of(name, None, usage, raw)
    assert bound is not None
    assert actual is not None
    assert actual <= bound


def test_the_cost_that_a_provider_reports_counts_without_a_price(
    provider: Provider,
) -> None:
    cases = (
        ("openrouter/some/model", 0.0123, Decimal("0.0123")),
        ("my-own-model", 0, Decimal()),
        ("my-own-model", -1, None),
        ("my-own-model", "1", None),
        # The prices of litellm's map and of the user go first.
        ("gpt-4o", 0.0123, Decimal("0.00035")),
    )
    for name, reported, expected in cases:
        provider.answers.clear()
        provider.will_answer(Answer("hi", counts={"cost": reported}))
        assert model(provider, name=name).complete(ASK).cost == expected


def test_retry_after_is_honoured(provider: Provider) -> None:
    overload = Answer(status=429, headers={"Retry-After": "1"})
    provider.will_answer(overload, "hi")
    patient = model(provider, retries=RetryPolicy(2, 0.01, 5))
    started = time.monotonic()
    patient.complete(ASK)
    assert time.monotonic() - started >= 1


def test_overload_without_end_is_infrastructure(provider: Provider) -> None:
    provider.will_answer(Answer(status=500))
    with pytest.raises(InfrastructureError, match="did not answer in 3 calls"):
        model(provider).complete(ASK)
    assert len(provider.requests) == 3


def test_a_rate_limit_that_mentions_billing_is_a_rate_limit(provider: Provider) -> None:
    billing = "https://platform.openai.com/account/billing"
    message = f"Rate limit reached. Visit {billing} to add a card."
    error = {"code": "rate_limit_exceeded", "message": message}
    limited = Answer(status=429, error=error)
    provider.will_answer(limited, "hi")
    assert model(provider).complete(ASK).content == "hi"


@pytest.mark.parametrize("text", [None, ""])
def test_an_empty_reply_is_a_reply(provider: Provider, text: str | None) -> None:
    provider.will_answer(Answer(text))
    assert model(provider).complete(ASK).content == ""


def test_a_truncated_reply_says_so(provider: Provider) -> None:
    provider.will_answer(Answer("half", finish="length"))
    brief = model(provider, max_output_tokens=7)
    assert brief.complete(ASK).truncated
    assert provider.requests[0]["max_tokens"] == 7


def test_aliases() -> None:
    aliases = our_settings().aliases
    assert resolve_model("4o", aliases) == "gpt-4o"
    for family in ("opus", "sonnet", "haiku"):
        newest = resolve_model(family, aliases)
        assert re.fullmatch(rf"anthropic/claude-{family}-\d+(-\d{{1,2}})?", newest)
    with pytest.raises(UserError, match="no version of 'anthropic/claude-tuba-"):
        resolve_model("tuba", {"tuba": "anthropic/claude-tuba-*"})


def test_unknown_models_are_refused_unless_the_server_is_ones_own() -> None:
    with pytest.raises(UserError, match="unknown model 'no-such-model'"):
        resolve_model("no-such-model", {})
    assert resolve_model("no-such-model", {}, any_name=True) == "no-such-model"


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert Endpoint("gpt-4o").missing_key() == "OPENAI_API_KEY"
    assert Endpoint("gpt-4o", "http://127.0.0.1:1/v1").missing_key() is None


def test_the_price_map_has_a_version() -> None:
    assert len(price_map_version()) == 64


def test_threads_that_ask_at_once_get_the_same_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = threading.Barrier(8)
    original = asyncio.new_event_loop

    def slow() -> asyncio.AbstractEventLoop:
        threading.Event().wait(0.05)
        return original()

    def ask(_: int) -> asyncio.AbstractEventLoop:
        waiting.wait()
        return call_loop()

    monkeypatch.setattr(asyncio, "new_event_loop", slow)
    swe_retry.llm.wire._start_loop.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        loops = list(pool.map(ask, range(8)))
    assert len(set(map(id, loops))) == 1
