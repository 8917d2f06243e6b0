"""Conversations with a scripted model: requests, edits and feedback."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.conversation.base import ConversationLimits, Ending, Reflections
from agent.conversation.testreport import Failure, TestReport
from agent.lint import Finding, Linter
from llm.chat import Reply
from tests.support.formats import APP, BAD, GOOD, block, converse


def test_a_named_file_is_shown_and_edited(tmp_path: Path) -> None:
    result, script, coder = converse(tmp_path, "I need app/main.py.", GOOD)
    assert (tmp_path / "app/main.py").read_text() == "def f():\n    return 2\n"
    assert (result.edit, result.lint, result.test) == (True, True, None)
    assert result.ending is Ending.DONE
    assert "f returns the wrong number" in script.asked(0)
    assert "old commit" in script.asked(0)
    assert "the map" in script.asked(0)
    assert "def f():\n    return 1" in script.asked(1)
    assert [m.role for m in coder.messages] == ["system", *["user", "assistant"] * 2]
    assert (result.chat_files, result.edited_files) == (
        ("app/main.py",),
        ("app/main.py",),
    )


def test_requests_only_grow_at_their_end(tmp_path: Path) -> None:
    _, script, _ = converse(tmp_path, "app/main.py", BAD, GOOD)
    for earlier, later in zip(script.requests, script.requests[1:], strict=False):
        assert later[: len(earlier)] == earlier


def test_edits_to_files_that_were_not_shown_are_applied(tmp_path: Path) -> None:
    result, script, _ = converse(tmp_path, GOOD)
    assert result.edit is True
    assert len(script.requests) == 1, (
        "files named in a reply with edits need no further call"
    )


def test_a_failed_edit_is_reflected(tmp_path: Path) -> None:
    result, script, _ = converse(tmp_path, BAD, GOOD)
    assert result.edit is True
    assert "are not in app/main.py" in script.asked(1)
    assert "return 1" in script.asked(1), "the nearest real lines"


def test_current_contents_come_with_a_failure_in_a_file_that_changed(
    tmp_path: Path,
) -> None:
    _, script, _ = converse(tmp_path, GOOD + BAD, "app/main.py is fine")
    assert "def f():\n    return 2\n" in script.asked(1)


def test_the_last_editing_reply_decides_the_edit_outcome(tmp_path: Path) -> None:
    result, _, _ = converse(tmp_path, BAD, "app/main.py cannot be edited.")
    assert (result.edit, result.edited_files) == (False, ())


def test_an_empty_reply_is_asked_once_for_files(tmp_path: Path) -> None:
    result, script, _ = converse(tmp_path, "", "")
    assert "three to five files" in script.asked(1)
    assert len(script.requests) == 2
    assert (result.edit, result.lint, result.test) == (None, None, None)


def test_a_reply_that_names_a_shown_file_and_edits_nothing_ends_it(
    tmp_path: Path,
) -> None:
    result, script, _ = converse(
        tmp_path, "app/main.py", "app/main.py is right as it is."
    )
    assert len(script.requests) == 2
    assert result.ending is Ending.DONE


def test_new_lint_findings_are_reflected_and_count(tmp_path: Path) -> None:
    broken = block("app/main.py", "    return 1\n", "    return missing\n")
    result, script, _ = converse(tmp_path, broken, "app/main.py is right.")
    assert "undefined name 'missing'" in script.asked(1)
    assert (result.edit, result.lint) == (True, False)


def test_the_linter_of_the_instance_judges(tmp_path: Path) -> None:
    class Refusing:
        def check(self, files: Sequence[tuple[str, str]]) -> list[Finding | None]:
            return [
                Finding(path, 2, "not on 2") if " 2" in text else None
                for path, text in files
            ]

    result, script, _ = converse(
        tmp_path, GOOD, "app/main.py it is", linter=Linter(Refusing())
    )
    assert "app/main.py:2: not on 2" in script.asked(1)
    assert result.lint is False


def test_failing_tests_are_reflected_and_rerun_after_the_next_edit(
    tmp_path: Path,
) -> None:
    again = block("app/main.py", "    return 2\n", "    return 3\n")
    reports = [
        TestReport(False, (Failure("test_f", "assert 2 == 3"),)),
        TestReport(True),
    ]
    result, script, _ = converse(tmp_path, GOOD, again, tests=reports)
    assert "- test_f\n\n## test_f\nassert 2 == 3" in script.asked(1)
    assert result.test is True


def test_the_same_failures_are_not_sent_twice_without_a_word(tmp_path: Path) -> None:
    again = block("app/main.py", "    return 2\n", "    return 3\n")
    last = block("app/main.py", "    return 3\n", "    return 4\n")
    first = Failure("test_f", "assert 2 == 3")
    second = Failure("test_g", "assert 5 == 6")
    reports = [
        TestReport(False, (first, second)),
        TestReport(False, (first,)),
        TestReport(True),
    ]
    _, script, _ = converse(tmp_path, GOOD, again, last, tests=reports)
    assert "assert 2 == 3" in script.asked(1)
    assert "no longer failing (1 of 2): test_g" in script.asked(2)
    assert "failing in the same way as before (1): test_f" in script.asked(2)
    assert "assert 2 == 3" not in script.asked(2)


def test_tests_run_at_the_end_when_the_last_reply_failed_in_part(
    tmp_path: Path,
) -> None:
    result, _, _ = converse(
        tmp_path,
        GOOD + BAD,
        limits=ConversationLimits(Reflections(shared=0)),
        tests=[TestReport(False)],
    )
    assert (result.edit, result.test) == (False, False)


def test_reflections_are_limited(tmp_path: Path) -> None:
    result, script, _ = converse(
        tmp_path, *[BAD] * 9, limits=ConversationLimits(Reflections(shared=2))
    )
    assert len(script.requests) == 3
    assert (result.ending, result.reflections) == (Ending.REFLECTIONS_USED, 2)


def test_a_malformed_block_is_explained_and_the_others_apply(tmp_path: Path) -> None:
    half = GOOD + "app/other.py\n```\n<<<<<<< SEARCH\nX = 1\n"
    result, script, _ = converse(tmp_path, half, "app/main.py")
    assert "Edit 2 of 2: the block for app/other.py" in script.asked(1)
    assert (
        "applied and are in the files now, so do not send them again: 1 (app/main.py)"
        in (script.asked(1))
    )
    assert result.edit is False
    assert result.edited_files == ("app/main.py",)


def test_a_reply_that_was_cut_off_is_not_applied_and_can_go_on(tmp_path: Path) -> None:
    cut = GOOD.index("=======")
    result, script, _ = converse(
        tmp_path, Reply(GOOD[:cut], truncated=True), GOOD[cut:]
    )
    assert "cut off" in script.asked(1)
    assert (tmp_path / "app/main.py").read_text() == "def f():\n    return 2\n"
    assert result.edit is True


def test_a_complete_block_of_a_cut_off_reply_is_not_applied(tmp_path: Path) -> None:
    result, _, _ = converse(
        tmp_path,
        Reply(GOOD, truncated=True),
        limits=ConversationLimits(Reflections(shared=0)),
    )
    assert result.edited_files == ()
    assert result.edit is False


def test_unsafe_paths_are_failed_edits(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    result, script, _ = converse(
        root, block("../evil.py", "", "x\n") + GOOD, "app/main.py it is"
    )
    assert not (tmp_path / "evil.py").exists()
    assert "not allowed" in script.asked(1)
    assert result.edited_files == ("app/main.py",)


def test_a_replay_goes_on_until_it_is_exhausted(tmp_path: Path) -> None:
    limits = ConversationLimits(until_exhausted=True)
    result, script, _ = converse(
        tmp_path, GOOD, "Nothing more.", "Really.", limits=limits
    )
    assert len(script.requests) == 4
    assert result.ending is Ending.REPLAY_EXHAUSTED


def test_an_issue_with_edit_markers_in_it_edits_nothing(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    result, _, _ = converse(
        tmp_path, "I would look at app/main.py", "app/main.py is fine"
    )
    assert result.edited_files == ()


def test_one_bad_path_does_not_cost_the_good_edits(tmp_path: Path) -> None:
    bad = block("app/main.py/x.py", "", "x\n") + block(
        "app/other.py", "X = 1\n", "X = 2\n"
    )
    both = bad + block("new/a/b.py", "", "1\n") + block("new/a", "", "1\n")
    result, script, _ = converse(tmp_path, both, "app/main.py is a file, I see.")
    assert (tmp_path / "app/other.py").read_text() == "X = 2\n"
    assert result.edit is False
    assert "main.py is a file, not a folder" in script.asked(1)
    assert "new/a: not a regular file" in script.asked(1)


def test_files_that_no_model_can_read_are_named_and_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(APP, "app/big.csv", "1,2,3\n" * 100_000)
    monkeypatch.setitem(APP, "app/logo.png", "\x89PNG\0\0")
    _, script, _ = converse(tmp_path, "See big.csv, logo.png and app/main.py.", GOOD)
    assert "app/big.csv is too long to be shown" in script.asked(1)
    assert "app/logo.png is not a text file" in script.asked(1)
    assert len(script.asked(1)) < 2_000
