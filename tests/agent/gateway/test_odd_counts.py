"""Counts that say nothing, or of what has no known price: the answer is kept, its cost unknown."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from swe_retry.agent.agentsettings import AgentSettings
from swe_retry.agent.gateway.gateway import Gateway
from swe_retry.core.jsontypes import JsonObject
from swe_retry.llm.chat import Message, Reply
from swe_retry.llm.client import LiteLLMModel
from swe_retry.llm.dialects.anthropic import Messages
from swe_retry.llm.dialects.dialect import Dialect
from swe_retry.llm.dialects.gemini import Gemini
from swe_retry.llm.dialects.openai import Chat, Responses
from swe_retry.llm.prices import Price
from swe_retry.llm.provider_errors import RetryPolicy
from tests.agent.gateway.conftest import post, serve_stub
from tests.agent.gateway.test_money import RecordingGate
from tests.agent.gateway.test_provider_words import request_of
from tests.support import dialects
from tests.support.dialects import APIS, DIALECTS, MODELS, Stub, Turn

ANSWER = Turn("hello", tokens=(1000, 100, 300, 0))
USAGE = {
    "messages": "usage",
    "chat": "usage",
    "responses": "usage",
    "gemini": "usageMetadata",
}
NO_COUNTS: tuple[Any, ...] = (
    True,
    -1,
    "many",
    "7",
    1e18,
    10**18,
    1.5,
    math.nan,
    [],
    [5],
    {"a": 1},
)
READERS: dict[str, Dialect] = {
    "messages": Messages(),
    "chat": Chat(),
    "responses": Responses(),
    "gemini": Gemini(),
}
Change = Callable[[JsonObject], object]


def places(usage: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the keys of each number in ``usage``."""
    if isinstance(usage, dict):
        for key, value in usage.items():
            yield from places(value, (*path, key))
    elif path:
        yield path


def set_at(usage: JsonObject, path: tuple[str, ...], value: object) -> JsonObject:
    changed = copy.deepcopy(usage)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


def odd_answers(dialect: str) -> Iterator[JsonObject]:
    """Yield answers whose cost is unknown."""
    answer = dialects._RESPONSES[dialect](ANSWER)
    key = USAGE[dialect]
    usage = answer[key]
    for path in places(usage):
        for value in NO_COUNTS:
            yield {**answer, key: set_at(usage, path, value)}
    for path in list(places(usage))[:2]:
        yield {**answer, key: set_at(usage, path, None)}
    for unit in ("audio_tokens", "web_search_requests", "num_sources_used"):
        yield {**answer, key: {**usage, unit: 3}}
        yield {**answer, key: {**usage, "details": {unit: 3}}}
    yield {**answer, key: {**usage, "audio_tokens": True}}
    yield {**answer, key: {**usage, "details": [{"modality": "AUDIO"}]}}
    yield {**answer, key: {**usage, "prompt_tokens_details": "none"}}
    yield {name: value for name, value in answer.items() if name != key}
    wholes: tuple[Any, ...] = (5, "none", [1], True, {}, None)
    for whole in wholes:
        yield {**answer, key: whole}


def odd_tiers(dialect: str) -> Iterator[JsonObject]:
    answer = dialects._RESPONSES[dialect](ANSWER)
    for tier in ("turbo", "scale", 5, True, {"a": 1}, ["flex"]):
        if dialect in ("chat", "responses"):
            yield {**answer, "service_tier": tier}
        elif dialect == "messages":
            yield {**answer, "usage": {**answer["usage"], "service_tier": tier}}


class Server:
    """A stub of all providers, whose next answer is ``answer``."""

    def __init__(self, stub: Stub) -> None:
        self.stub = stub
        self.answer: JsonObject = {}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serve_stub(monkeypatch) as stub:
        # A stream of such counts cannot be told by all protocols.
        stub.ignores_streams = True
        server = Server(stub)
        monkeypatch.setattr(dialects, "_response", lambda *_: server.answer)
        yield server


def model_of(
    dialect: str, gate: RecordingGate, price: Price | None = None
) -> LiteLLMModel:
    retries = RetryPolicy(2, 0.01, 0.01)
    return LiteLLMModel(
        MODELS[dialect],
        1.0,
        30.0,
        gate=gate,
        retries=retries,
        warn_once=lambda _: None,
        price=price,
    )


def by_client(dialect: str, price: Price | None = None) -> Reply:
    """Return the only answer of a call of the built-in agent."""
    gate = RecordingGate()
    model_of(dialect, gate, price).complete([Message("user", "hello")])
    (outcome,) = gate.outcomes
    assert isinstance(outcome, Reply)
    return outcome


def by_gateway(dialect: str, price: Price | None = None) -> Reply:
    gate = RecordingGate()
    path, body = request_of(dialect, streamed=False)
    with Gateway(
        model_of(dialect, gate, price), AgentSettings(api=(APIS[dialect],))
    ) as gateway:
        answer = post(gateway, body, path)
    assert answer.status == 200, answer.body
    (outcome,) = gate.outcomes
    assert isinstance(outcome, Reply)
    return outcome


each_way = pytest.mark.parametrize("ask", [by_client, by_gateway])
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


@each_way
@each_dialect
def test_an_answer_with_odd_counts_is_kept_and_its_cost_unknown(
    server: Server, dialect: str, ask: Callable[..., Reply]
) -> None:
    server.answer = dialects._RESPONSES[dialect](ANSWER)
    assert ask(dialect).cost
    wrong: list[tuple[Any, ...]] = []
    answers = list(odd_answers(dialect))
    for number, answer in enumerate(answers, 2):
        server.answer = answer
        try:
            reply = ask(dialect)
        except Exception as error:
            wrong.append((answer.get(USAGE[dialect]), repr(error)[-200:]))
            server.stub.requests[:] = [{}] * number
            continue
        assert reply.content == "hello"
        if reply.cost is not None or reply.usage is not None:
            wrong.append((answer.get(USAGE[dialect]), reply.usage, reply.cost))
        assert len(server.stub.requests) == number, "it is asked once"
    assert not wrong, wrong


@each_way
@each_dialect
def test_a_tier_that_is_not_listed_has_no_standard_price(
    server: Server, dialect: str, ask: Callable[..., Reply]
) -> None:
    for answer in odd_tiers(dialect):
        server.answer = answer
        reply = ask(dialect)
        assert reply.content == "hello"
        assert reply.cost is None, json.dumps(answer)


@each_way
@each_dialect
def test_what_is_free_costs_nothing_whatever_is_counted(
    server: Server, dialect: str, ask: Callable[..., Reply]
) -> None:
    free = Price(Decimal(), Decimal())
    answer = dialects._RESPONSES[dialect](ANSWER)
    for usage in (None, {"audio_tokens": 5}, answer[USAGE[dialect]]):
        server.answer = {**answer, USAGE[dialect]: usage}
        assert ask(dialect, free).cost == 0


@each_way
@each_dialect
def test_what_is_no_count_is_no_doubt(
    server: Server, dialect: str, ask: Callable[..., Reply]
) -> None:
    answer = dialects._RESPONSES[dialect](ANSWER)
    usage = answer[USAGE[dialect]]
    server.answer = answer
    cost = ask(dialect).cost
    assert cost
    others: dict[str, Any] = {
        "is_byok": True,
        "queue_time": 0.25,
        "audio_tokens": 0,
        "web_search_requests": None,
        "server_tool_use": None,
        "inference_geo": "global",
        "cost_details": {"upstream_inference_cost": 1.0},
    }
    server.answer = {**answer, USAGE[dialect]: {**usage, **others}}
    assert ask(dialect).cost == cost


def spoil_last_counts(dialect: str, value: object) -> list[JsonObject]:
    """Return the events of a stream whose counts came early, and are ``value`` at the end."""
    events = [event for _, event in dialects._events(dialect, ANSWER)]
    events = [copy.deepcopy(event) for event in events if event != "[DONE]"]
    key = USAGE[dialect]
    holders = [event.get("response", event) for event in events]
    last = [holder for holder in holders if key in holder][-1]
    usage = last.pop(key)
    if dialect != "messages":  # its first event has counts of its own
        holders[0][key] = usage
    if value is not ...:
        last[key] = value
    return events


@pytest.mark.parametrize(
    "value", [..., None, "none", 5, [], {}, {"output_tokens": True}]
)
@each_dialect
def test_counts_before_the_end_of_a_stream_are_not_those_of_the_answer(
    dialect: str, value: object
) -> None:
    reader = READERS[dialect]
    answer = reader.read_answer(reader.merge_events(spoil_last_counts(dialect, value)))
    assert answer.content == "hello"
    assert answer.tokens is None


@pytest.mark.parametrize("dialect", ["messages", "chat"])
def test_a_thought_that_counts_nothing_is_no_count(dialect: str) -> None:
    thought = {"type": "thinking", "thinking": "hm"}
    message = {"content": "", "reasoning_content": "hm"}
    usage = {"prompt_tokens": 9, "input_tokens": 9, "completion_tokens": 0}
    answer = {
        "content": [thought],
        "choices": [{"message": message, "finish_reason": "stop"}],
        "usage": usage,
    }
    read = READERS[dialect].read_answer(answer)
    assert read.reasoning == "hm"
    assert read.tokens is None
