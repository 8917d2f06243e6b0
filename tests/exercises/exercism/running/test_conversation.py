"""What a conversation sends besides whole runs: long outputs, several files, transcripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from agent.formats import get_format
from environments.base import EnvironmentKind
from exercises.exercism.exercise import Exercise
from exercises.exercism.results import ColumnName, TryResult
from exercises.exercism.running.config import ExercismConfig, RunColumn
from exercises.exercism.running.conversation import ExerciseConversation, patch_of
from exercises.exercism.running.outcome import (
    ExerciseAttempt,
    attempt_of,
    transcript_lines,
)
from exercises.exercism.settings import Exercises, ExercismModels, ExercismSettings
from llm.chat import Reply, ToolCall, Traits
from llm.options import ModelChoice
from runs.modelsource import Turn
from runs.records import InstanceStatus
from tests.support.exercism import rendered, six
from tests.support.formats import Scripted

CHOICE = ModelChoice("gpt-4o", "gpt-4o", "whole")
LONG = "".join(f"line {number} of the output\n" for number in range(2000))


@dataclass
class Tests:
    """Fails with an output until the solution is the example."""

    __test__ = False

    output: str = "1 failed\n"
    seen: list[Mapping[str, bytes]] = field(default_factory=list)

    def test(self, exercise: Exercise, solution: Mapping[str, bytes]) -> TryResult:
        self.seen.append(solution)
        solved = dict(solution) == exercise.example()
        passed, failed = (2, 0) if solved else (1, 1)
        return TryResult(
            solved=solved,
            output=self.output,
            tests_passed=passed,
            tests_failed=failed,
            tests_skipped=0,
            seconds=0.25,
        )

    def close(self) -> None:
        pass


def converse(
    root: Path,
    *replies: str | Reply,
    tests: Tests | None = None,
    form: str = "whole",
    name: str = "garden-path",
    context: int | None = None,
    settings: ExercismSettings | None = None,
) -> tuple[ExerciseAttempt, Scripted, Tests]:
    """Return the attempt that a conversation with these replies was."""
    exercise, tests = six()[name], tests or Tests()
    model = Scripted(list(replies), Traits(context=context))
    choice = replace(CHOICE, edit_format=form)
    config = ExercismConfig(
        settings or ExercismSettings(), (choice,), EnvironmentKind.LOCAL
    )
    conversation = ExerciseConversation(
        exercise=exercise,
        config=config,
        edit_format=form,
        model=model,
        tester=tests,  # type: ignore[arg-type]
        root=root,
        log=lambda _: None,
    )
    conversation.run()
    turn = Turn(model, "gpt-4o", form, temperature=0.0)
    return attempt_of(exercise, RunColumn(choice, 1), turn, conversation), model, tests


def reply(form: str, exercise: Exercise) -> Reply:
    answer = rendered(get_format(form), exercise.stubs(), exercise.example())
    calls = tuple(ToolCall(name, text) for name, text in answer.tool_calls)
    return Reply(answer.text or "", tool_calls=calls)


def test_output_is_cut_to_the_window_in_whole_lines(tmp_path: Path) -> None:
    tests = Tests(LONG)
    found, model, _ = converse(tmp_path, "No.", "No.", tests=tests, context=6000)
    last = model.asked(1)
    assert last.startswith("line 0 of the output\nline 1 ")
    output = last.partition("\n####\n")[0]
    assert 100 < len(output.splitlines()) < 2000 and LONG.startswith(output)
    assert last.endswith("to resolve the errors.\n")
    assert found.status is InstanceStatus.FAILED
    assert found.tried[0].output == LONG, "the result keeps all of it"
    _, model, _ = converse(tmp_path, "No.", "No.", tests=tests)
    assert model.asked(1).startswith(LONG)


@pytest.mark.parametrize(("lines", "count"), [(3, 3), (0, 2000), (None, 2000)])
def test_lines_of_output(tmp_path: Path, lines: int | None, count: int) -> None:
    settings = ExercismSettings(exercises=Exercises(test_lines=lines))
    _, model, _ = converse(tmp_path, "No.", "No.", tests=Tests(LONG), settings=settings)
    assert len(model.asked(1).partition("\n####\n")[0].splitlines()) == count


def test_all_solution_files_reach_the_tests_and_a_removed_one_is_empty(
    tmp_path: Path,
) -> None:
    exercise = six()["garden-path"]
    found, model, tests = converse(tmp_path, reply("whole", exercise))
    assert model.asked(0).index("garden_path.py\n```") < model.asked(0).index(
        "compass.py\n```"
    )
    assert dict(tests.seen[0]) == exercise.example()
    assert (found.status, found.reason) == (InstanceStatus.SOLVED, "solved in try 1")
    gone = "*** Begin Patch\n*** Delete File: compass.py\n*** End Patch\n"
    _, _, tests = converse(tmp_path, gone, "No.", form="patch")
    assert tests.seen[0] == {**exercise.stubs(), "compass.py": b""}


@pytest.mark.parametrize("tries", [1, 3])
def test_as_many_tries_as_asked_for(tmp_path: Path, tries: int) -> None:
    settings = ExercismSettings(models=ExercismModels(tries=tries))
    found, model, _ = converse(tmp_path, *["No."] * tries, settings=settings)
    assert [one.solved for one in found.tried] == [False] * tries
    assert len(model.requests) == tries


def test_a_result_has_the_counters_of_all_tries(tmp_path: Path) -> None:
    text = "# ... rest of the code ...\n"
    found, _, _ = converse(
        tmp_path, text, "No.", tests=Tests("SyntaxError: x\nIndentationError: y\n")
    )
    one = found.result(errors=1)
    assert (one.lazy_comments, one.syntax_errors, one.indentation_errors) == (1, 2, 2)
    assert (one.num_error_outputs, one.duration, one.key) == (
        1,
        0.0,
        "python/garden-path",
    )
    assert one.extra.tries[0].tests_failed == 1
    assert [bool(asked) for asked, _ in one.chat_hashes] == [False, False]


def test_a_transcript_shows_calls_and_the_last_output(tmp_path: Path) -> None:
    call = reply("whole-func", six()["name-tags"])
    found, _, _ = converse(tmp_path, "No.", call, form="whole-func", name="name-tags")
    text = "\n".join(transcript_lines(found))
    assert "Call of `write_file`:" in text and "## SOLUTION" in text
    assert "OUTPUT OF THE LAST TESTS" not in text
    failed, _, _ = converse(tmp_path, "No.", "No.", tests=Tests("``` 1 failed\n"))
    text = "\n".join(transcript_lines(failed))
    assert "## OUTPUT OF THE LAST TESTS\n\n````text\n``` 1 failed\n````" in text


def test_a_patch_for_readers() -> None:
    assert patch_of({"a": b"x\n", "b": b"y"}, {"a": b"x\n", "b": b"z"}) == (
        "--- a/b\n+++ b/b\n@@ -1 +1 @@\n"
        "-y\n\\ No newline at end of file\n+z\n\\ No newline at end of file\n"
    )


def test_a_conversation_that_did_not_start_is_no_result() -> None:
    exercise, column = six()["name-tags"], RunColumn(CHOICE, 1)
    nothing = attempt_of(exercise, column, None, None)
    assert nothing.status is InstanceStatus.INFRA_ERROR
    assert column.name == ColumnName(model="gpt-4o", edit_format="whole")
