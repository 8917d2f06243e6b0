"""How exercises and runs end: refusals, windows, budgets, bad edits, time-outs, broken servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.formats.base import Notation
from exercises.exercism.catalog import Exercise
from exercises.exercism.records import RECORD, read_records
from tests.exercises.exercism.testing.test_cheats import CHEATS
from tests.support.exercism import (
    ExerciseProvider,
    ExerciseRun,
    examples,
    late_examples,
    main,
    needs_bubblewrap,
    six,
)
from tests.support.provider import Answer, Provider

pytestmark = needs_bubblewrap
FAST = ("--set", "exercises.profile=2023", "--formats", "diff")
CLOCK = ("--set", "exercises.ids=cuckoo-clock")
FOUR = (
    "os._exit at import, both",
    "prints OK",
    "kills the parent",
    "replaces the result",
)
CLOSED = Answer(status=400, error={"message": "this model is closed"})


class Failing(ExerciseProvider):
    """Gives ``instead`` where ``fails`` says so, else the examples."""

    def __init__(
        self,
        instead: Answer,
        fails: Callable[[dict[str, Any]], bool],
        wanted: Callable[[Exercise, int], Any] = examples,
    ) -> None:
        super().__init__([*six().values()], wanted, Notation.OF_2023)
        self.instead = instead
        self.fails = fails

    def answer(self, request: dict[str, Any]) -> Answer:
        if self.fails(request):
            return self.instead
        return super().answer(request)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def run(
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> ExerciseRun:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return ExerciseRun(tmp_path, cache, FAST)


@pytest.mark.parametrize(
    ("instead", "words"),
    [
        (Answer(status=401, error={"message": "wrong key"}), "wrong key"),
        (Answer(status=404, error={"message": "no such model"}), "no such model"),
        (CLOSED, "this model is closed"),
    ],
    ids=["key", "model", "five refusals"],
)
def test_a_provider_that_refuses_all_calls_ends_the_run(
    run: ExerciseRun,
    capsys: pytest.CaptureFixture[str],
    instead: Answer,
    words: str,
) -> None:
    with Failing(instead, lambda _: True) as provider:
        assert run.run(provider) == 1
        shown = capsys.readouterr().err
        assert words in shown and shown.count("\n") == 1
        assert run.results() == {}
        assert len(provider.requests) <= 8, "six exercises, and four at once"
        record = run.records()["diff"]
        assert (record["test_cases"], len(record["not_completed"])) == (0, 6)
        # The same command asks again.
        provider.fails = lambda _: False
        assert run.run(provider) == 0
    record = run.records()["diff"]
    assert (record["pass_num_1"], "not_completed" in record) == (6, False)


def test_a_refused_exercise_is_a_result_where_others_are_answered(
    run: ExerciseRun,
) -> None:
    with Failing(CLOSED, lambda request: "cuckoo" in str(request)) as provider:
        assert run.run(provider) == 0
        assert run.run(provider) == 0, "nothing is left to do"
    assert len(provider.requests) == 6
    record = run.records()["diff"]
    assert (record["test_cases"], record["pass_num_2"], record["error_outputs"]) == (
        6,
        5,
        1,
    )
    refused = run.one("diff", "cuckoo-clock")
    assert (refused["extra"]["status"], refused["tests_outcomes"]) == ("refused", [])
    assert "this model is closed" in refused["extra"]["error"]


def test_what_is_named_is_done_again(run: ExerciseRun) -> None:
    with Failing(CLOSED, lambda request: "cuckoo" in str(request)) as provider:
        assert run.run(provider) == 0
        provider.fails = lambda _: False
        assert run.run(provider, "--redo", "refused") == 0
    assert len(provider.requests) == 7
    assert run.records()["diff"]["pass_num_2"] == 6


def test_a_full_window_is_a_result(run: ExerciseRun, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("models: {gpt-4o: {context: 400}}")
    too_long = (
        "This model's maximum context length is 400 tokens. However, you requested 500."
    )
    error = {"message": too_long, "code": "context_length_exceeded"}
    with Failing(Answer(status=400, error=error), lambda _: True) as provider:
        assert run.run(provider, *CLOCK, "--set", f"models.file={settings}") == 0
        assert provider.requests == []
        known = ExerciseRun(tmp_path / "by-provider", run.cache, FAST)
        assert known.run(provider, *CLOCK) == 0
    for one in (run, known):
        ended = one.one("diff", "cuckoo-clock")
        assert (ended["extra"]["status"], ended["num_exhausted_context_windows"]) == (
            "context",
            1,
        )


def test_a_budget_ends_an_exercise_and_a_higher_one_continues_it(
    run: ExerciseRun, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExerciseProvider(
        [*six().values()], late_examples, Notation.OF_2023
    ) as provider:
        assert run.run(provider, *CLOCK, "--set", "budget.calls=1") == 1
        ended = run.one("diff", "cuckoo-clock")
        assert (ended["extra"]["status"], ended["tests_outcomes"]) == (
            "budget",
            [False],
        )
        assert run.records()["diff"]["test_cases"] == 1
        assert run.run(provider, *CLOCK, "--set", "budget.calls=1") == 1
        assert "over budget (budget.calls)" in capsys.readouterr().out
        assert len(provider.requests) == 1
        assert run.run(provider, *CLOCK, "--set", "budget.calls=9") == 0
    assert run.one("diff", "cuckoo-clock")["tests_outcomes"] == [False, True]
    assert len(provider.requests) == 2, "no reply is bought twice"


def block(path: str, original: str, updated: str) -> str:
    return f"```\n{path}\n<<<<<<< ORIGINAL\n{original}=======\n{updated}>>>>>>> UPDATED\n```\n"


def test_bad_edits_get_one_round_in_each_try(
    run: ExerciseRun, provider: Provider
) -> None:
    clock = six()["cuckoo-clock"]
    stub, good = (
        files["cuckoo_clock.py"].decode() for files in (clock.stubs(), clock.example())
    )
    replies = [
        block("cuckoo_clock_test.py", "import unittest\n", "import os\nos._exit(0)\n")
        + block("conftest.py", "", "import os\nos._exit(0)\n"),
        block("cuckoo_clock.py", "no such line\n", "x\n"),
        # The second try begins with the failures of the first.
        block("cuckoo_clock.py", "nor this one\n", "x\n"),
        block("cuckoo_clock.py", stub, good),
    ]
    provider.will_answer(*replies)
    assert run.run(provider, *CLOCK) == 0
    asked = [request["messages"][-1]["content"] for request in provider.requests]
    assert "may not be edited, only: cuckoo_clock.py" in asked[1]
    assert (
        "See the testing errors above." in asked[2] and "no such line" not in asked[2]
    )
    assert "nor this one" in asked[3] and len(asked) == 4
    found = run.one("diff", "cuckoo-clock")
    extra = found["extra"]
    assert found["tests_outcomes"] == [False, True]
    assert (found["num_malformed_responses"], extra["foreign_edits"]) == (3, 2)
    assert extra["whole_file_blocks"] == 1
    assert run.records()["diff"]["percent_cases_well_formed"] == 0.0


def test_cheats_of_a_model_solve_nothing(run: ExerciseRun, provider: Provider) -> None:
    """As whole run; tests/exercises/exercism/testing has many more."""
    stub = six()["cuckoo-clock"].stubs()["cuckoo_clock.py"].decode()
    cheats = [CHEATS[name] for name in CHEATS if name in FOUR]
    assert len(cheats) == len(FOUR)
    provider.will_answer(*(block("cuckoo_clock.py", stub, cheat) for cheat in cheats))
    assert (
        run.run(
            provider,
            *CLOCK,
            "--tries",
            "1",
            "--set",
            f"exercises.repeats={len(cheats)}",
        )
        == 0
    )
    results = run.results()
    assert len(results) == len(cheats)
    patches = [result["extra"]["tries"][0]["patch"] for result in results.values()]
    for cheat in cheats:
        assert sum(f"+{cheat.splitlines()[0]}" in patch for patch in patches) >= 1
    assert {result["extra"]["status"] for result in results.values()} == {"failed"}
    assert [record["pass_num_1"] for record in read_records(run.folder / RECORD)] == [
        0
    ] * 4


def test_tests_that_do_not_end_are_a_failure(
    run: ExerciseRun, provider: Provider
) -> None:
    stub = six()["cuckoo-clock"].stubs()["cuckoo_clock.py"].decode()
    provider.will_answer(
        block("cuckoo_clock.py", stub, "while True: pass\n"), "I do not know."
    )
    assert run.run(provider, *CLOCK, "--set", "tests.timeout=2") == 0
    found = run.one("diff", "cuckoo-clock")
    assert (found["extra"]["status"], found["test_timeouts"]) == ("failed", 2)
    last = provider.requests[-1]["messages"][-1]["content"]
    assert "while True: pass" in last, "a changed file is shown again"
    assert "Tests timed out!\n####" in last
    assert run.records()["diff"]["timeout"] == 2.0


def test_a_broken_server_gives_no_result(
    run: ExerciseRun, capsys: pytest.CaptureFixture[str]
) -> None:
    with Failing(
        Answer(status=500), lambda request: "cuckoo" in str(request)
    ) as provider:
        words = (
            "--set",
            "exercises.ids=cuckoo-clock,tidy-receipt",
            "--set",
            "calls.retries=0",
        )
        assert run.run(provider, *words) == 1
        assert [*run.results()] == ["results/gpt-4o.diff.1/python/tidy-receipt.json"]
        assert run.records()["diff"]["not_completed"] == ["python/cuckoo-clock"]
        assert "did not answer in 1 call" in capsys.readouterr().out
        assert main(["report", run.folder, "--set", "report.page=false"]) == 1
        assert "not completed: 1 exercise" in capsys.readouterr().err
        provider.fails = lambda _: False
        assert run.run(provider, *words) == 0
    assert run.records()["diff"]["pass_num_1"] == 2


def test_exercises_and_repeats_may_be_added(
    run: ExerciseRun, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExerciseProvider([*six().values()], examples, Notation.OF_2023) as provider:
        assert run.run(provider, *CLOCK) == 0
        assert (
            run.run(
                provider,
                "--set",
                "exercises.ids=tidy-receipt",
                "--set",
                "exercises.repeats=2",
            )
            == 0
        )
        assert len(provider.requests) == 3
        first, second = read_records(run.folder / RECORD)
        assert (first["test_cases"], first["total_tests"]) == (2, 2)
        assert second["not_completed"] == ["python/cuckoo-clock"]
        assert run.run(provider, *CLOCK, "--set", "exercises.repeats=2") == 0
        for words, differs in (
            (("--tries", "3"), "models.tries was 2, is 3"),
            (("--set", "exercises.test_lines=0"), "exercises.test_lines was 50, is "),
            (("--set", "exercises.profile=current"), "exercises.profile was 2023, is "),
        ):
            assert run.run(provider, *words) == 2
            assert f"different settings: {differs}" in capsys.readouterr().err
    names = sorted(path.name for path in (run.folder / "results").iterdir())
    assert names == ["gpt-4o.diff.1", "gpt-4o.diff.2"]
    assert len(run.results()) == 4
