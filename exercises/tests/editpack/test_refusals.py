"""What ``train`` refuses, and says in one line; none of it needs torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from exercises.tests.commands import EDITPACK
from exercises.tests.support.editpack import edits, write_training_rows
from swe_retry.core.errors import UserError
from swe_retry_exercises.editpack import train as module
from swe_retry_exercises.editpack.recipe import Recipe

TRAIN = "--model m --out t"


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    def find_spec(name: str) -> str | None:
        if name == package:
            return None
        return name

    monkeypatch.setattr(module, "find_spec", find_spec)


@pytest.fixture(autouse=True)
def without_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    without(monkeypatch, "torch")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_training_rows(tmp_path / "rows.jsonl", edits(3))


def test_options_that_do_not_do(rows: Path) -> None:
    options = f"{rows} {TRAIN} --set train"
    for line, problem in {
        TRAIN: "no rows given",
        f"{rows} --model m": "no --out given",
        f"{rows} --out t": "no --model given",
        f"{options}.held_out=1": "train.held_out 1: must be less than 1",
        f"{options}.seed=-1": "train.seed -1: must be at least 0",
        f"{options}.seed=4294967296": "train.seed 4294967296: must be less than 4294967296",
        f"{options}.window=1": "train.window 1: must be at least 2",
        # Each device holds the whole model.
        f"{options}.deepspeed=zero3.json": "there is no setting train.deepspeed",
        f"{rows} {TRAIN}": "train needs torch, not installed here; run",
    }.items():
        assert problem in EDITPACK.refusal(f"train {line}")
    error = EDITPACK.refusal(f"train {rows} {TRAIN}")
    assert "pip install -r exercises/requirements-train.txt" in error
    assert not Path("t").exists()


def test_data_that_were_not_decontaminated_are_refused(tmp_path: Path) -> None:
    problem = "its report shows no decontamination"
    dirty = write_training_rows(tmp_path / "dirty.jsonl", edits(3), clean=False)
    assert problem in EDITPACK.refusal(f"train {dirty} {TRAIN}")
    anyway = "--set train.contaminated_anyway=True"
    error = EDITPACK.refusal(f"train {dirty} {TRAIN} {anyway}")
    assert "train needs torch" in error
    # A report of other bytes shows nothing.
    clean = write_training_rows(tmp_path / "clean.jsonl", edits(3))
    clean.write_text(clean.read_text() * 2)
    assert problem in EDITPACK.refusal(f"train {clean} {TRAIN}")


def test_windows_a_step_that_do_not_fit_are_refused(
    rows: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    error = EDITPACK.refusal(f"train {rows} {TRAIN} --set train.batch=5")
    assert error == (
        "error: train.step_windows=32 is no multiple of train.batch=5 x 2 devices; change one of "
        "them"
    )


def test_the_batches_of_a_step_follow_from_its_windows() -> None:
    def batches(batch: int, devices: int, windows: int = 32) -> int:
        recipe = Recipe(batch=batch, step_windows=windows)
        return recipe.accumulation(devices)

    assert batches(batch=1, devices=1) == 32
    assert batches(batch=1, devices=8) == 4
    assert batches(batch=4, devices=2) == 4
    assert batches(batch=8, devices=1, windows=8) == 1
    for batch, devices in ((64, 1), (1, 64), (3, 3)):
        with pytest.raises(UserError, match=r"train\.step_windows=32 is no multiple"):
            batches(batch, devices)


def test_steps_and_windows_of_epochs_with_a_short_last_step() -> None:
    recipe = Recipe(step_windows=8, epochs=3, window=2)
    assert recipe.steps_of_epoch(18) == 3
    assert recipe.steps(18) == 9
    for step, windows in {0: 0, 1: 8, 3: 18, 4: 26, 9: 54}.items():
        assert recipe.tokens_seen(18, step) // 2 == windows
    for max_steps, steps in {4: 4, 40: 9}.items():
        limited = Recipe(step_windows=8, epochs=3, max_steps=max_steps)
        assert limited.steps(18) == steps
