"""Tool calls, cache markers and prefill, as sent in two protocols."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from llm.chat import Message, Reminder, ToolCall, Traits, request_sha256
from llm.client import LiteLLMModel, continuation, messages_as_sent
from llm.registry import map_entry
from llm.settings import ModelSettings
from runs.records import Attempt
from tests.llm.test_client import ASK, model
from tests.support.provider import Answer, Provider

TOOL = {
    "name": "write_file",
    "description": "Write a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
}
CLAUDE = "anthropic/claude-sonnet-4-5"
MARKER = {"type": "ephemeral"}


@pytest.fixture
def claude(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> LiteLLMModel:
    monkeypatch.setenv("ANTHROPIC_API_BASE", provider.url.removesuffix("/v1"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    return model(provider, name=CLAUDE, api_base=None)


def test_tools_are_sent_and_calls_come_back(provider: Provider) -> None:
    provider.will_answer(
        Answer(
            None, finish="tool_calls", tool_calls=(("write_file", '{"path": "a.py"}'),)
        )
    )
    reply = model(provider).complete(ASK, [TOOL])
    assert reply.content == ""
    assert reply.tool_calls == (ToolCall("write_file", '{"path": "a.py"}', "id0"),)
    assert not reply.truncated
    (request,) = provider.requests
    assert request["tools"] == [{"type": "function", "function": TOOL}]
    assert request["tool_choice"] == "auto"


def test_without_tools_none_are_sent(provider: Provider) -> None:
    provider.will_answer("hi")
    model(provider).complete(ASK)
    assert not {"tools", "tool_choice"} & provider.requests[0].keys()


def test_calls_and_their_answers_go_back_in_the_protocols_shape(
    provider: Provider,
) -> None:
    provider.will_answer("done")
    calls = (ToolCall("write_file", '{"path": "a.py"}', "id0"),)
    conversation = [
        *ASK,
        Message("assistant", "", calls),
        Message("tool", "written", (), "id0"),
    ]
    model(provider).complete(conversation, [TOOL])
    sent = provider.requests[0]["messages"][2:]
    function = {"name": "write_file", "arguments": '{"path": "a.py"}'}
    assert (sent[0]["role"], sent[0].get("content")) == ("assistant", None)
    assert sent[0]["tool_calls"] == [
        {"id": "id0", "type": "function", "function": function}
    ]
    assert sent[1] == {"role": "tool", "content": "written", "tool_call_id": "id0"}


def test_what_a_model_garbled_does_not_spoil_the_conversation() -> None:
    calls = (ToolCall("write file!", '{"path": "a', "1"), ToolCall("", "[1]", "2"))
    (sent,) = messages_as_sent([Message("assistant", "", calls)])
    functions = [call["function"] for call in sent["tool_calls"]]
    assert [f["name"] for f in functions] == ["write_file_", "unknown"]
    assert functions[0]["arguments"] == '{"unreadable": "{\\"path\\": \\"a"}'
    assert functions[1]["arguments"] == '{"unreadable": "[1]"}'


def test_arguments_that_were_cut_off_say_so(provider: Provider) -> None:
    provider.will_answer(
        Answer(None, finish="length", tool_calls=(("write_file", '{"pa'),))
    )
    reply = model(provider).complete(ASK, [TOOL])
    assert reply.truncated
    assert reply.tool_calls[0].arguments == '{"pa'


def test_a_server_of_ones_own_is_tried_with_tools_and_that_is_said(
    provider: Provider,
) -> None:
    provider.will_answer(Answer(tool_calls=(("write_file", "{}"),)))
    warnings: list[str] = []
    own = model(provider, name="my-own-model", warnings=warnings)
    assert own.complete(ASK, [TOOL]).tool_calls
    assert any("call functions" in line for line in warnings)


def test_reasoning_effort_and_limits_of_the_settings_are_sent(
    provider: Provider,
) -> None:
    provider.will_answer("hi")
    settings = ModelSettings(reasoning_effort="low", max_output=77, temperature=False)
    model(provider, name="my-own-model", settings=settings).complete(ASK)
    (request,) = provider.requests
    assert (request["reasoning_effort"], request["max_tokens"]) == ("low", 77)
    assert "temperature" not in request


def test_a_model_of_temperature_gets_it_though_the_map_says_otherwise(
    provider: Provider,
) -> None:
    provider.will_answer("hi")
    model(
        provider, name="my-o3-like", settings=ModelSettings(temperature=True)
    ).complete(ASK)
    assert provider.requests[0]["temperature"] == 0.4


def test_anthropic_gets_marks_for_its_cache(
    provider: Provider, claude: LiteLLMModel
) -> None:
    provider.will_answer(Answer("hi", cached=1000, written=200))
    turns = [Message(r, f"{r}{n}") for n in range(4) for r in ("user", "assistant")][
        :-1
    ]
    reply = claude.complete([ASK[0], *turns])
    (request,) = provider.requests
    assert request["system"] == [
        {"type": "text", "text": "be brief", "cache_control": MARKER}
    ]
    marked = [
        block["text"]
        for message in request["messages"]
        for block in message["content"]
        if block.get("cache_control") == MARKER
    ]
    assert marked == ["user0", "user2", "user3"]
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.cached_tokens) == (1300, 1000)
    price = map_entry(CLAUDE)
    assert reply.cost is not None
    assert float(reply.cost) == pytest.approx(
        100 * price["input_cost_per_token"]
        + 1000 * price["cache_read_input_token_cost"]
        + 200 * price["cache_creation_input_token_cost"]
        + 10 * price["output_cost_per_token"]
    )


def test_tools_in_anthropics_protocol(provider: Provider, claude: LiteLLMModel) -> None:
    provider.will_answer(
        Answer("so", tool_calls=(("write_file", '{"path": "a.py"}'),)), "done"
    )
    first = claude.complete(ASK, [TOOL])
    assert first.tool_calls == (ToolCall("write_file", '{"path": "a.py"}', "id0"),)
    answer = Message("tool", "written", (), "id0")
    claude.complete(
        [*ASK, Message("assistant", "so", first.tool_calls), answer], [TOOL]
    )
    (result,) = provider.requests[1]["messages"][-1]["content"]
    assert (result["type"], result["tool_use_id"]) == ("tool_result", "id0")
    assert result["cache_control"] == MARKER


def test_a_garbled_call_goes_back_to_anthropic(
    provider: Provider, claude: LiteLLMModel
) -> None:
    provider.will_answer("done")
    calls = (ToolCall("write_file", '{"path": "a', "id0"),)
    answer = Message("tool", "not JSON", (), "id0")
    claude.complete([*ASK, Message("assistant", "", calls), answer], [TOOL])
    (use,) = (
        b
        for b in provider.requests[0]["messages"][1]["content"]
        if b["type"] == "tool_use"
    )
    assert use["input"] == {"unreadable": '{"path": "a'}


def test_others_are_sent_plain_text(provider: Provider) -> None:
    provider.will_answer("hi")
    model(provider).complete(ASK)
    assert [m["content"] for m in provider.requests[0]["messages"]] == [
        "be brief",
        "hello",
    ]


def test_a_marker_needs_text() -> None:
    sent = messages_as_sent([Message("system", " "), Message("user", "")], markers=True)
    assert [message["content"] for message in sent] == [" ", ""]


def test_there_are_never_more_than_four_markers() -> None:
    tail = [Message("tool", str(n), (), str(n)) for n in range(9)]
    sent = messages_as_sent([*ASK, *tail], markers=True)
    assert str(sent).count("ephemeral") == 4
    assert [n for n, m in enumerate(sent) if "ephemeral" in str(m)] == [0, 1, 9, 10]


def test_anthropic_goes_on_with_a_reply(
    provider: Provider, claude: LiteLLMModel
) -> None:
    assert claude.traits == Traits(200000, True, Reminder.SYSTEM, images=True)
    provider.will_answer("\n    return 1\n")
    reply = claude.complete([*ASK, Message("assistant", "def f():\n    ")])
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
    reply = deepseek.complete([*ASK, Message("assistant", "a = 1\n")])
    last = provider.requests[0]["messages"][-1]
    assert (last["content"], last["prefix"]) == ("a = 1", True)
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
    assert model(provider, settings=settings).traits == Traits(
        9000, True, Reminder.BOTH, True
    )


def test_images_are_sent_after_their_text(provider: Provider) -> None:
    conversation = [
        ASK[0],
        Message("user", "see", images=("https://example.org/a.png",)),
    ]
    part = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    assert messages_as_sent(conversation)[1]["content"] == [
        {"type": "text", "text": "see"},
        part,
    ]
    marked = messages_as_sent(conversation, markers=True)[1]["content"]
    assert marked == [{"type": "text", "text": "see", "cache_control": MARKER}, part]
    provider.will_answer("hi")
    model(provider).complete(conversation)
    assert provider.requests[0]["messages"][1]["content"][1] == part
    assert request_sha256(conversation) != request_sha256(
        [ASK[0], Message("user", "see")]
    )
    assert "images" not in TypeAdapter(Message).dump_python(ASK[1])


def test_the_map_or_a_rule_says_whether_a_model_takes_images(
    provider: Provider,
) -> None:
    assert model(provider).traits.images
    assert not model(provider, name="openai/own").traits.images
    assert model(
        provider, name="openai/own", settings=ModelSettings(images=True)
    ).traits.images
    blind = Attempt(traits=Traits())
    seeing = Attempt(traits=Traits(images=True))
    assert "images" not in blind.as_json()["traits"]
    assert seeing.as_json()["traits"]["images"] is True
