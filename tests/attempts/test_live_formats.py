"""Acceptance: a whole run over the OpenAI protocol in each edit format, tool calls included."""

from __future__ import annotations

import pytest

from swe_retry.agent.formats import format_names, get_format
from swe_retry.attempts.config import ModelChoice
from swe_retry.demo.setup import DEMO_DATASET
from tests.support.harness import Harness
from tests.support.provider import Answer, Provider
from tests.support.render_edits import render
from tests.support.runs import live

ID = "demo__textkit-1"
SLUG = DEMO_DATASET / "repositories/demo__textkit/textkit/slug.py"


def edit_answer(format_name: str, before: str, after: str) -> Answer:
    edit_format = get_format(format_name)
    reply = render(edit_format, "textkit/slug.py", before, after)
    calls = tuple((call.name, call.arguments) for call in reply.tool_calls)
    finish = "stop"
    if calls:
        finish = "tool_calls"
    return Answer(reply.content or None, finish=finish, tool_calls=calls)


@pytest.mark.parametrize("format_name", format_names())
def test_a_whole_run_in_each_format(
    harness: Harness, format_name: str, provider: Provider
) -> None:
    before = SLUG.read_text(encoding="utf-8")
    broken = before.replace("letters = []", "letters = [")
    assert broken != before
    fixed = before.replace("letters = []", "letters: list[str] = []")
    breaking = edit_answer(format_name, before, broken)
    fixing = edit_answer(format_name, broken, fixed)
    provider.will_answer("textkit/slug.py", breaking, fixing)
    model = ModelChoice.parse(f"gpt-4o@{format_name}", any_name=True)
    chosen = live(provider, models=(model,), call_timeout=30)
    prediction = harness.solve(chosen, ID)
    assert prediction["status"] == "plausible"
    assert prediction["attempt"] == 1
    assert "+    letters: list[str] = []" in prediction["model_patch"]
    assert len(provider.requests) == 3
    opening, _, last = provider.requests
    assert "# Edit format" in opening["messages"][0]["content"]
    assert "the linter finds new problems" in last["messages"][-1]["content"]
    offered = [tool["function"]["name"] for tool in opening.get("tools", ())]
    tools = [tool["name"] for tool in get_format(format_name).tools]
    assert offered == tools
    role = last["messages"][5]["role"]
    if tools:
        assert role == "tool"
        harness.assert_replays(chosen, ID)
    else:
        assert role == "user"
