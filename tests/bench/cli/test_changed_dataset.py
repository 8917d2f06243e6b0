"""A set that changed while a run was not working on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.benchmark import changed_dataset
from bench.instances.dataset import DatasetIdentity, load_dataset
from core.errors import InfrastructureError, UserError
from runs.description import Run
from runs.storage.store import RunStore
from tests.support.task_sets import ROWS

SET = DatasetIdentity("own/set", "test", "1" * 64, "a" * 40)


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    found = RunStore(tmp_path, "r")
    found.folder.mkdir(parents=True)
    found.save_run(Run.model_validate({"run": "r", "dataset": SET.as_json()}))
    found.save_instance("a__b-1", {"instance_id": "a__b-1", "model_patch": ""}, {}, "")
    return found


def test_another_revision_with_the_same_rows_is_said(store: RunStore) -> None:
    assert changed_dataset(store, SET) == ""
    words = changed_dataset(store, replace(SET, revision="b" * 40))
    assert "same rows at revision bbbb" in words
    assert changed_dataset(store, replace(SET, revision="")) == ""


def test_other_rows_are_refused_with_the_revision_to_go_on_with(
    store: RunStore,
) -> None:
    changed = replace(SET, revision="b" * 40, sha256="2" * 64)
    with pytest.raises(UserError, match=f"go on with --dataset own/set@{SET.revision}"):
        changed_dataset(store, changed)
    assert changed_dataset(store, replace(changed, name="other/set")) == ""


def test_what_is_asked_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub cannot run here: its client is replaced."""
    import datasets

    asked: list[Any] = []
    held = f"hf://datasets/own/set@{'c' * 40}/data.parquet"

    def loaded(*words: object, **named: object) -> datasets.Dataset:
        asked.append((words, named))
        found = datasets.Dataset.from_list([ROWS["gym"]])
        found.info.download_checksums = {held: {}}
        return found

    monkeypatch.setattr(datasets, "load_dataset", loaded)
    monkeypatch.setattr("bench.instances.dataset._hub_unreachable", lambda _: "")
    found = load_dataset("gym@ccccccc", "test", "extra")
    assert asked == [
        (("SWE-Gym/SWE-Gym", "extra"), {"split": "train", "revision": "ccccccc"})
    ]
    assert (found.name, found.split, found.revision) == (
        "SWE-Gym/SWE-Gym",
        "train",
        "c" * 40,
    )
    assert found.identity().as_json()["config"] == "extra"
    with pytest.raises(InfrastructureError, match=f"has the revision {'c' * 40}"):
        load_dataset("gym@ddddddd", "test")
