"""How exercises and runs end: refusals, windows, budgets, bad edits, time-outs, broken servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from exercises.tests.commands import EXERCISM
from exercises.tests.exercism.running.conftest import FAST, start
from exercises.tests.exercism.testing.test_cheats import CHEATS
from exercises.tests.support.exercism import (
    ExerciseProvider,
    ExerciseRun,
    examples,
    late_examples,
    needs_bubblewrap,
    six,
)
from swe_retry.agent.formats.protocol import Notation
from swe_retry_exercises.exercism.records import RECORD, read_records
from tests.support.provider import Answer, Provider

pytestmark = needs_bubblewrap

CLOCK = "--set exercises.ids=cuckoo-clock"
FOUR = (
    "os._exit at import, both",
    "prints OK",
    "kills the parent",
    "replaces the result",
)
CLOSED = Answer(status=400, error={"message": "this model is closed"})


class Failing(ExerciseProvider):
    """Gives ``instead`` where the request has ``part``, else the examples."""

    def __init__(self, instead: Answer, part: str | None = "cuckoo") -> None:
        super().__init__(list(six().values()), examples, Notation.OF_2023)
        self.instead = instead
        self.part = part

    def answer(self, request: dict[str, Any]) -> Answer:
        if self.part is not None and self.part in str(request):
            return self.instead
        return super().answer(request)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def run(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> ExerciseRun:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return ExerciseRun(tmp_path, cache, FAST)


def clock_result(run: ExerciseRun) -> dict[str, Any]:
    return run.result("diff", "cuckoo-clock")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "wrong key"),
        (404, "no such model"),
        (400, "this model is closed"),
    ],
    ids=["key", "model", "five refusals"],
)
def test_a_provider_that_refuses_all_calls_ends_the_run(
    run: ExerciseRun,
    status: int,
    reason: str,
) -> None:
    instead = Answer(status=status, error={"message": reason})
    with Failing(instead, "") as provider:
        ended = start(run, provider)
        assert ended.code == 1
        assert reason in ended.err
        assert ended.err.count("\n") == 1
        assert run.results() == {}
        assert len(provider.requests) <= 8, "six exercises, and four at once"
        record = run.records()["diff"]
        assert record["test_cases"] == 0
        assert len(record["not_completed"]) == 6
        # The same command asks again.
        provider.part = None
        assert start(run, provider).code == 0
    record = run.records()["diff"]
    assert record["pass_num_1"] == 6
    assert "not_completed" not in record


def test_a_refused_exercise_is_a_result_until_it_is_done_again(
    run: ExerciseRun,
) -> None:
    with Failing(CLOSED) as provider:
        assert start(run, provider).code == 0
        assert start(run, provider).code == 0, "nothing is left to do"
        assert len(provider.requests) == 6
        record = run.records()["diff"]
        assert record["test_cases"] == 6
        assert record["pass_num_2"] == 5
        assert record["error_outputs"] == 1
        refused = clock_result(run)
        assert refused["extra"]["status"] == "refused"
        assert refused["tests_outcomes"] == []
        assert "this model is closed" in refused["extra"]["error"]
        provider.part = None
        assert start(run, provider, "--redo refused").code == 0
    assert len(provider.requests) == 7
    assert run.records()["diff"]["pass_num_2"] == 6


def test_a_full_window_is_a_result(run: ExerciseRun, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("models: {gpt-4o: {context: 400}}")
    too_long = (
        "This model's maximum context length is 400 tokens. However, you requested 500."
    )
    error = {"message": too_long, "code": "context_length_exceeded"}
    refusal = Answer(status=400, error=error)
    by_provider = ExerciseRun(tmp_path / "by-provider", run.cache, FAST)
    with Failing(refusal, "") as provider:
        options = f"{CLOCK} --set models.file={settings}"
        assert start(run, provider, options).code == 0
        assert provider.requests == []
        assert start(by_provider, provider, CLOCK).code == 0
    for ended in (run, by_provider):
        result = clock_result(ended)
        assert result["extra"]["status"] == "context"
        assert result["num_exhausted_context_windows"] == 1


def test_a_budget_ends_an_exercise_and_a_higher_one_continues_it(
    run: ExerciseRun,
) -> None:
    exercises = list(six().values())
    small_budget = f"{CLOCK} --set budget.calls=1"
    with ExerciseProvider(exercises, late_examples, Notation.OF_2023) as provider:
        assert start(run, provider, small_budget).code == 1
        result = clock_result(run)
        assert result["extra"]["status"] == "budget"
        assert result["tests_outcomes"] == [False]
        assert run.records()["diff"]["test_cases"] == 1
        ended = start(run, provider, small_budget)
        assert ended.code == 1
        assert "over budget (budget.calls)" in ended.out
        assert len(provider.requests) == 1
        assert start(run, provider, f"{CLOCK} --set budget.calls=9").code == 0
    assert clock_result(run)["tests_outcomes"] == [False, True]
    assert len(provider.requests) == 2, "no reply is bought twice"


def block(path: str, original: str, updated: str) -> str:
    return f"```\n{path}\n<<<<<<< ORIGINAL\n{original}=======\n{updated}>>>>>>> UPDATED\n```\n"


def clock_block(original: str, updated: str) -> str:
    return block("cuckoo_clock.py", original, updated)


def whole_clock_block(updated: str) -> str:
    """Return the edit that replaces the stub."""
    stubs = six()["cuckoo-clock"].stubs()
    return clock_block(stubs["cuckoo_clock.py"].decode(), updated)


def test_bad_edits_get_one_round_in_each_try(
    run: ExerciseRun,
    provider: Provider,
) -> None:
    example = six()["cuckoo-clock"].example()
    exits = "import os\nos._exit(0)\n"
    test_edit = block("cuckoo_clock_test.py", "import unittest\n", exits)
    conftest_edit = block("conftest.py", "", exits)
    provider.will_answer(
        test_edit + conftest_edit,
        clock_block("no such line\n", "x\n"),
        # The second try begins with the failures of the first.
        clock_block("nor this one\n", "x\n"),
        whole_clock_block(example["cuckoo_clock.py"].decode()),
    )
    assert start(run, provider, CLOCK).code == 0
    messages = [request["messages"][-1]["content"] for request in provider.requests]
    assert len(messages) == 4
    assert "may not be edited, only: cuckoo_clock.py" in messages[1]
    assert "See the testing errors above." in messages[2]
    assert "no such line" not in messages[2]
    assert "nor this one" in messages[3]
    result = clock_result(run)
    assert result["tests_outcomes"] == [False, True]
    assert result["num_malformed_responses"] == 3
    assert result["extra"]["foreign_edits"] == 2
    assert result["extra"]["whole_file_blocks"] == 1
    assert run.records()["diff"]["percent_cases_well_formed"] == 0.0


def test_cheats_of_a_model_solve_nothing(run: ExerciseRun, provider: Provider) -> None:
    """As whole run; exercises/tests/exercism/testing has many more."""
    cheats = [CHEATS[name] for name in FOUR]
    provider.will_answer(*map(whole_clock_block, cheats))
    options = f"{CLOCK} --tries 1 --set exercises.repeats=4"
    assert start(run, provider, options).code == 0
    results = list(run.results().values())
    assert len(results) == 4
    patches = ""
    for result in results:
        extra = result["extra"]
        assert extra["status"] == "failed"
        patches += extra["tries"][0]["patch"]
    for cheat in cheats:
        first_line, *_ = cheat.splitlines()
        assert f"+{first_line}" in patches
    records = read_records(run.folder / RECORD)
    assert [record["pass_num_1"] for record in records] == [0] * 4


def test_tests_that_do_not_end_are_a_failure(
    run: ExerciseRun,
    provider: Provider,
) -> None:
    endless = whole_clock_block("while True: pass\n")
    provider.will_answer(endless, "I do not know.")
    assert start(run, provider, f"{CLOCK} --set tests.timeout=2").code == 0
    result = clock_result(run)
    assert result["extra"]["status"] == "failed"
    assert result["test_timeouts"] == 2
    last = provider.requests[-1]["messages"][-1]["content"]
    assert "while True: pass" in last, "a changed file is shown again"
    assert "Tests timed out!\n####" in last
    assert run.records()["diff"]["timeout"] == 2.0


def test_a_broken_server_gives_no_result(run: ExerciseRun) -> None:
    options = "--set exercises.ids=cuckoo-clock,tidy-receipt --set calls.retries=0"
    with Failing(Answer(status=500)) as provider:
        ended = start(run, provider, options)
        assert ended.code == 1
        assert "did not answer in 1 call" in ended.out
        assert list(run.results()) == ["results/gpt-4o.diff.1/python/tidy-receipt.json"]
        assert run.records()["diff"]["not_completed"] == ["python/cuckoo-clock"]
        ended = EXERCISM.run(f"report {run.folder} --set report.page=false")
        assert ended.code == 1
        assert "not completed: 1 exercise" in ended.err
        provider.part = None
        assert start(run, provider, options).code == 0
    assert run.records()["diff"]["pass_num_1"] == 2


def test_exercises_and_repeats_may_be_added(run: ExerciseRun) -> None:
    repeats = "--set exercises.repeats=2"
    exercises = list(six().values())
    with ExerciseProvider(exercises, examples, Notation.OF_2023) as provider:
        assert start(run, provider, CLOCK).code == 0
        receipt = f"--set exercises.ids=tidy-receipt {repeats}"
        assert start(run, provider, receipt).code == 0
        assert len(provider.requests) == 3
        first, second = read_records(run.folder / RECORD)
        assert first["test_cases"] == 2
        assert first["total_tests"] == 2
        assert second["not_completed"] == ["python/cuckoo-clock"]
        assert start(run, provider, f"{CLOCK} {repeats}").code == 0
        for options, difference in {
            "--tries 3": "models.tries was 2, is 3",
            "--set exercises.test_lines=0": "exercises.test_lines was 50, is ",
            "--set exercises.profile=current": "exercises.profile was 2023, is ",
        }.items():
            ended = start(run, provider, options)
            assert ended.code == 2
            assert f"different settings: {difference}" in ended.err
    names = sorted(path.name for path in (run.folder / "results").iterdir())
    assert names == ["gpt-4o.diff.1", "gpt-4o.diff.2"]
    assert len(run.results()) == 4
