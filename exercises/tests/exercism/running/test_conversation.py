"""What a conversation sends besides whole runs: long outputs, several files, transcripts."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from exercises.tests.support.exercism import rendered, six
from swe_retry.agent.conversation.result import ReplyCounts
from swe_retry.agent.formats import get_format
from swe_retry.agent.protocol import AgentResult
from swe_retry.environments.base import EnvironmentKind
from swe_retry.llm.chat import Reply, ToolCall, Traits
from swe_retry.llm.options import ModelChoice
from swe_retry.record.result import InstanceStatus
from swe_retry.runner.jobs import End
from swe_retry.runner.modelsource import NotRecordedError, Turn
from swe_retry.runner.slots import Slot, Slots
from swe_retry_exercises.exercism.catalog import Exercise
from swe_retry_exercises.exercism.conversation import (
    ExerciseJob,
    ExerciseServices,
    ExerciseWork,
    patch_of,
    transcript_text,
)
from swe_retry_exercises.exercism.results import ColumnName, ExerciseResult, TryResult
from swe_retry_exercises.exercism.settings import (
    Exercises,
    ExercismConfig,
    ExercismModels,
    ExercismSettings,
    column_name,
)
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
        return TryResult(
            solved=solved,
            output=self.output,
            tests_passed=1 + solved,
            tests_failed=1 - solved,
            tests_skipped=0,
            seconds=0.25,
        )

    def close(self) -> None:
        pass


@dataclass
class Source:
    """Gives this turn, or has no recording."""

    scripted_turn: Turn | None

    def turn(self, *_: object) -> Turn:
        if self.scripted_turn is None:
            raise NotRecordedError
        return self.scripted_turn


def work_of(
    root: Path,
    turn: Turn | None,
    form: str,
    name: str,
    tests: Tests,
    settings: ExercismSettings | None = None,
) -> ExerciseWork:
    choice = replace(CHOICE, edit_format=form)
    config = ExercismConfig(
        settings or ExercismSettings(),
        (choice,),
        EnvironmentKind.LOCAL,
    )
    entry = SimpleNamespace(kind="failed")
    context: Any = SimpleNamespace(
        worker=SimpleNamespace(work=root),
        slot=Slot(Slots(1)),
        gate=lambda *_: None,
        step=lambda *_: None,
        log=logging.getLogger("test"),
        calls=SimpleNamespace(entries=lambda key: [entry]),
    )
    column = column_name(choice, 1)
    job = ExerciseJob(six()[name], column, choice)
    services = ExerciseServices(config, Source(turn), tests)  # type: ignore[arg-type]
    return job.start(services, context)


def converse(
    root: Path,
    *replies: str | Reply,
    tests: Tests | None = None,
    form: str = "whole",
    name: str = "garden-path",
    context: int | None = None,
    settings: ExercismSettings | None = None,
) -> tuple[End[ExerciseResult], Scripted, Tests, str]:
    """Return how a conversation with these replies ended, and its transcript."""
    tests = tests or Tests()
    model = Scripted(list(replies), Traits(context=context))
    turn = Turn(model, "gpt-4o", form, temperature=0.0)  # type: ignore[arg-type]
    work = work_of(root, turn, form, name, tests, settings)
    end = work.run()
    assert end.value is not None
    [attempt] = work.attempts(end)
    assert list(root.iterdir()) == []
    transcript = transcript_text(end.value, attempt, end.reason)
    return end, model, tests, transcript


def value_of(end: End[ExerciseResult]) -> ExerciseResult:
    assert end.value is not None
    return end.value


def reply(form: str, exercise: Exercise) -> Reply:
    answer = rendered(get_format(form), exercise.stubs(), exercise.example())
    calls = tuple(ToolCall(name, text) for name, text in answer.tool_calls)
    return Reply(answer.text or "", tool_calls=calls)


def test_output_is_cut_to_the_window_in_whole_lines(tmp_path: Path) -> None:
    end, model, *_ = converse(
        tmp_path,
        "No.",
        "No.",
        tests=Tests(LONG),
        context=6000,
    )
    last = model.prompt(1)
    assert last.startswith("line 0 of the output\nline 1 ")
    assert last.endswith("to resolve the errors.\n")
    output = output_in(last)
    assert 100 < len(output.splitlines()) < 2000
    assert LONG.startswith(output)
    assert end.status is InstanceStatus.FAILED
    result = value_of(end)
    assert result.extra.tries[0].output == LONG, "the result keeps all of it"
    _, model, *_ = converse(tmp_path, "No.", "No.", tests=Tests(LONG))
    assert model.prompt(1).startswith(LONG)


def output_in(message: str) -> str:
    """Return the output of tests that a message begins with."""
    output, _, _ = message.partition("\n####\n")
    return output


def test_lines_of_output(tmp_path: Path) -> None:
    for limit, count in {3: 3, 0: 2000, None: 2000}.items():
        settings = ExercismSettings(exercises=Exercises(test_lines=limit))
        _, model, *_ = converse(
            tmp_path,
            "No.",
            "No.",
            tests=Tests(LONG),
            settings=settings,
        )
        output = output_in(model.prompt(1))
        assert len(output.splitlines()) == count


def test_all_solution_files_reach_the_tests_and_a_removed_one_is_empty(
    tmp_path: Path,
) -> None:
    exercise = six()["garden-path"]
    end, model, tests, _ = converse(tmp_path, reply("whole", exercise))
    opening = model.prompt(0)
    assert opening.index("garden_path.py\n```") < opening.index("compass.py\n```")
    assert dict(tests.seen[0]) == exercise.example()
    assert end.status is InstanceStatus.SOLVED
    assert end.reason == "solved in try 1"
    removal = "*** Begin Patch\n*** Delete File: compass.py\n*** End Patch\n"
    _, _, tests, _ = converse(tmp_path, removal, "No.", form="patch")
    assert tests.seen[0] == exercise.stubs() | {"compass.py": b""}


def test_as_many_tries_as_asked_for(tmp_path: Path) -> None:
    for tries in (1, 3):
        settings = ExercismSettings(models=ExercismModels(tries=tries))
        replies = ["No."] * tries
        end, model, *_ = converse(tmp_path, *replies, settings=settings)
        assert value_of(end).tests_outcomes == (False,) * tries
        assert len(model.requests) == tries


def test_a_result_has_the_counters_of_all_tries(tmp_path: Path) -> None:
    text = "# ... rest of the code ...\n"
    tests = Tests("SyntaxError: x\nIndentationError: y\n")
    end, *_ = converse(tmp_path, text, "No.", tests=tests)
    result = value_of(end)
    assert result.lazy_comments == 1
    assert result.syntax_errors == 2
    assert result.indentation_errors == 2
    assert result.num_error_outputs == 1
    assert result.duration == 0.0
    assert result.key == "python/garden-path"
    assert result.extra.tries[0].tests_failed == 1
    for first_hash, _ in result.chat_hashes:
        assert not first_hash
    assert len(result.chat_hashes) == 2


def test_a_transcript_shows_calls_and_the_last_output(tmp_path: Path) -> None:
    call = reply("whole-func", six()["name-tags"])
    *_, text = converse(tmp_path, "No.", call, form="whole-func", name="name-tags")
    assert "Call of `write_file`:" in text
    assert "## SOLUTION" in text
    assert "OUTPUT OF THE LAST TESTS" not in text
    *_, text = converse(tmp_path, "No.", "No.", tests=Tests("``` 1 failed\n"))
    assert "## OUTPUT OF THE LAST TESTS\n\n````text\n``` 1 failed\n````" in text


def test_a_patch_for_readers() -> None:
    before = {"a": b"x\n", "b": b"y"}
    after = {"a": b"x\n", "b": b"z"}
    assert patch_of(before, after) == (
        "--- a/b\n"
        "+++ b/b\n"
        "@@ -1 +1 @@\n"
        "-y\n"
        "\\ No newline at end of file\n"
        "+z\n"
        "\\ No newline at end of file\n"
    )


def test_what_replies_do_to_their_format_is_counted(tmp_path: Path) -> None:
    first = ReplyCounts(
        edits=4,
        failed=3,
        foreign=1,
        unsafe=1,
        ambiguous=1,
        whole_file_blocks=2,
    )
    second = ReplyCounts(truncated=True, unknown_calls=1)
    third = ReplyCounts(malformed=True)
    model = Scripted(["No.", "No."])
    turn = Turn(model, "gpt-4o", "whole", temperature=0.0)  # type: ignore[arg-type]
    work = work_of(tmp_path, turn, "whole", "name-tags", Tests())
    work.run()
    replies_of_tries = [(first, second), (third,)]
    for number, replies in enumerate(replies_of_tries):
        conversation = work.endings[number].result
        assert conversation
        counted = replace(conversation, replies=replies)
        work.endings[number] = AgentResult(counted)
    result = work.result(InstanceStatus.FAILED)
    assert result.num_malformed_responses == 2
    counts = result.extra.model_dump(
        exclude_defaults=True,
        exclude={"exercise_sha256", "tries"},
    )
    assert counts == {
        "status": InstanceStatus.FAILED,
        "language": "python",
        "whole_file_blocks": 2,
        "hallucinated_functions": 1,
        "foreign_edits": 2,
        "ambiguous_edits": 1,
        "truncated": 1,
    }


def test_a_conversation_that_did_not_start_is_no_result(tmp_path: Path) -> None:
    work = work_of(tmp_path, None, "whole", "name-tags", Tests())
    end = work.run()
    assert end.status is InstanceStatus.INFRA_ERROR
    assert end.value is None
    [attempt] = work.attempts(end)
    assert attempt.status == "infra_error"
    assert attempt.error == end.reason
    assert work.job.column == ColumnName(model="gpt-4o", edit_format="whole")
