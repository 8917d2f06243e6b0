"""Acceptance: a whole run over the OpenAI protocol in each edit format, tool calls included."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.formats import format_names, get_format
from bench.cli.commands import run_command
from bench.config import ModelChoice
from demo.setup import DEMO_DATASET
from tests.support.provider import Answer, Provider
from tests.support.runs import live, options, read

SLUG = DEMO_DATASET / "repositories/demo__textkit/textkit/slug.py"


def _answer(form: str, before: str, after: str) -> Answer:
    reply = get_format(form).render("textkit/slug.py", before, after)
    calls = tuple((call.name, call.arguments) for call in reply.tool_calls)
    finish = "stop"
    if calls:
        finish = "tool_calls"
    return Answer(reply.content or None, finish=finish, tool_calls=calls)


@pytest.mark.parametrize("form", format_names())
def test_a_whole_run_in_each_format(
    form: str, tmp_path: Path, cache: Path, provider: Provider
) -> None:
    before = SLUG.read_text(encoding="utf-8")
    broken = before.replace("letters = []", "letters = [")
    assert broken != before
    wanted = before.replace("letters = []", "letters: list[str] = []")
    provider.will_answer(
        "textkit/slug.py", _answer(form, before, broken), _answer(form, broken, wanted)
    )
    chosen = live(
        provider,
        models=(ModelChoice.parse(f"gpt-4o@{form}", any_name=True),),
        call_timeout=30,
    )
    assert (
        run_command(chosen, options(tmp_path, cache, "demo__textkit-1"), lambda _: None)
        == 0
    )
    prediction = read(tmp_path, "demo__textkit-1")
    assert (prediction["status"], prediction["attempt"]) == ("plausible", 1)
    assert "+    letters: list[str] = []" in prediction["model_patch"]
    assert len(provider.requests) == 3
    assert "# Edit format" in provider.requests[0]["messages"][0]["content"]
    assert (
        "the linter finds new problems"
        in provider.requests[2]["messages"][-1]["content"]
    )
    names = [tool["function"]["name"] for tool in provider.requests[0].get("tools", ())]
    assert names == [tool["name"] for tool in get_format(form).tools]
    roles = [message["role"] for message in provider.requests[2]["messages"]]
    expected = "user"
    if names:
        expected = "tool"
    assert roles[5] == expected


@pytest.mark.parametrize("form", ["whole-func", "diff-func"])
def test_a_run_with_calls_replays_the_same(
    form: str, tmp_path: Path, cache: Path, provider: Provider
) -> None:
    before = SLUG.read_text(encoding="utf-8")
    wanted = before.replace("letters = []", "letters: list[str] = []")
    provider.will_answer("textkit/slug.py", _answer(form, before, wanted))
    chosen = live(
        provider,
        models=(ModelChoice.parse(f"gpt-4o@{form}", any_name=True),),
        call_timeout=30,
    )
    run_command(
        chosen, options(tmp_path / "one", cache, "demo__textkit-1"), lambda _: None
    )
    again = live(provider, models=chosen.models, replay=tmp_path / "one/predictions/r")
    run_command(
        again, options(tmp_path / "two", cache, "demo__textkit-1"), lambda _: None
    )
    paths = []
    for n in ("one", "two"):
        paths.append(tmp_path / n / "predictions/r/demo__textkit-1.json")
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert "list[str]" in paths[0].read_text()
