"""What the conversations of an agent are, and what of them is shown."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from swe_retry.agent.gateway.lanes import Lanes
from swe_retry.attempts.transcript import transcript
from swe_retry.foreign.atif import atif_files
from swe_retry.llm.chat import Message, Reply, ToolCall, Usage
from swe_retry.record.records import Attempt
from swe_retry.record.result import InstanceResult
from swe_retry.report.pages.instance import _messages
from swe_retry.results.rundata import InstanceData
from tests.agent.gateway.conftest import BY_NAME
from tests.support.attempts import make_candidate

SYSTEM = Message("system", "You edit.")
TASK = Message("user", "Fix it.")


def reply(text: str, *tools: str) -> Reply:
    calls = tuple(ToolCall(name, "{}", f"id-{name}") for name in tools)
    return Reply(text, usage=Usage(10, 2, 0), cost=Decimal("0.01"), tool_calls=calls)


def answer(call: Reply) -> Message:
    return Message("assistant", call.content, call.tool_calls)


def result(name: str) -> Message:
    return Message("tool", f"of {name}", tool_call_id=f"id-{name}")


def test_parallel_calls_that_are_written_back_one_by_one_stay_one_answer() -> None:
    lanes = Lanes()
    first = reply("I look.", "look", "list")
    lanes.add([SYSTEM, TASK], answer(first), first)
    look, listing = first.tool_calls
    back = [
        SYSTEM,
        TASK,
        Message("assistant", "I look.", (look,)),
        result("look"),
        Message("assistant", "", (listing,)),
        result("list"),
    ]
    second = reply("Done.")
    lanes.add(back, answer(second), second)
    (lane,) = lanes.lanes
    assert lane.messages == [
        SYSTEM,
        TASK,
        answer(first),
        result("look"),
        result("list"),
        answer(second),
    ]
    assert lane.calls == [first, second]


def test_equal_answers_go_on_with_the_conversation_of_their_messages() -> None:
    lanes = Lanes()
    first = Message("user", "one")
    second = Message("user", "two")
    call = reply("I look.", "look")
    for task in (first, second):
        lanes.add([SYSTEM, task], answer(call), call)
    end = reply("Done.")
    for task in (second, first):
        request = [SYSTEM, task, answer(call), result("look")]
        lanes.add(request, answer(end), end)
    assert [lane.messages[1] for lane in lanes.lanes] == [first, second]
    assert [len(lane.messages) for lane in lanes.lanes] == [5, 5]


def fork_conversation() -> InstanceResult:
    """Return an attempt whose second conversation goes on in the middle of the first."""
    lanes = Lanes()
    first = reply("I look.", "look")
    request = [SYSTEM, TASK]
    lanes.add(request, answer(first), first)
    request += [answer(first), result("look")]
    second = reply("I list.", "list")
    lanes.add(request, answer(second), second)
    third = reply("I do otherwise.")
    lanes.add([*request, Message("user", "Or?")], answer(third), third)
    calls: list[Reply] = []
    for lane in lanes.lanes:
        calls += lane.calls
    attempt = make_candidate(
        messages=tuple(lanes.messages(0)),
        calls=tuple(calls),
        cost=Decimal("0.03"),
    )
    return InstanceResult(instance_id="a__b-1", attempts=(attempt,))


def test_messages_that_conversations_share_are_recorded_once() -> None:
    lanes = Lanes()
    history = [SYSTEM, Message("user", "x" * 100_000)]
    for number in range(12):
        # What a request reads is a new object, and the answers are not sent back.
        request = [Message(m.role, m.content + " ") for m in history]
        call = reply(f"answer {number}")
        lanes.add(request, answer(call), call)
    assert len(lanes.lanes) == 12
    assert 100_000 < lanes.size < 110_000
    messages = tuple(lanes.messages(0))
    assert len({id(message.content) for message in messages}) == 2 + 12
    attempt = make_candidate(messages=messages, calls=())
    values = attempt.as_json()
    assert len(json.dumps(values)) < 110_000
    assert values["messages"][3] == {"lane": 1, "same_as": 0}
    assert Attempt.model_validate(json.loads(json.dumps(values))) == attempt


def test_messages_of_earlier_versions_and_broken_references_are_read_as_they_are() -> (
    None
):
    full = make_candidate(messages=(TASK, replace(TASK, lane=1)))
    values = full.as_json()
    for message in (
        {"role": "user", "content": "Fix it.", "lane": 1},
        {"lane": 1, "same_as": 0},
    ):
        values["messages"][1] = message
        assert Attempt.model_validate(values) == full
    for position in (1, 99, -1, "0", None):
        values["messages"][1] = {"lane": 1, "same_as": position}
        with pytest.raises(ValidationError):
            Attempt.model_validate(values)


CONTINUES = "conversation 2, continues conversation 1 after message 4"


def test_pages_say_which_conversation_continues_which() -> None:
    instance = fork_conversation()
    assert f". SYSTEM, {CONTINUES}\n" in transcript(instance)
    rows = _messages(instance)[1]
    roles = [row["role"] for row in rows if "conversation 2" in row["role"]]
    assert roles[0] == f"system, {CONTINUES}"
    assert roles[1] == "user, conversation 2"


def test_repeated_answers_lose_no_tokens_and_no_cost() -> None:
    (attempt,) = fork_conversation().attempts
    instance = InstanceData(instance_id="a__b-1", attempts=(attempt,))
    (content,) = atif_files(instance, "agent 1").values()
    (main,) = content["subagent_trajectories"]
    (other,) = main["subagent_trajectories"]
    assert costs_of(main["steps"]) == [0.01, 0.01]
    assert costs_of(other["steps"]) == [0.01]
    assert main["final_metrics"]["total_cost_usd"] == 0.03


def costs_of(steps: list[dict[str, Any]]) -> list[float]:
    costs = []
    for step in steps:
        if "metrics" in step:
            costs.append(step["metrics"]["cost_usd"])
    return costs


THOUGHTS: dict[str, list[Any]] = {
    "messages": [
        {"type": "message_start", "message": {"usage": {}}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": ""},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"thinking": "I "}},
        {"type": "content_block_delta", "index": 0, "delta": {"thinking": "think."}},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "text", "text": ""},
        },
        {"type": "content_block_delta", "index": 1, "delta": {"text": "So."}},
    ],
    "chat": [
        {"choices": [{"delta": {"reasoning_content": "I "}}]},
        {"choices": [{"delta": {"reasoning": "think."}}]},
        {"choices": [{"delta": {"content": "So."}}]},
    ],
    "responses": [
        {
            "type": "response.completed",
            "response": {
                "output": [
                    {"type": "reasoning", "summary": [{"text": "I think."}]},
                    {"role": "assistant", "content": [{"text": "So."}]},
                ]
            },
        }
    ],
    "generateContent": [
        {
            "candidates": [
                {
                    "content": {
                        "parts": [
                            {"text": "I think.", "thought": True},
                            {"text": "So."},
                        ]
                    }
                }
            ]
        }
    ],
}


@pytest.mark.parametrize("name", BY_NAME)
def test_thoughts_are_read_and_shown(name: str) -> None:
    events = [f"data: {json.dumps(event)}\n\n" for event in THOUGHTS[name]]
    thinking = BY_NAME[name].read_text("".join(events))
    assert thinking.reasoning == "I think."
    assert thinking.content == "So."
    message = Message("assistant", thinking.content, reasoning=thinking.reasoning)
    attempt = make_candidate(messages=(TASK, message))
    instance = InstanceResult(instance_id="a__b-1", attempts=(attempt,))
    assert "I think." in transcript(instance)
    assert "I think." in _messages(instance)[1][1]["content"]


IMAGE = {"type": "base64", "media_type": "image/png", "data": "aaaa"}
RESULTS: dict[str, dict[str, Any]] = {
    "messages": {
        "type": "tool_result",
        "tool_use_id": "c",
        "content": [
            {"type": "text", "text": "seen"},
            {"type": "image", "source": IMAGE},
            {"type": "tool_reference", "tool_name": "WebFetch"},
        ],
    },
    "chat": {
        "role": "tool",
        "tool_call_id": "c",
        "content": [
            {"type": "text", "text": "seen"},
            {"type": "image_url", "image_url": {"url": "data:x"}},
        ],
    },
    "responses": {
        "type": "function_call_output",
        "call_id": "c",
        "output": [
            {"type": "input_text", "text": "seen"},
            {"type": "input_image", "image_url": "data:x"},
        ],
    },
}
SEEN = {
    "messages": "seen\n[image]\n[tool_reference: WebFetch]",
    "chat": "seen\n[image_url]",
    "responses": "seen\n[input_image]",
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_that_are_no_texts_are_shown_as_what_they_are(name: str) -> None:
    message = BY_NAME[name].part(RESULTS[name])
    assert message == Message("tool", SEEN[name], tool_call_id="c")
