"""What a request of an agent may cost at most, and what is known of what it cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from swe_retry.agent.agentsettings import AgentSettings
from swe_retry.agent.gateway.gateway import Gateway
from swe_retry.core.jsontypes import JsonObject
from swe_retry.llm.chat import Reply
from swe_retry.llm.client import LiteLLMModel
from swe_retry.llm.gate import CallOutcome, OpenGate, PlannedCall
from swe_retry.llm.prices import cost_of_tokens
from tests.agent.gateway.conftest import (
    ASK,
    BY_NAME,
    GatewayRuns,
    agent_config,
    needs_bubblewrap,
    post,
)
from tests.support.dialects import APIS, MODELS, Stub, Turn
from tests.support.runs import but

PATHS = {
    "messages": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "generateContent": "/v1beta/models/gemini-2.5-pro:generateContent",
}
ADDRESS = "https://documents.example/one.pdf"
PICTURE = "data:image/png;base64,AAAA"


@dataclass
class RecordingGate(OpenGate):
    """Keeps what passes it."""

    planned: list[PlannedCall] = field(default_factory=list)
    outcomes: list[CallOutcome] = field(default_factory=list)

    def begin(self, call: PlannedCall) -> str:
        self.planned.append(call)
        return ""

    def end(self, ticket: str, outcome: CallOutcome) -> bool:
        self.outcomes.append(outcome)
        return True


def send(
    stub: Stub, dialect: str, body: JsonObject, **access: Any
) -> tuple[JsonObject, RecordingGate]:
    """Return what the provider got, and what passed the gate."""
    gate = RecordingGate()
    # The support's name of the dialect.
    name = dialect.replace("generateContent", "gemini")
    model = LiteLLMModel(MODELS[name], 0.0, 30.0, gate=gate)
    with Gateway(model, AgentSettings(api=(APIS[name],), **access)) as gateway:
        path = PATHS[dialect].replace("gemini-2.5-pro", gateway.model_name)
        answer = post(gateway, {**body, "model": gateway.model_name}, path)
    assert answer.status == 200, answer.body
    return stub.requests[-1], gate


def prepare(dialect: str, body: JsonObject, **rules: Any) -> tuple[JsonObject, bool]:
    """Return what the gateway would send, and whether it is text alone."""
    request = BY_NAME[dialect].prepare_request(PATHS[dialect], body, "m", **rules)
    limit = min(request.own_limit or 16_000, 16_000)
    request = request.with_limit(limit)
    return json.loads(request.data), request.is_text


def user(content: Any) -> JsonObject:
    return {"messages": [{"role": "user", "content": content}]}


def responses(*content: JsonObject) -> JsonObject:
    return {"input": [{"role": "user", "content": list(content)}]}


def gemini(*parts: JsonObject) -> JsonObject:
    return {"contents": [{"role": "user", "parts": list(parts)}]}


TEXT = {"type": "text", "text": "hello"}
BY_ADDRESS = [
    (
        "messages",
        user([TEXT, {"type": "document", "source": {"type": "url", "url": ADDRESS}}]),
    ),
    (
        "messages",
        user([TEXT, {"type": "image", "source": {"type": "file", "file_id": ADDRESS}}]),
    ),
    (
        "messages",
        user(
            [
                {
                    "type": "tool_result",
                    "tool_use_id": "1",
                    "content": [
                        TEXT,
                        {"type": "image", "source": {"type": "url", "url": ADDRESS}},
                    ],
                }
            ]
        ),
    ),
    ("messages", user([TEXT, {"type": "container_upload", "file_id": ADDRESS}])),
    ("messages", {**user("hello"), "mcp_servers": [{"type": "url", "url": ADDRESS}]}),
    ("chat", user([TEXT, {"type": "image_url", "image_url": {"url": ADDRESS}}])),
    ("chat", user([TEXT, {"type": "image_url", "image_url": ADDRESS}])),
    ("chat", user([TEXT, {"type": "file", "file": {"file_id": ADDRESS}}])),
    ("chat", user([TEXT, {"type": "file", "file": {"file_data": ADDRESS}}])),
    ("chat", user([TEXT, {"type": "video_url", "video_url": {"url": ADDRESS}}])),
    (
        "responses",
        responses(
            {"type": "input_text", "text": "hello"},
            {"type": "input_file", "file_url": ADDRESS},
        ),
    ),
    (
        "responses",
        responses(
            {"type": "input_text", "text": "hello"},
            {"type": "input_image", "file_id": ADDRESS},
        ),
    ),
    ("responses", {"input": [{"type": "item_reference", "id": ADDRESS}]}),
    (
        "responses",
        {
            "input": [
                {
                    "type": "function_call_output",
                    "call_id": "1",
                    "output": [{"type": "input_image", "image_url": ADDRESS}],
                }
            ]
        },
    ),
    (
        "responses",
        {
            "input": [
                {
                    "type": "additional_tools",
                    "role": "developer",
                    "tools": [{"type": "mcp", "server_url": ADDRESS}],
                }
            ]
        },
    ),
    ("responses", {"input": "hello", "previous_response_id": ADDRESS}),
    ("generateContent", gemini({"text": "hello"}, {"fileData": {"fileUri": ADDRESS}})),
    (
        "generateContent",
        gemini({"text": "hello"}, {"file_data": {"file_uri": ADDRESS}}),
    ),
    (
        "generateContent",
        gemini(
            {
                "functionResponse": {
                    "name": "f",
                    "response": {},
                    "parts": [{"fileData": {"fileUri": ADDRESS}}],
                }
            }
        ),
    ),
    ("generateContent", {**gemini({"text": "hello"}), "cached_content": ADDRESS}),
]


@pytest.mark.parametrize(("dialect", "body"), BY_ADDRESS)
def test_nothing_is_sent_by_its_address(dialect: str, body: JsonObject) -> None:
    sent, is_text = prepare(dialect, body)
    assert ADDRESS not in json.dumps(sent)
    text = json.dumps(body)
    assert is_text or "image" in text or "file" in text


@pytest.mark.parametrize("dialect", BY_NAME)
def test_a_text_that_names_an_address_is_a_text(dialect: str) -> None:
    sent, _ = prepare(dialect, text_with_address(dialect))
    assert ADDRESS in json.dumps(sent)


def text_with_address(dialect: str) -> JsonObject:
    if dialect == "generateContent":
        return gemini({"text": ADDRESS})
    if dialect == "responses":
        return {"input": ADDRESS}
    return user(ADDRESS)


def test_documents_by_address_pass_where_the_web_is_allowed() -> None:
    for dialect, body in (*BY_ADDRESS[:3], *BY_ADDRESS[7:15]):
        sent, is_text = prepare(dialect, body, web=True)
        assert ADDRESS in json.dumps(sent)
        assert not is_text


INLINE = [
    (
        "messages",
        user(
            [
                TEXT,
                {
                    "type": "image",
                    "source": {
                        "type": "base64",
                        "media_type": "image/png",
                        "data": "AAAA",
                    },
                },
            ]
        ),
    ),
    ("chat", user([TEXT, {"type": "image_url", "image_url": {"url": PICTURE}}])),
    ("responses", responses({"type": "input_image", "image_url": PICTURE})),
    (
        "generateContent",
        gemini(
            {"text": "hello"},
            {"inline_data": {"mime_type": "image/png", "data": "AAAA"}},
        ),
    ),
]
WINDOWS = {
    "messages": Decimal("0.75"),  # 200,000 tokens, written to a cache
    "chat": Decimal("0.32"),
    "responses": Decimal("0.5"),
    "generateContent": Decimal("2.6"),  # at the price of more than 200,000 tokens
}


@pytest.mark.parametrize(("dialect", "body"), INLINE)
def test_the_window_bounds_what_has_a_file_and_the_text_what_has_none(
    stub: Stub, dialect: str, body: JsonObject
) -> None:
    sent, gate = send(stub, dialect, {**body, "max_tokens": 1})
    assert "AAAA" in json.dumps(sent)
    assert gate.planned[0].bound is not None
    assert WINDOWS[dialect] <= gate.planned[0].bound < WINDOWS[dialect] + Decimal("0.3")
    text = text_with_address(dialect)
    if dialect in ("messages", "chat"):
        text = user("a" * 4000)
    _, gate = send(stub, dialect, text)
    assert gate.planned[0].bound is not None
    assert gate.planned[0].bound < Decimal("0.26"), "16,000 tokens of an answer"


COUNTS = [
    ("messages", {**user("hello"), "max_tokens": 9, "n": 8}),
    ("chat", {**user("hello"), "n": 8.0, "max_completion_tokens": 9.0}),
    (
        "chat",
        {**user("hello"), "n": "8", "max_tokens": "9", "max_output_tokens": 10**6},
    ),
    (
        "responses",
        {"input": "hello", "n": 8, "max_output_tokens": "9", "max_tokens": 10**6},
    ),
    (
        "generateContent",
        {
            **gemini({"text": "a"}),
            "generation_config": {"candidate_count": 8, "max_output_tokens": 9},
        },
    ),
    (
        "generateContent",
        {
            **gemini({"text": "a"}),
            "generationConfig": {"candidateCount": "8", "maxOutputTokens": 9.0},
            "max_output_tokens": 10**6,
        },
    ),
]


@pytest.mark.parametrize(("dialect", "body"), COUNTS)
def test_a_count_is_sent_as_it_was_read_or_not_at_all(
    dialect: str, body: JsonObject
) -> None:
    sent, _ = prepare(dialect, {**body, "service_tier": "priority", "speed": "fast"})
    settings = sent.get("generationConfig", sent)
    (name,) = [name for name in settings if "max" in name.lower()]
    assert settings[name] in (9, 16_000)
    assert isinstance(settings[name], int)
    for name in ("n", "service_tier", "speed", "candidateCount", "candidate_count"):
        assert name not in sent
        assert name not in settings


def test_a_summary_by_the_provider_is_not_asked_for() -> None:
    edits = [{"type": "compact_20260112"}, {"type": "clear_thinking_20251015"}]
    sent, _ = prepare("messages", {**ASK, "context_management": {"edits": edits}})
    assert sent["context_management"] == {"edits": edits[1:]}


@pytest.mark.parametrize(
    ("beta", "bound"), [("", "0.75"), ("context-1m-2025-08-07", "7")]
)
def test_no_text_is_bound_above_the_window_that_it_may_have(
    stub: Stub, beta: str, bound: str
) -> None:
    gate = RecordingGate()
    model = LiteLLMModel(MODELS["messages"], 0.0, 30.0, gate=gate)
    text = "word " * 900_000
    with Gateway(model, AgentSettings(api=(APIS["messages"],))) as gateway:
        body = {**user(text), "max_tokens": 1, "model": gateway.model_name}
        post(gateway, body, PATHS["messages"], anthropic_beta=beta)
    assert gate.planned[0].bound is not None
    assert Decimal(bound) <= gate.planned[0].bound <= Decimal(bound) * 4


def usage(**counts: Any) -> JsonObject:
    return {"usage": {"input_tokens": 1000, "output_tokens": 100, **counts}}


CLAUDE = "anthropic/claude-sonnet-4-5-20250929"
SAMPLE = {"input_tokens": 1000, "output_tokens": 100}
MESSAGE = {**SAMPLE, "type": "message"}
ADVISOR = {**SAMPLE, "type": "advisor", "model": "dear"}
COMPACTION = {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3500}
CODEX = {"prompt_tokens": 1000, "completion_tokens": 100}
GOOGLE = {"promptTokenCount": 1000, "candidatesTokenCount": 100}
# By litellm's prices; None where something was counted whose price is unknown.
PRICED: list[tuple[str, str, JsonObject, str | None]] = [
    ("messages", CLAUDE, usage(), "0.0045"),
    ("messages", CLAUDE, usage(iterations=[COMPACTION, MESSAGE]), "0.597"),
    ("messages", CLAUDE, usage(iterations=[ADVISOR, SAMPLE]), None),
    (
        "messages",
        CLAUDE,
        usage(server_tool_use={"code_execution_requests": 2}),
        None,
    ),
    ("messages", CLAUDE, usage(service_tier="standard"), "0.0045"),
    ("chat", "gpt-5.1", {"usage": CODEX}, "0.00225"),
    ("chat", "gpt-5.1", {"usage": CODEX, "service_tier": "default"}, "0.00225"),
    ("chat", "gpt-5.1", {"usage": CODEX, "service_tier": "priority"}, "0.0045"),
    ("chat", "gpt-5.1", {"usage": CODEX, "service_tier": "flex"}, "0.001125"),
    ("chat", "gpt-5.1-codex", {"usage": CODEX, "service_tier": "priority"}, None),
    ("chat", "gpt-5.1", {"usage": {**CODEX, "num_sources_used": 3}}, None),
    (
        "chat",
        "gpt-5.1",
        {"usage": {**CODEX, "prompt_tokens_details": {"audio_tokens": 9}}},
        None,
    ),
    ("responses", "gpt-5.1", {**usage(), "service_tier": "flex"}, "0.001125"),
    ("generateContent", "gemini/gemini-2.5-pro", {"usageMetadata": GOOGLE}, "0.00225"),
    (
        "generateContent",
        "gemini/gemini-2.5-pro",
        {"usageMetadata": {**GOOGLE, "trafficType": "ON_DEMAND_PRIORITY"}},
        "0.00405",
    ),
    (
        "generateContent",
        "gemini/gemini-2.5-pro",
        {
            "usageMetadata": {
                **GOOGLE,
                "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 90}],
            }
        },
        None,
    ),
    (
        "generateContent",
        "gemini/gemini-2.5-pro",
        {
            "usageMetadata": {
                **GOOGLE,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 900}],
            }
        },
        "0.00225",
    ),
]


@pytest.mark.parametrize(("dialect", "model", "answer", "cost"), PRICED)
def test_all_that_has_a_price_is_added(
    dialect: str, model: str, answer: JsonObject, cost: str | None
) -> None:
    tokens = BY_NAME[dialect].read_answer(answer).tokens
    dollars = None
    if tokens:
        _, dollars = cost_of_tokens(model, None, tokens)
    assert dollars == (cost and Decimal(cost))


LIMITS = [
    ("messages", {**user("hello"), "max_tokens": 32_000}, "max_tokens", 32_000),
    ("chat", user("hello"), "max_completion_tokens", 16_384),
    ("responses", {"input": "hello"}, "max_output_tokens", 128_000),
    ("generateContent", gemini({"text": "hello"}), "maxOutputTokens", 65_535),
]


@pytest.mark.parametrize(("dialect", "body", "key", "limit"), LIMITS)
def test_an_answer_that_is_cut_off_is_asked_for_once_more(
    stub: Stub,
    monkeypatch: pytest.MonkeyPatch,
    dialect: str,
    body: JsonObject,
    key: str,
    limit: int,
) -> None:
    answer_first(stub, Turn("hel", tokens=(1500, 16_000, 300, 200), cut=True))
    if dialect == "messages":
        body |= {"thinking": {"type": "enabled", "budget_tokens": 31_999}}
    _, gate = send(stub, dialect, body)
    limits = []
    for request in stub.requests:
        settings = request.get("generationConfig", request)
        limits.append(settings[key])
    assert limits[0] == 16_000
    assert abs(limits[1] - limit) <= 1
    assert len(limits) == 2
    first, second = gate.planned
    assert first.bound is not None
    assert second.bound is not None
    assert first.bound < second.bound
    paid = [outcome for outcome in gate.outcomes if isinstance(outcome, Reply)]
    assert [outcome.truncated for outcome in paid] == [True, False]
    if dialect == "messages":
        budgets = [request["thinking"]["budget_tokens"] for request in stub.requests]
        assert budgets == [15_999, 31_999]


def answer_first(stub: Stub, turn: Turn) -> None:
    """Let the answer to the first request be ``turn``."""
    turns_for = stub.turns_for

    def turns(body: JsonObject) -> Sequence[Turn]:
        if len(stub.requests) == 1:
            return (turn,)
        return turns_for(body)

    stub.turns_for = turns  # type: ignore[method-assign]


def test_an_answer_that_the_agent_cuts_off_itself_is_not_asked_for_again(
    stub: Stub,
) -> None:
    stub.turns = (Turn("hel", cut=True),)
    sent, _ = send(stub, "messages", {**user("hello"), "max_tokens": 9})
    assert sent["max_tokens"] == 9
    assert len(stub.requests) == 1


def test_only_a_cache_of_an_hour_has_its_price(stub: Stub) -> None:
    bounds = []
    for ttl in ("5m", "1h"):
        control = {"type": "ephemeral", "ttl": ttl}
        part = {"type": "text", "text": "word " * 9000, "cache_control": control}
        _, gate = send(stub, "messages", {**user([part]), "max_tokens": 1})
        assert gate.planned[0].bound is not None
        bounds.append(gate.planned[0].bound)
    assert bounds[1] / bounds[0] > Decimal("1.5")


@needs_bubblewrap
def test_an_answer_that_was_cut_off_is_paid_for_and_replayed(runs: GatewayRuns) -> None:
    cut = Turn("I am c", cut=True, tokens=(1500, 16_000, 0, 0))
    with runs.serve() as stub:
        answer_first(stub, cut)
        prediction = runs.solve(agent_config("responses", "stream"))
        replayed = agent_config("responses", "stream", run="again")
        again = runs.solve(but(replayed, replay=runs.recorded))
    limits = [request["max_output_tokens"] for request in stub.requests]
    assert limits == [16_000, 128_000, 16_000]
    assert again["model_patch"] == prediction["model_patch"]
    assert Decimal(str(prediction["cost"])) == Decimal("0.16595"), "both, and the next"
    assert len(runs.ledger()) == 3
    assert runs.report()
