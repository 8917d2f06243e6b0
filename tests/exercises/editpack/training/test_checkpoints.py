"""A training goes on from its last complete checkpoint, and from no other training's."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import UserError
from exercises.editpack.training.record import CheckpointFolder

DECIDING = {"lr": 2e-5, "window": 8192}


@pytest.fixture
def folder(tmp_path: Path) -> CheckpointFolder:
    made = CheckpointFolder(tmp_path)
    assert made.start(DECIDING, resume=False) is None
    return made


def make(folder: CheckpointFolder, step: int) -> Path:
    path = folder.path / f"checkpoint-{step}"
    path.mkdir()
    (path / "model.safetensors").write_bytes(b"...")
    return path


def test_the_last_complete_one_is_taken_and_incomplete_ones_are_removed(
    folder: CheckpointFolder,
) -> None:
    for step, seconds in ((9, 1.5), (10, 2.25)):
        make(folder, step)
        folder.mark_complete(step, seconds)
    cut_off = make(folder, 100)
    found = folder.start(DECIDING, resume=True)
    assert found
    assert (found.path.name, found.step, found.seconds) == ("checkpoint-10", 10, 2.25)
    assert not cut_off.exists()


def test_without_a_checkpoint_the_training_starts_again(folder: CheckpointFolder) -> None:
    make(folder, 3)
    assert folder.start({**DECIDING, "lr": 3e-5}, resume=True) is None
    make(folder, 3)
    folder.mark_complete(3, 1)
    assert folder.start({**DECIDING, "lr": 3e-5}, resume=True)


def test_a_folder_that_holds_a_checkpoint_is_not_overwritten(folder: CheckpointFolder) -> None:
    make(folder, 3)
    folder.mark_complete(3, 1)
    with pytest.raises(UserError, match="give --resume, or another --out"):
        folder.start(DECIDING, resume=False)


def test_another_training_does_not_go_on(folder: CheckpointFolder) -> None:
    make(folder, 3)
    folder.mark_complete(3, 1)
    with pytest.raises(UserError, match="started with lr 2e-05, not 3e-05"):
        folder.start({**DECIDING, "lr": 3e-5}, resume=True)


def test_a_process_that_does_not_write_removes_nothing(folder: CheckpointFolder) -> None:
    cut_off = make(folder, 3)
    assert folder.start({"lr": 1}, resume=True, writes=False) is None
    assert cut_off.exists()
