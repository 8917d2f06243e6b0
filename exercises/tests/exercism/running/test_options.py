"""Options of a run, its files, and how far it is: without any model."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from exercises.tests.commands import EXERCISM
from exercises.tests.support.exercism import SIX, result, write_result
from swe_retry.agent.formats import format_names
from swe_retry.core.errors import UserError
from swe_retry.demo.setup import DEMO_DATASET
from swe_retry.environments.local import folders
from swe_retry.llm.options import ModelChoice
from swe_retry.runner.calls.budget import BudgetLimits
from swe_retry.runner.redo import plan
from swe_retry_exercises.exercism.results import (
    READER,
    ColumnName,
    ExerciseResult,
    ExerciseStore,
)
from swe_retry_exercises.exercism.run import RunProgress
from swe_retry_exercises.exercism.settings import in_formats

COLUMN = ColumnName(model="openai/gpt-4.1", edit_format="diff-func", repeat=2)


def run_line(tmp_path: Path, options: str = "") -> str:
    """Return the command that runs our exercises, with further options."""
    return (
        f"run --exercises {SIX} --environment local --run r --out {tmp_path}"
        f" --set folders.cache={tmp_path}/cache --api-base http://127.0.0.1:1/v1"
        f" --set budget.allow_unpriced=true {options}"
    )


def test_a_wrong_option_is_one_line(tmp_path: Path) -> None:
    for options, problem in {
        "--set exercises.profile=2024": "exercises.profile 2024: there are 2023, current",
        "--formats whole,fast": "--formats fast: there are diff",
        "--set exercises.profile=2023 --formats udiff": "has the formats whole, diff, "
        "whole-func",
        "--environment none": "--environment none runs no tests",
        f"--exercises {tmp_path}/gone": f"there is no {tmp_path}/gone",
        "--set exercises.ids=gone": "no exercise is called gone",
        "--set exercises.ids=@gone": "exercises.ids @gone cannot be read",
        "--languages rust": "no exercise is in them",
        "--tries 0": "--tries 0: must be at least 1",
        "--set tests.timeout=0": "tests.timeout 0: must be at least 1",
        "--set models.temperatures=0.5": "are given at temperature 0",
        "--set exercises.id=x": "did you mean exercises.ids?",
        "acronym": "unexpected 'acronym'; a word follows --settings alone",
        "--run ../r": "--run '../r'",
        "--models gpt-4o,": "--models has an empty name",
        "--models openai/a/b,openai/a_b": "would have one folder, openai_a_b.whole.1",
        f"--replay {tmp_path}/gone": f"--replay {tmp_path}/gone: no trajectories there",
        f"--replay {DEMO_DATASET}/replies": "replies has no recording of gpt-4o.",
    }.items():
        ended = EXERCISM.run(run_line(tmp_path, options))
        assert ended.code == 2, options
        assert problem in ended.err
        assert ended.err.count("\n") == 1


def test_flags_are_those_of_the_harness_that_have_a_meaning() -> None:
    help_text = EXERCISM.output("run --help")
    for flag in ("--tries", "--replay", "--price", "--slice", "--exercises", "--redo"):
        assert f" {flag} " in help_text
    for flag in ("--agent", "--dataset", "--repo", "--continue", "--ids"):
        assert f" {flag} " not in help_text


def test_settings_are_listed_with_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRY_EXERCISES__REPEATS", "3")
    listing = EXERCISM.output("run --languages go,rust --settings exercises.")
    assert "exercises.languages  go,rust  Take only exercises in these of" in listing
    assert "exercises.repeats  3  Give each" in listing
    assert "calls." not in listing
    listing = EXERCISM.output("report --settings only")
    assert listing.startswith("report.only  -  Show the columns")


def test_without_a_sandbox_one_line_names_bubblewrap(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(folders, "bubblewrap_works", lambda: False)
    error = EXERCISM.refusal(run_line(tmp_path))
    assert "install it (package bubblewrap)" in error


def test_each_model_in_each_format_unless_one_is_fixed() -> None:
    typed = ["gpt-4o", "gpt-4o-mini@diff", "gpt-4o@whole"]
    formats = format_names()
    models = [ModelChoice.parse(text, formats=formats) for text in typed]
    columns = in_formats(models, typed, ["whole", "udiff"])
    names = [f"{model.text}@{model.edit_format}" for model in columns]
    assert names == ["gpt-4o@whole", "gpt-4o@udiff", "gpt-4o-mini@diff"]
    first, second = in_formats(models[:2], typed[:2], [])
    assert first.edit_format == models[0].edit_format
    assert second.edit_format == "diff"


def test_where_files_lie(tmp_path: Path) -> None:
    store = ExerciseStore(tmp_path, "r", reader=READER)
    key = COLUMN.job_key("cpp/two-fer_2")
    assert key == "openai_gpt-4.1.diff-func.2.cpp.two-fer_2"
    path = store.prediction(key)
    folder = store.folder / "results/openai_gpt-4.1.diff-func.2/cpp"
    assert path == folder / "two-fer_2.json"
    assert store.name_of(path) == key
    assert store.transcript(key) == path.with_suffix(".md")
    assert store.trajectory(key) == store.folder / "trajectories" / f"{key}.json"
    for name in ("python/a.b", "python/a b", "python/"):
        with pytest.raises(UserError, match="files are named by exercises"):
            COLUMN.job_key(name)


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    store = ExerciseStore(tmp_path, "r", reader=READER)
    for status in ("solved", "failed", "context", "refused", "budget"):
        outcomes = (status == "solved",)
        ended = result(f"python/{status}", outcomes, status=status)
        write_result(store.folder, ended)
    broken = write_result(store.folder, result("python/broken"))
    broken.write_text("{")
    column = ColumnName(model="gpt-4o", edit_format="diff")

    def keys(names: str) -> list[str]:
        return [column.job_key(f"python/{name}") for name in names.split()]

    every = keys("solved failed context refused budget open broken")
    jobs = plan(store, BudgetLimits(), every)
    # Without a limit that stands, an exercise that a budget ended is continued.
    assert list(jobs.todo) == keys("budget open")
    assert len(jobs.done) == 4
    assert list(jobs.broken) == keys("broken")


def progress_of(
    columns: list[ColumnName],
    exercises: int,
    results: list[ExerciseResult],
) -> list[str]:
    progress = RunProgress(columns, exercises)
    for exercise_result in results:
        progress.add(exercise_result)
    return progress.lines()


def test_how_far_a_run_is() -> None:
    first = ColumnName(model="a", edit_format="diff")
    second = ColumnName(model="b", edit_format="diff")
    results = [
        result("python/a", (True,), model="a", cost=Decimal("1.00")),
        result("python/b", (False, True), model="a", cost=Decimal("3.00")),
        result("python/a", (False,), model="b", cost=Decimal("0.00")),
    ]
    assert progress_of([first, second], 4, results) == [
        "a@diff: 2 of 4 done, 2 solved (1 in the first try), $4.00",
        "b@diff: 1 of 4 done, 0 solved (0 in the first try), $0.00",
        "cost: $4.00",
    ]
    lines = progress_of([first], 2, results)
    assert lines[-1] == "cost: $4.00", "all is done"
    unknown = [result("python/a", model="b", cost=None)]
    lines = progress_of([second], 4, unknown)
    assert lines[-1] == "cost: unknown"
    lines = progress_of([first, second], 4, [*results, *unknown])
    assert lines[-1] == "cost: at least $4.00"
    nothing = "b@diff: 0 of 4 done, 0 solved (0 in the first try), $0.00"
    assert progress_of([second], 4, []) == [nothing]
