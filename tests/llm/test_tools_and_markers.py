"""Tool calls, cache markers and prefill, as sent in two protocols."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from swe_retry.llm.chat import Message, Reminder, ToolCall, Traits, request_sha256
from swe_retry.llm.client import LiteLLMModel
from swe_retry.llm.messages import messages_as_sent
from swe_retry.llm.model_settings import ModelSettings
from swe_retry.llm.registry import map_entry
from swe_retry.llm.replies import continuation
from swe_retry.record.records import Attempt
from tests.llm.test_client import ASK, model
from tests.support.provider import Answer, Provider

TOOL = {
    "name": "write_file",
    "description": "Write a file.",
    "parameters": {
        "type": "object",
        "properties": {"path": {"type": "string"}},
    },
}
CALL = ToolCall("write_file", '{"path": "a.py"}', "id0")
CLAUDE = "anthropic/claude-sonnet-4-5"
MARKER = {"type": "ephemeral"}


@pytest.fixture
def claude(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> LiteLLMModel:
    address = provider.url.removesuffix("/v1")
    monkeypatch.setenv("ANTHROPIC_API_BASE", address)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    return model(provider, name=CLAUDE, api_base=None)


def test_tools_are_sent_and_calls_come_back(provider: Provider) -> None:
    call = (CALL.name, CALL.arguments)
    provider.will_answer(Answer(None, finish="tool_calls", tool_calls=(call,)))
    reply = model(provider).complete(ASK, [TOOL])
    assert reply.content == ""
    assert reply.tool_calls == (CALL,)
    assert not reply.truncated
    (request,) = provider.requests
    assert request["tools"] == [{"type": "function", "function": TOOL}]
    assert request["tool_choice"] == "auto"


def test_without_tools_none_are_sent(provider: Provider) -> None:
    provider.will_answer("hi")
    model(provider).complete(ASK)
    (request,) = provider.requests
    assert "tools" not in request
    assert "tool_choice" not in request


def test_calls_and_their_answers_go_back_in_the_protocols_shape(
    provider: Provider,
) -> None:
    provider.will_answer("done")
    conversation = [
        *ASK,
        Message("assistant", "", (CALL,)),
        Message("tool", "written", (), CALL.id),
    ]
    model(provider).complete(conversation, [TOOL])
    (request,) = provider.requests
    call, answer = request["messages"][2:]
    function = {"name": CALL.name, "arguments": CALL.arguments}
    assert call["role"] == "assistant"
    assert call.get("content") is None
    assert call["tool_calls"] == [
        {"id": "id0", "type": "function", "function": function}
    ]
    assert answer == {"role": "tool", "content": "written", "tool_call_id": "id0"}


def test_what_a_model_garbled_does_not_spoil_the_conversation() -> None:
    calls = (
        ToolCall("write file!", '{"path": "a', "1"),
        ToolCall("", "[1]", "2"),
    )
    message = Message("assistant", "", calls)
    (sent,) = messages_as_sent([message])
    functions = [call["function"] for call in sent["tool_calls"]]
    assert functions == [
        {
            "name": "write_file_",
            "arguments": '{"unreadable": "{\\"path\\": \\"a"}',
        },
        {
            "name": "unknown",
            "arguments": '{"unreadable": "[1]"}',
        },
    ]


def test_arguments_that_were_cut_off_say_so(provider: Provider) -> None:
    call = ("write_file", '{"pa')
    provider.will_answer(Answer(None, finish="length", tool_calls=(call,)))
    reply = model(provider).complete(ASK, [TOOL])
    assert reply.truncated
    assert reply.tool_calls[0].arguments == '{"pa'


def test_a_server_of_ones_own_is_tried_with_tools_and_that_is_said(
    provider: Provider,
) -> None:
    call = ("write_file", "{}")
    provider.will_answer(Answer(tool_calls=(call,)))
    warnings: list[str] = []
    own = model(provider, name="my-own-model", warnings=warnings)
    assert own.complete(ASK, [TOOL]).tool_calls
    assert any("call functions" in line for line in warnings)


def test_reasoning_effort_and_limits_of_the_settings_are_sent(
    provider: Provider,
) -> None:
    provider.will_answer("hi")
    settings = ModelSettings(
        reasoning_effort="low",
        max_output=77,
        temperature=False,
    )
    model(provider, name="my-own-model", settings=settings).complete(ASK)
    (request,) = provider.requests
    assert request["reasoning_effort"] == "low"
    assert request["max_tokens"] == 77
    assert "temperature" not in request


def test_a_model_of_temperature_gets_it_though_the_map_says_otherwise(
    provider: Provider,
) -> None:
    provider.will_answer("hi")
    settings = ModelSettings(temperature=True)
    model(provider, name="my-o3-like", settings=settings).complete(ASK)
    assert provider.requests[0]["temperature"] == 0.4


def test_anthropic_gets_marks_for_its_cache(
    provider: Provider, claude: LiteLLMModel
) -> None:
    provider.will_answer(Answer("hi", cached=1000, written=200))
    conversation = [ASK[0]]
    for number in range(3):
        conversation.append(Message("user", f"user{number}"))
        conversation.append(Message("assistant", f"assistant{number}"))
    conversation.append(Message("user", "user3"))
    reply = claude.complete(conversation)
    (request,) = provider.requests
    assert request["system"] == [
        {"type": "text", "text": "be brief", "cache_control": MARKER}
    ]
    marked = []
    for message in request["messages"]:
        for block in message["content"]:
            if block.get("cache_control") == MARKER:
                marked.append(block["text"])
    assert marked == ["user0", "user2", "user3"]
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == 1300
    assert reply.usage.cached_tokens == 1000
    price = map_entry(CLAUDE)
    assert reply.cost is not None
    assert float(reply.cost) == pytest.approx(
        100 * price["input_cost_per_token"]
        + 1000 * price["cache_read_input_token_cost"]
        + 200 * price["cache_creation_input_token_cost"]
        + 10 * price["output_cost_per_token"]
    )


def test_tools_in_anthropics_protocol(provider: Provider, claude: LiteLLMModel) -> None:
    call = (CALL.name, CALL.arguments)
    provider.will_answer(Answer("so", tool_calls=(call,)), "done")
    first = claude.complete(ASK, [TOOL])
    assert first.tool_calls == (CALL,)
    conversation = [
        *ASK,
        Message("assistant", "so", first.tool_calls),
        Message("tool", "written", (), CALL.id),
    ]
    claude.complete(conversation, [TOOL])
    last = provider.requests[1]["messages"][-1]
    (result,) = last["content"]
    assert result["type"] == "tool_result"
    assert result["tool_use_id"] == "id0"
    assert result["cache_control"] == MARKER


def test_a_garbled_call_goes_back_to_anthropic(
    provider: Provider, claude: LiteLLMModel
) -> None:
    provider.will_answer("done")
    call = ToolCall("write_file", '{"path": "a', "id0")
    conversation = [
        *ASK,
        Message("assistant", "", (call,)),
        Message("tool", "not JSON", (), call.id),
    ]
    claude.complete(conversation, [TOOL])
    sent = provider.requests[0]["messages"][1]
    (use,) = [block for block in sent["content"] if block["type"] == "tool_use"]
    assert use["input"] == {"unreadable": '{"path": "a'}


def test_others_are_sent_plain_text(provider: Provider) -> None:
    provider.will_answer("hi")
    model(provider).complete(ASK)
    system, user = provider.requests[0]["messages"]
    assert system["content"] == "be brief"
    assert user["content"] == "hello"


def test_a_marker_needs_text() -> None:
    conversation = [Message("system", " "), Message("user", "")]
    system, user = messages_as_sent(conversation, markers=True)
    assert system["content"] == " "
    assert user["content"] == ""


def test_there_are_never_more_than_four_markers() -> None:
    conversation = list(ASK)
    for number in range(9):
        conversation.append(Message("tool", str(number), (), str(number)))
    sent = messages_as_sent(conversation, markers=True)
    assert str(sent).count("ephemeral") == 4
    for number in (0, 1, 9, 10):
        assert "ephemeral" in str(sent[number])


def test_anthropic_goes_on_with_a_reply(
    provider: Provider, claude: LiteLLMModel
) -> None:
    assert claude.traits == Traits(200000, True, Reminder.SYSTEM, images=True)
    provider.will_answer("\n    return 1\n")
    prefix = Message("assistant", "def f():\n    ")
    reply = claude.complete([*ASK, prefix])
    last = provider.requests[0]["messages"][-1]
    assert last["role"] == "assistant"
    assert last["content"][0]["text"] == "def f():"
    assert reply.content == "return 1\n", "what was stripped is not doubled"


def test_deepseek_gets_a_prefix_mark(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSEEK_API_BASE", provider.url)
    monkeypatch.setenv("DEEPSEEK_API_KEY", "none")
    provider.will_answer("b = 2\n")
    deepseek = model(provider, name="deepseek/deepseek-chat", api_base=None)
    assert deepseek.traits.prefill
    prefix = Message("assistant", "a = 1\n")
    reply = deepseek.complete([*ASK, prefix])
    last = provider.requests[0]["messages"][-1]
    assert last["content"] == "a = 1"
    assert last["prefix"] is True
    assert reply.content == "b = 2\n"


@pytest.mark.parametrize(
    ("prefix", "content", "rest"),
    [
        ("", "\nx", "\nx"),
        ("a", "b", "b"),
        ("a\n", "b", "b"),
        ("a\n", "\nb", "b"),
        ("a\n    ", "\n  b", "b"),
        ("def a_function():\n", "def a_function():\n    pass", "    pass"),
        ("})\n", "})\n})\n", "})\n})\n"),
        (" \n", "\nb", "\nb"),
    ],
)
def test_the_rest_of_a_reply(prefix: str, content: str, rest: str) -> None:
    assert continuation(prefix, content) == rest


def test_traits_come_from_the_map_and_the_settings(provider: Provider) -> None:
    assert model(provider).traits == Traits(128000, False, images=True)
    assert model(provider, name="my-own-model").traits == Traits(None, False)
    settings = ModelSettings(context=9000, prefill=True, reminder=Reminder.BOTH)
    own = model(provider, settings=settings)
    assert own.traits == Traits(9000, True, Reminder.BOTH, images=True)


def test_images_are_sent_after_their_text(provider: Provider) -> None:
    url = "https://example.org/a.png"
    conversation = [ASK[0], Message("user", "see", images=(url,))]
    text = {"type": "text", "text": "see"}
    image = {"type": "image_url", "image_url": {"url": url}}
    plain = messages_as_sent(conversation)[1]
    assert plain["content"] == [text, image]
    marked = messages_as_sent(conversation, markers=True)[1]
    assert marked["content"] == [{**text, "cache_control": MARKER}, image]
    provider.will_answer("hi")
    model(provider).complete(conversation)
    sent = provider.requests[0]["messages"][1]
    assert sent["content"][1] == image
    blind = [ASK[0], Message("user", "see")]
    assert request_sha256(conversation) != request_sha256(blind)
    assert "images" not in TypeAdapter(Message).dump_python(ASK[1])


def test_the_map_or_a_rule_says_whether_a_model_takes_images(
    provider: Provider,
) -> None:
    assert model(provider).traits.images
    own = model(provider, name="openai/own")
    assert not own.traits.images
    settings = ModelSettings(images=True)
    own = model(provider, name="openai/own", settings=settings)
    assert own.traits.images
    blind = Attempt(traits=Traits())
    seeing = Attempt(traits=Traits(images=True))
    assert "images" not in blind.as_json()["traits"]
    assert seeing.as_json()["traits"]["images"] is True
