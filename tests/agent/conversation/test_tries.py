"""Tries: one conversation that failing tests continue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from swe_retry.agent.agents import load_agent
from swe_retry.agent.builtin import BuiltinAgent, Coder, tries
from swe_retry.agent.conversation.result import Ending
from swe_retry.agent.conversation.setup import harness_setup
from swe_retry.agent.conversation.testreport import Failure, TestReport
from swe_retry.agent.formats.plan import PlanFormat
from swe_retry.llm.chat import BudgetUsedError, RequestRefusedError, Traits
from tests.support import write_files
from tests.support.formats import (
    DONE,
    FAILED,
    FILES,
    RIGHT,
    SETUP,
    WRONG,
    Attempt,
    Scripted,
    attempt,
    fenced,
)


def test_each_try_has_one_round_for_edits_that_fail(tmp_path: Path) -> None:
    results, exercise = attempt(tmp_path, WRONG, WRONG, WRONG, RIGHT)
    first, second = results
    for result in results:
        assert result.ending is Ending.REFLECTIONS_USED
        assert result.test is False
    assert first.edit is False
    assert second.edit is True
    assert len(exercise.model.requests) == 4
    assert "not in f.py" in exercise.model.prompt(1)
    assert exercise.model.prompt(2) == FAILED.message
    # The tests run once in a try.
    assert exercise.trees == [{}, {"f.py": DONE.encode()}]
    assert [reply.failed for reply in first.replies] == [1, 1]
    assert [reply.failed for reply in second.replies] == [1, 0]


def test_good_edits_of_a_reply_that_failed_in_part_are_shown_once(
    tmp_path: Path,
) -> None:
    _, exercise = attempt(tmp_path, RIGHT + WRONG, "No.", "No.")
    prompt = exercise.model.prompt(1)
    assert prompt.count(DONE) == 1
    assert prompt.startswith("The files now:\n\nf.py\n")
    assert "g.py" not in prompt


def test_a_try_that_could_not_go_on_is_the_last(tmp_path: Path) -> None:
    refusal = RequestRefusedError("no")
    (result,), exercise = attempt(tmp_path, refusal)
    assert result.ending is Ending.REFUSED
    assert result.test is None
    assert exercise.trees == [], "nothing was answered, so there is nothing to test"
    (result,), _ = attempt(tmp_path, WRONG, BudgetUsedError("spent"))
    assert result.ending is Ending.BUDGET
    (result,), _ = attempt(tmp_path, RIGHT + WRONG, refusal)
    assert result.ending is Ending.REFUSED
    assert result.test is False
    (result,), _ = attempt(tmp_path, RIGHT, traits=Traits(context=300))
    assert result.ending is Ending.CONTEXT


def test_the_files_stay_when_the_window_is_full(tmp_path: Path) -> None:
    long = "word " * 2_400
    replies = [RIGHT + WRONG + long, "", long]
    traits = Traits(context=4_000)
    results, exercise = attempt(tmp_path, *replies, traits=traits)
    assert [result.ending for result in results] == [Ending.REFLECTIONS_USED] * 2
    prompt = exercise.model.prompt(1)
    assert fenced("f.py", DONE) in prompt
    assert fenced("g.py", FILES["g.py"]) in prompt, "of the rounds left out"


def test_the_transcript_has_all_tries(tmp_path: Path) -> None:
    write_files(tmp_path, FILES)
    script = Scripted(["no", "no", RuntimeError("gone")])
    task = Attempt(tmp_path, script, [FAILED]).task(SETUP, "diff")
    works: Iterator[object] = tries(task)
    next(works)
    assert len(task.transcript.calls) == 1
    next(works)
    roles = [message.role for message in task.transcript.messages]
    assert roles[1:] == ["user", "assistant", "user", "assistant"]
    with pytest.raises(RuntimeError):
        next(works)
    assert len(task.transcript.calls) == 2


def test_failures_are_described_where_a_report_has_no_message(tmp_path: Path) -> None:
    report = TestReport(False, (Failure("test_f", "assert 1 == 2"),))
    _, exercise = attempt(tmp_path, "", "", reports=[report])
    prompt = exercise.model.prompt(1)
    assert "## test_f\nassert 1 == 2" in prompt
    assert "Since the last report" not in prompt, "it was not sent before"


def test_the_builtin_agent_makes_one_try_with_the_brief_of_its_task(
    tmp_path: Path,
) -> None:
    write_files(tmp_path, FILES)
    exercise = Attempt(tmp_path, Scripted([RIGHT]), [FAILED])
    work = BuiltinAgent().work(exercise.task(SETUP, "diff"))
    assert work.result
    assert work.result.test is False
    assert exercise.task(harness_setup(), "diff").setup == harness_setup()
    assert load_agent("builtin") == BuiltinAgent()


def test_a_plan_that_names_shown_files_is_the_last_reply(tmp_path: Path) -> None:
    write_files(tmp_path, FILES)
    plan = "In f.py, let f return 1."
    model = Scripted(["I need f.py.", plan, "never asked"])
    task = Attempt(tmp_path, model, []).task(harness_setup(), "diff")
    plan_format = PlanFormat()
    work = Coder.of(task, plan_format).run()
    assert len(model.requests) == 2
    assert work.result
    assert work.result.ending is Ending.DONE
    assert plan_format.plan == plan
