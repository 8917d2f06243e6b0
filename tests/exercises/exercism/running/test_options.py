"""Options of a run, its files, and how far it is: without any model."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agent.formats import format_names
from core.errors import UserError
from demo.setup import DEMO_DATASET
from environments.local import folders
from exercises.exercism.results import READER, ColumnName, ExerciseStore
from exercises.exercism.run import RunProgress
from exercises.exercism.settings import in_formats
from llm.options import ModelChoice
from runs.calls.budget import BudgetLimits
from runs.redo import plan
from tests.support.exercism import SIX, main, result, write_result

COLUMN = ColumnName(model="openai/gpt-4.1", edit_format="diff-func", repeat=2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--set", "exercises.profile=2024"],
            "exercises.profile 2024: there are 2023, current",
        ),
        (["--formats", "whole,fast"], "--formats fast: there are diff"),
        (
            ["--set", "exercises.profile=2023", "--formats", "udiff"],
            "has the formats whole, diff, whole-func",
        ),
        (["--environment", "none"], "--environment none runs no tests"),
        (["--exercises", "gone"], "there is no gone"),
        (["--set", "exercises.ids=gone"], "no exercise is called gone"),
        (["--set", "exercises.ids=@gone"], "exercises.ids @gone cannot be read"),
        (["--languages", "rust"], "no exercise is in them"),
        (["--tries", "0"], "--tries 0: must be at least 1"),
        (["--set", "tests.timeout=0"], "tests.timeout 0: must be at least 1"),
        (["--set", "models.temperatures=0.5"], "are given at temperature 0"),
        (["--set", "exercises.id=x"], "did you mean exercises.ids?"),
        (["acronym"], "unexpected 'acronym'; a word follows --settings alone"),
        (["--run", "../r"], "--run '../r'"),
        (["--models", "gpt-4o,"], "--models has an empty name"),
        (
            ["--models", "openai/a/b,openai/a_b"],
            "would have one folder, openai_a_b.whole.1",
        ),
        (["--replay", "gone"], "--replay gone: no trajectories there"),
        (
            ["--replay", str(DEMO_DATASET / "replies")],
            "replies has no recording of gpt-4o.",
        ),
    ],
)
def test_a_wrong_option_is_one_line(
    tmp_path: Path,
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    usual = [
        "--exercises",
        SIX,
        "--environment",
        "local",
        "--run",
        "r",
        "--out",
        tmp_path,
    ]
    usual += [
        "--set",
        f"folders.cache={tmp_path / 'cache'}",
        "--api-base",
        "http://127.0.0.1:1/v1",
    ]
    assert main(["run", *usual, "--set", "budget.allow_unpriced=true", *words]) == 2
    shown = capsys.readouterr().err
    assert said in shown and shown.count("\n") == 1


def test_flags_are_those_of_the_harness_that_have_a_meaning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "--help"]) == 0
    shown = capsys.readouterr().out
    for flag in ("--tries", "--replay", "--price", "--slice", "--exercises", "--redo"):
        assert f" {flag} " in shown
    for flag in ("--agent", "--dataset", "--repo", "--continue", "--ids"):
        assert f" {flag} " not in shown


def test_settings_are_listed_with_their_values(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRY_EXERCISES__REPEATS", "3")
    words = ["--languages", "go,rust", "--settings", "exercises."]
    assert main(["run", *words]) == 0
    shown = capsys.readouterr().out
    assert "exercises.languages  go,rust  Take only exercises in these of" in shown
    assert "exercises.repeats  3  Give each" in shown and "calls." not in shown
    assert main(["report", "--settings", "only"]) == 0
    assert capsys.readouterr().out.startswith("report.only  -  Show the columns")


def test_without_a_sandbox_one_line_names_bubblewrap(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(folders, "bubblewrap_works", lambda: False)
    usual = [
        "--exercises",
        SIX,
        "--environment",
        "local",
        "--run",
        "r",
        "--out",
        tmp_path,
    ]
    usual += [
        "--set",
        f"folders.cache={tmp_path / 'cache'}",
        "--api-base",
        "http://127.0.0.1:1/v1",
    ]
    assert main(["run", *usual, "--set", "budget.allow_unpriced=true"]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1
    assert "install it (package bubblewrap)" in shown.err


def test_each_model_in_each_format_unless_one_is_fixed() -> None:
    typed = ["gpt-4o", "gpt-4o-mini@diff", "gpt-4o@whole"]
    models = [ModelChoice.parse(text, formats=format_names()) for text in typed]
    made = in_formats(models, typed, ["whole", "udiff"])
    assert [f"{model.text}@{model.edit_format}" for model in made] == [
        "gpt-4o@whole",
        "gpt-4o@udiff",
        "gpt-4o-mini@diff",
    ]
    own = in_formats(models[:2], typed[:2], [])
    assert [model.edit_format for model in own] == [models[0].edit_format, "diff"]


def test_where_files_lie(tmp_path: Path) -> None:
    store = ExerciseStore(tmp_path, "r", reader=READER)
    key = COLUMN.job_key("cpp/two-fer_2")
    assert key == "openai_gpt-4.1.diff-func.2.cpp.two-fer_2"
    path = store.prediction(key)
    assert (
        path == store.folder / "results/openai_gpt-4.1.diff-func.2/cpp/two-fer_2.json"
    )
    assert store.name_of(path) == key
    assert store.transcript(key) == path.with_suffix(".md")
    assert store.trajectory(key) == store.folder / "trajectories" / f"{key}.json"
    for name in ("python/a.b", "python/a b", "python/"):
        with pytest.raises(UserError, match="files are named by exercises"):
            COLUMN.job_key(name)


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    store = ExerciseStore(tmp_path, "r", reader=READER)
    names = ("solved", "failed", "context", "refused", "budget", "open")
    for name in names[:5]:
        solved = (name == "solved",)
        write_result(store.folder, result(f"python/{name}", solved, status=name))
    broken = write_result(store.folder, result("python/broken"))
    broken.write_text("{")
    column = ColumnName(model="gpt-4o", edit_format="diff")
    keys = {column.job_key(f"python/{name}"): name for name in (*names, "broken")}
    found = plan(store, BudgetLimits(), [*keys])
    # Without a limit that stands, an exercise that a budget ended is continued.
    assert [keys[key] for key in found.todo] == ["budget", "open"]
    assert (found.done, [keys[key] for key in found.broken]) == (4, ["broken"])


def progress_of(
    columns: list[ColumnName],
    exercises: int,
    results: list[Any],
) -> RunProgress:
    progress = RunProgress(columns, exercises)
    for one in results:
        progress.add(one)
    return progress


def test_how_far_a_run_is() -> None:
    one, two = (ColumnName(model=name, edit_format="diff") for name in "ab")
    results = [
        result("python/a", (True,), model="a", cost=Decimal("1.00")),
        result("python/b", (False, True), model="a", cost=Decimal("3.00")),
        result("python/a", (False,), model="b", cost=Decimal("0.00")),
    ]
    seen = progress_of([one, two], 4, results)
    assert seen.lines() == [
        "a@diff: 2 of 4 done, 2 solved (1 in the first try), $4.00",
        "b@diff: 1 of 4 done, 0 solved (0 in the first try), $0.00",
        "cost: $4.00 of about $8.00, at most $15.72 (95 %)",
    ]
    assert progress_of([one], 2, results).lines()[-1] == "cost: $4.00", "all is done"
    unknown = progress_of([two], 4, [result("python/a", model="b", cost=None)])
    assert unknown.lines()[-1] == "cost: $0.00 and what is unknown"
    assert RunProgress([two], 4).lines() == [
        "b@diff: 0 of 4 done, 0 solved (0 in the first try), $0.00"
    ]
