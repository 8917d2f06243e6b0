"""What ``train`` refuses, and says in one line; none of it needs torch."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import UserError
from exercises.editpack import train as module
from exercises.editpack.recipe import Recipe
from tests.support.editpack import edits, recipe, write_training_rows

Train = Callable[..., int]


@pytest.fixture(autouse=True)
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        module, "find_spec", lambda name: None if name == "torch" else name
    )


def refused(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the only line of standard error."""
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model", "m"], "no --out given"),
        (["--out", "{tmp}/t"], "no --model given"),
        (
            ["--model", "m", "--out", "{tmp}/t", *recipe(held_out=1)],
            "train.held_out 1: must be less than 1",
        ),
        (
            ["--model", "m", "--out", "{tmp}/t", *recipe(seed=-1)],
            "train.seed -1: must be at least 0",
        ),
        (
            ["--model", "m", "--out", "{tmp}/t", *recipe(seed=1 << 32)],
            "train.seed 4294967296: must be less than 4294967296",
        ),
        (
            ["--model", "m", "--out", "{tmp}/t", *recipe(window=1)],
            "train.window 1: must be at least 2",
        ),
        (
            ["--model", "m", "--out", "{tmp}/t", *recipe(deepspeed="none.json")],
            "train.deepspeed none.json: Path does not point to a file",
        ),
        (
            ["--model", "m", "--out", "{tmp}/t"],
            "train needs torch, not installed here; run",
        ),
    ],
)
def test_options_that_do_not_do(
    train: Train,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    rows = write_training_rows(tmp_path / "rows.jsonl", edits(3))
    assert train(rows, *(word.format(tmp=tmp_path) for word in words)) == 2
    assert said in refused(capsys)


def test_no_rows_are_named(
    train: Train,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert train("--model", "m", "--out", tmp_path / "t") == 2
    assert "no rows given" in refused(capsys)


def test_without_torch_the_line_says_what_to_install(
    train: Train,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = write_training_rows(tmp_path / "rows.jsonl", edits(3))
    assert train(rows, "--model", "m", "--out", tmp_path / "t") == 2
    assert "pip install -r requirements-train.txt" in refused(capsys)
    assert not (tmp_path / "t").exists()


def test_data_that_were_not_decontaminated_are_refused(
    train: Train,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("--model", "m", "--out", tmp_path / "t")
    dirty = write_training_rows(tmp_path / "dirty.jsonl", edits(3), clean=False)
    assert train(dirty, *words) == 2
    assert "its report shows no decontamination" in refused(capsys)
    assert train(dirty, *words, *recipe(contaminated_anyway=True)) == 2
    assert "train needs torch" in refused(capsys)
    # A report of other bytes shows nothing.
    clean = write_training_rows(tmp_path / "clean.jsonl", edits(3))
    clean.write_text(clean.read_text() + clean.read_text())
    assert train(clean, *words) == 2
    assert "its report shows no decontamination" in refused(capsys)


def test_windows_a_step_that_do_not_fit_are_refused(
    train: Train,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(os.environ, "WORLD_SIZE", "2")
    rows = write_training_rows(tmp_path / "rows.jsonl", edits(3))
    words = (
        rows,
        "--model",
        "m",
        "--out",
        tmp_path / "t",
        *recipe(batch=5),
    )
    assert train(*words) == 2
    assert refused(capsys) == (
        "error: train.step_windows=32 is no multiple of train.batch=5 x 2 devices; change one of "
        "them"
    )


def test_the_batches_of_a_step_follow_from_its_windows() -> None:
    for batch, devices, windows, accumulate in (
        (1, 1, 32, 32),
        (1, 8, 32, 4),
        (4, 2, 32, 4),
        (8, 1, 8, 1),
    ):
        recipe = Recipe(batch=batch, step_windows=windows)
        assert recipe.accumulation(devices) == accumulate
    for batch, devices in ((64, 1), (1, 64), (3, 3)):
        with pytest.raises(UserError, match=r"train\.step_windows=32 is no multiple"):
            Recipe(batch=batch).accumulation(devices)


def test_steps_and_windows_of_epochs_with_a_short_last_step() -> None:
    recipe = Recipe(step_windows=8, epochs=3, window=2)
    assert (recipe.steps_of_epoch(18), recipe.steps(18)) == (3, 9)
    assert [recipe.tokens_seen(18, step) // 2 for step in (0, 1, 3, 4, 9)] == [
        0,
        8,
        18,
        26,
        54,
    ]
    assert Recipe(step_windows=8, epochs=3, max_steps=4).steps(18) == 4
    assert Recipe(step_windows=8, epochs=3, max_steps=40).steps(18) == 9


def test_deepspeed_that_is_not_installed_is_named(
    train: Train,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        module, "find_spec", lambda name: None if name == "deepspeed" else name
    )
    rows = write_training_rows(tmp_path / "rows.jsonl", edits(3))
    settings = tmp_path / "zero3.json"
    settings.write_text("{}")
    words = ("--model", "m", "--out", tmp_path / "t", *recipe(deepspeed=settings))
    assert train(rows, *words) == 2
    assert "train needs deepspeed, not installed here" in refused(capsys)
