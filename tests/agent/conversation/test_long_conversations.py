"""Full windows, replies that are cut off, answers to calls, budgets by topic."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from swe_retry.agent.conversation.context import window_of
from swe_retry.agent.conversation.limits import (
    ConversationLimits,
    Reflections,
    Topic,
)
from swe_retry.agent.conversation.result import Ending
from swe_retry.agent.conversation.testreport import Failure, TestReport
from swe_retry.agent.formats import get_format
from swe_retry.agent.formats.report import OnFailure
from swe_retry.llm.chat import Message, Reminder, Reply, ToolCall, Traits
from swe_retry.llm.tokens import size
from tests.support.formats import (
    APP,
    BAD,
    GOOD,
    Scripted,
    block,
    converse,
    make_coder,
)


def test_the_oldest_rounds_go_first_and_the_files_stay(tmp_path: Path) -> None:
    long = "word " * 1200
    replies = [f"I look at app/main.py. {long}", f"{BAD}{long}", f"{BAD}{long}", GOOD]
    traits = Traits(context=5_000)
    limits = ConversationLimits(Reflections(shared=9))
    result, script, _ = converse(tmp_path, *replies, traits=traits, limits=limits)
    assert result.edit is True
    last = script.requests[3]
    assert [message.role for message in last[:2]] == ["system", "user"]
    assert "f returns the wrong number" in last[1].content
    assert len([message for message in last if long in message.content]) < 3
    assert "left out because it grew too long" in last[-1].content
    assert "app/main.py\n```\ndef f():\n    return 1\n```" in last[-1].content
    window = window_of(traits) or 0
    for request in script.requests:
        assert size(request, script.count) <= window


def test_when_nothing_helps_the_attempt_ends_for_want_of_room(tmp_path: Path) -> None:
    result, script, _ = converse(tmp_path, GOOD, traits=Traits(context=300))
    assert result.ending is Ending.CONTEXT
    assert script.requests == []


def test_a_map_that_does_not_fit_is_left_out(tmp_path: Path) -> None:
    big = "x" * 20_000
    traits = Traits(context=4_000)
    result, script, _ = converse(tmp_path, GOOD, traits=traits, repo_map=big)
    assert result.edit is True
    _, opening = script.requests[0]
    assert big not in opening.content
    assert "f returns the wrong number" in opening.content


def test_files_too_long_for_the_window_are_only_named(tmp_path: Path) -> None:
    long = "x = 1\n" * 3_000
    script = Scripted(["app/main.py", "no"], Traits(context=4_000))
    coder = make_coder(tmp_path, script, files=APP | {"app/main.py": long})
    coder.run()
    remark = "app/main.py is too long to be shown in full (18000 characters)"
    assert remark in script.prompt(1)


def test_a_cut_off_reply_goes_on_as_its_own_prefill(tmp_path: Path) -> None:
    cut = GOOD.index("return 2")
    beginning = GOOD[:cut]
    replies = [Reply(beginning, truncated=True), Reply(GOOD[cut:])]
    result, script, coder = converse(tmp_path, *replies, traits=Traits(prefill=True))
    assert (tmp_path / "app/main.py").read_text() == "def f():\n    return 2\n"
    assert result.edit is True
    first, second = script.requests
    assert second == [*first, Message("assistant", beginning)]
    roles = [message.role for message in coder.messages]
    assert roles == ["system", "user", "assistant"]
    assert coder.messages[-1].content == GOOD


def test_a_cut_off_call_is_not_written_and_asked_for_in_parts(tmp_path: Path) -> None:
    call = ToolCall("write_file", '{"path": "app/main.py", "content": "x"}', "c1")
    result, script, _ = converse(
        tmp_path,
        Reply("", truncated=True, tool_calls=(call,)),
        "no",
        form="whole-func",
        traits=Traits(prefill=True),
    )
    assert result.edited_files == ()
    assert "one call at a time" in script.prompt(1)


def test_calls_are_answered_before_the_next_message(tmp_path: Path) -> None:
    wrong = ToolCall("replace_lines", '{"path": "app/main.py"}', "c1")
    arguments = (
        '{"path": "app/main.py", "original_lines": "    return 1", '
        '"updated_lines": "    return 2"}'
    )
    right = ToolCall("replace_lines", arguments)
    replies = [Reply("", tool_calls=(wrong,)), Reply("", tool_calls=(right,))]
    result, script, coder = converse(tmp_path, *replies, form="diff-func")
    assert result.edit is True
    _, _, answer, tool, followup = script.requests[1]
    assert answer.role == "assistant"
    assert answer.tool_call_id == ""
    assert tool.role == "tool"
    assert tool.tool_call_id == "c1"
    assert followup.role == "user"
    assert followup.tool_call_id == ""
    assert script.tools[0] == get_format("diff-func").tools
    assert coder.messages[-1].tool_calls[0].id


@pytest.mark.parametrize(
    ("reminder", "system", "user"),
    [
        (Reminder.SYSTEM, True, False),
        (Reminder.USER, False, True),
        (Reminder.BOTH, True, True),
        (Reminder.NONE, False, False),
    ],
)
def test_where_the_rules_of_the_format_stand(
    tmp_path: Path, reminder: Reminder, system: bool, user: bool
) -> None:
    _, script, _ = converse(tmp_path, GOOD, traits=Traits(reminder=reminder))
    first, second = script.requests[0]
    assert ("SEARCH/REPLACE" in first.content) == system
    assert ("SEARCH/REPLACE" in second.content) == user


def test_a_budget_that_ran_out_leaves_the_others(tmp_path: Path) -> None:
    failing = TestReport(False, (Failure("test_f"),))
    second = block("app/main.py", "    return 2\n", "    return 3\n")
    third = block("app/main.py", "    return 3\n", "    return 4\n")
    replies = ["app/main.py", BAD, GOOD, second, third, "never asked"]
    budgets = Reflections(locate=1, edit=1, lint=0, test=2)
    result, script, _ = converse(
        tmp_path,
        *replies,
        limits=ConversationLimits(budgets),
        tests=[failing] * 3,
    )
    assert result.ending is Ending.REFLECTIONS_USED
    assert len(script.requests) == 5


def test_one_number_is_a_budget_for_all_topics() -> None:
    budget = Reflections.parse("2")
    assert budget.left(Topic.EDIT, Counter()) == 2
    assert budget.left(Topic.TEST, Counter({Topic.EDIT: 1})) == 1
    assert budget.left(Topic.LINT, Counter({Topic.EDIT: 1, Topic.TEST: 1})) == 0


def test_budgets_are_read_and_written() -> None:
    budgets = Reflections.parse("edit=5, test=0")
    assert budgets.locate == 2
    assert budgets.edit == 5
    assert budgets.test == 0
    assert Reflections.parse(str(budgets)) == budgets
    assert str(Reflections.parse("4")) == "4"
    assert budgets.total == 2 + 5 + 2
    for wrong in ("edit", "edit=-1", "speed=2", "", "2.5"):
        with pytest.raises(ValueError, match="neither a number"):
            Reflections.parse(wrong)


def test_a_reply_without_failures_is_not_rolled_back(tmp_path: Path) -> None:
    result, _, _ = converse(tmp_path, GOOD, on_failure=OnFailure.ROLL_BACK)
    assert result.edit is True
    assert result.edited_files == ("app/main.py",)


def test_a_file_that_the_model_made_is_known_by_the_end_of_its_path(
    tmp_path: Path,
) -> None:
    new = block("app/deep/fresh.py", "", "a = 1\n") + BAD
    again = block("fresh.py", "a = 1\n", "a = 2\n")
    converse(tmp_path, new, again)
    assert (tmp_path / "app/deep/fresh.py").read_text() == "a = 2\n"


def test_files_named_last_are_kept_before_those_named_first(tmp_path: Path) -> None:
    first = "first = 1\n" * 400
    last = "last = 1\n" * 400
    long = "word " * 900
    replies = ["app/first.py", f"app/last.py {long}", f"{BAD}{long}", "no"]
    script = Scripted(replies, Traits(context=4_000))
    coder = make_coder(
        tmp_path,
        script,
        files={"app/first.py": first, "app/last.py": last},
        limits=ConversationLimits(Reflections(shared=9)),
    )
    coder.run()
    shortened = []
    for request in script.requests:
        prompt = request[-1].content
        if "left out because" in prompt:
            shortened.append(prompt)
    assert shortened
    assert last in shortened[-1]
    assert first not in shortened[-1]


def test_a_reply_that_failed_in_part_can_be_rolled_back(tmp_path: Path) -> None:
    roll_back = OnFailure.ROLL_BACK
    result, script, _ = converse(tmp_path, GOOD + BAD, "no", on_failure=roll_back)
    assert result.edited_files == ()
    assert "send all of them again" in script.prompt(1)
