"""Conversations with a setup of their own: files from the start, own texts, counted replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from swe_retry.agent.builtin import Coder
from swe_retry.agent.conversation.result import Ending, ReplyCounts, Result
from swe_retry.agent.conversation.testreport import TestReport
from swe_retry.agent.formats import format_names, get_format
from swe_retry.agent.formats.protocol import Notation, Sample
from swe_retry.llm.chat import Message, Reply
from tests.support.formats import (
    DONE,
    FAILED,
    FENCE,
    FILES,
    FOREIGN,
    RIGHT,
    SETUP,
    STUB,
    Attempt,
    Scripted,
    attempt,
    block,
    fenced,
    tool_reply,
)
from tests.support.render_edits import render


def test_the_first_request_has_the_files_and_nothing_else(tmp_path: Path) -> None:
    _, exercise = attempt(tmp_path, RIGHT, reports=[TestReport(True)])
    rules = get_format("diff").instructions("```", Sample("f.py", STUB))
    files = f"{fenced('f.py', STUB)}\n\n{fenced('g.py', FILES['g.py'])}"
    problem = "Write `f`: see f_test.py. {{ braces }}"
    assert exercise.model.requests == [
        [
            Message("system", f"You write code.\n\n{rules}"),
            Message("user", f"The files:\n\n{files}\n\n{problem}"),
        ]
    ]


def test_a_second_try_continues_with_the_report_and_the_files_as_they_are(
    tmp_path: Path,
) -> None:
    last = block("f.py", "    return 1\n", "    return 2\n")
    reports = [FAILED, TestReport(True)]
    results, exercise = attempt(tmp_path, RIGHT, last, reports=reports)
    assert outcomes_of_tests(results) == [False, True]
    first, second = exercise.model.requests
    assert second[:3] == [*first, Message("assistant", RIGHT)]
    followup = f"The files now:\n\n{fenced('f.py', DONE)}\n\n{FAILED.message}"
    assert exercise.model.prompt(1) == followup
    assert exercise.trees == [
        {"f.py": DONE.encode()},
        {"f.py": DONE.replace("1", "2").encode()},
    ]
    assert [len(result.replies) for result in results] == [1, 1]


def outcomes_of_tests(results: Sequence[Result]) -> list[bool | None]:
    return [result.test for result in results]


def test_a_passing_try_is_the_last(tmp_path: Path) -> None:
    results, _ = attempt(tmp_path, RIGHT, reports=[TestReport(True)])
    (result,) = results
    assert result.ending is Ending.DONE
    assert result.edit is True
    assert result.lint is None
    assert result.test is True
    results, _ = attempt(tmp_path, RIGHT, reports=[TestReport(None)])
    assert outcomes_of_tests(results) == [None], "no test could tell: no second try"


def test_an_unedited_tree_is_tested_after_every_reply(tmp_path: Path) -> None:
    results, exercise = attempt(tmp_path, "I see f_test.py and f.py.", "")
    assert outcomes_of_tests(results) == [False, False]
    assert exercise.trees == [{}, {}]
    # No file is brought in, none has changed.
    assert exercise.model.prompt(1) == FAILED.message
    assert results[1].chat_files == ("f.py", "g.py")


def test_the_harness_tests_changed_trees_only(tmp_path: Path) -> None:
    setup = replace(SETUP, test_unedited=False)
    results, exercise = attempt(tmp_path, "No.", setup=setup)
    assert outcomes_of_tests(results) == [None]
    assert exercise.trees == []
    results, exercise = attempt(tmp_path, RIGHT, "No.", setup=setup)
    assert outcomes_of_tests(results) == [False, False]
    assert len(exercise.trees) == 1, "an equal tree has equal results"


@pytest.mark.parametrize("name", format_names())
def test_other_files_are_not_written(tmp_path: Path, name: str) -> None:
    form = get_format(name)
    reply = render(form, "conftest.py", None, "raise SystemExit(0)\n")
    results, exercise = attempt(tmp_path, reply, "", "", form=name)
    counts = results[0].replies[0]
    assert counts.edits == 1
    assert counts.failed == 1
    assert counts.foreign == 1
    assert "may not be edited, only: f.py, g.py" in exercise.model.prompt(1)
    assert {path.name for path in tmp_path.iterdir()} == set(FILES)


def test_tests_are_neither_changed_nor_moved_nor_removed(tmp_path: Path) -> None:
    outside = block("../f.py", "", "x\n")
    results, _ = attempt(tmp_path, FOREIGN, outside, "")
    assert [reply.foreign for reply in results[0].replies] == [2, 1]
    patch = (
        "*** Begin Patch\n*** Update File: f.py\n*** Move to: f_test.py\n@@\n-    pass\n"
        "+    x\n*** Delete File: f_test.py\n*** End Patch\n"
    )
    results, _ = attempt(tmp_path, patch, "", "", form="patch")
    assert results[0].replies[0].foreign == 2
    assert (tmp_path / "f_test.py").read_text() == "import f\n"


def test_lint_is_silent(tmp_path: Path) -> None:
    broken = block("f.py", "    pass\n", "    return (\n")
    results, exercise = attempt(tmp_path, broken, "")
    assert [result.lint for result in results] == [None, None]
    assert exercise.model.prompt(1).endswith(FAILED.message)


def test_what_replies_did_is_counted(tmp_path: Path) -> None:
    ambiguous = block("g.py", "x = 1\n", "x = 2\n")
    whole_file = block("f.py", f"\n{STUB}", DONE)
    half = "f.py\n```\n<<<<<<< SEARCH\n    pass\n"
    cut_off = Reply(half, truncated=True)
    results, _ = attempt(tmp_path, ambiguous + whole_file, half, cut_off, "no")
    counts: list[ReplyCounts] = []
    for result in results:
        counts.extend(result.replies)
    assert counts == [
        ReplyCounts(edits=2, failed=1, ambiguous=1, whole_file_blocks=1),
        ReplyCounts(edits=1, failed=1, unreadable=1),
        ReplyCounts(truncated=True),
        ReplyCounts(),
    ]


def test_calls_of_unknown_functions_are_counted_and_understood(tmp_path: Path) -> None:
    call = tool_reply("write_code", {"path": "f.py", "content": DONE})
    results, _ = attempt(tmp_path, call, reports=[TestReport(True)], form="whole-func")
    assert results[0].replies == (ReplyCounts(edits=1, unknown_calls=1),)
    assert results[0].test is True


def test_calls_of_unknown_functions_are_malformed_in_2023(tmp_path: Path) -> None:
    files = [{"path": "f.py", "content": DONE}]
    unknown = tool_reply("python", {"explanation": "", "files": files})
    form = get_format("whole-func", notation=Notation.OF_2023)
    right = render(form, "f.py", STUB, DONE)
    results, exercise = attempt(
        tmp_path,
        unknown,
        right,
        reports=[TestReport(True)],
        form="whole-func",
        setup=replace(SETUP, notation=Notation.OF_2023),
    )
    malformed = ReplyCounts(malformed=True, unknown_calls=1)
    assert results[0].replies == (malformed, ReplyCounts(edits=1))
    prompt = exercise.model.prompt(1)
    assert "there is no function python" in prompt
    assert "nothing of it was applied" in prompt


def test_files_are_shown_as_the_format_writes_them(tmp_path: Path) -> None:
    inside = f"```\nf.py\n{STUB}```\n\n```\ng.py\n"
    for form, notation in (
        ("diff-fenced", Notation.CURRENT),
        ("diff", Notation.OF_2023),
    ):
        setup = replace(SETUP, notation=notation)
        _, exercise = attempt(tmp_path, "", "", form=form, setup=setup)
        assert inside in exercise.model.prompt(0)
    setup = replace(SETUP, as_edited=False)
    _, exercise = attempt(tmp_path, "", "", form="diff-fenced", setup=setup)
    assert fenced("f.py", STUB) in exercise.model.prompt(0)


def test_the_fence_of_the_rules_is_in_no_file(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("```\n")
    model = Scripted([""])
    exercise = Attempt(tmp_path, model, [TestReport(True)])
    setup = replace(SETUP, shown_files=("f.py",))
    Coder.of(exercise.task(setup, "whole")).run()
    system = model.requests[0][0].content
    assert get_format("whole").instructions("````", Sample("f.py", "```\n")) in system


SOLVED = STUB.replace("pass", "return 2")
UNPLACED = f"Here:\n\n{FENCE}python\nreturn 1\n{FENCE}\n"


@pytest.mark.parametrize("form", format_names())
def test_a_complete_fence_without_a_name_solves_the_exercise(
    tmp_path: Path, form: str
) -> None:
    reply = f"Here it is:\n\n{FENCE}python\n{SOLVED}{FENCE}\n"
    setup = replace(SETUP, shown_files=("f.py",))
    results, exercise = attempt(
        tmp_path, reply, form=form, setup=setup, reports=[TestReport(True)]
    )
    assert [result.replies for result in results] == [(ReplyCounts(edits=1),)]
    assert exercise.trees == [{"f.py": SOLVED.encode()}]


@pytest.mark.parametrize("form", ["diff", "whole", "udiff", "whole-func"])
def test_a_fence_without_an_edit_is_malformed_and_said(
    tmp_path: Path, form: str
) -> None:
    results, exercise = attempt(tmp_path, UNPLACED, UNPLACED, form=form)
    (first, second) = results[0].replies
    for reply in (first, second):
        assert reply.malformed or reply.failed
    assert results[0].edit is False
    assert "f.py" in exercise.model.prompt(1).rpartition("\n\n####")[2]
    # The tests run all the same, on the files as they are.
    assert exercise.trees[0] == {}


def test_words_alone_are_not_malformed(tmp_path: Path) -> None:
    results, exercise = attempt(tmp_path, "I cannot do it.")
    assert results[0].replies == (ReplyCounts(),)
    assert exercise.model.prompt(1).endswith(FAILED.message)


def test_a_correction_has_an_example_of_the_file(tmp_path: Path) -> None:
    setup = replace(SETUP, shown_files=("f.py",))
    _, exercise = attempt(tmp_path, UNPLACED, "", setup=setup)
    prompt = exercise.model.prompt(1)
    assert block("f.py", "import re\n", "import re\n") in prompt
    assert "path/to/file" not in prompt
