"""The command ``train`` in this process, and the tuned folder of a short training."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from exercises.tests.support.editpack import edits, write_model, write_training_rows
from swe_retry_exercises.editpack.__main__ import PROGRAM
from swe_retry_exercises.editpack.rows import CONTENT, EditRow

Train = Callable[..., int]


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> Train:
    """Return a function from the words behind ``train`` to the exit code."""

    def run(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["editpack", "train", *map(str, arguments)])
        return PROGRAM.main()

    return run


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Let torch use one thread."""
    with suppress(ImportError):
        import torch

        torch.set_num_threads(1)
    yield


@pytest.fixture(scope="module")
def rows() -> list[EditRow]:
    return edits(32)


@pytest.fixture(scope="module")
def training_input(
    tmp_path_factory: pytest.TempPathFactory, rows: list[EditRow]
) -> tuple[Path, Path]:
    """Return a file of rows and a folder with a model that is not trained."""
    folder = tmp_path_factory.mktemp("given")
    model = write_model(folder / "model", [row[CONTENT] for row in rows])
    return write_training_rows(folder / "rows.jsonl", rows), model
