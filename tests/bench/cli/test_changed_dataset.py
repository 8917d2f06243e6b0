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
    run = RunStore(tmp_path, "r")
    run.folder.mkdir(parents=True)
    run.save_run(Run.model_validate({"run": "r", "dataset": SET.as_json()}))
    run.save_instance("a__b-1", {"instance_id": "a__b-1", "model_patch": ""}, {}, "")
    return run


def test_another_revision_with_the_same_rows_is_said(store: RunStore) -> None:
    assert changed_dataset(store, SET) == ""
    message = changed_dataset(store, replace(SET, revision="b" * 40))
    assert "same rows at revision bbbb" in message
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

    requests: list[Any] = []
    address = f"hf://datasets/own/set@{'c' * 40}/data.parquet"

    def loaded(*message: object, **named: object) -> datasets.Dataset:
        requests.append((message, named))
        dataset = datasets.Dataset.from_list([ROWS["gym"]])
        dataset.info.download_checksums = {address: {}}
        return dataset

    monkeypatch.setattr(datasets, "load_dataset", loaded)
    monkeypatch.setattr("bench.instances.dataset._hub_unreachable", lambda _: "")
    dataset = load_dataset("gym@ccccccc", "test", "extra")
    assert requests == [
        (("SWE-Gym/SWE-Gym", "extra"), {"split": "train", "revision": "ccccccc"})
    ]
    assert (dataset.name, dataset.split) == ("SWE-Gym/SWE-Gym", "train")
    assert dataset.revision == "c" * 40
    assert dataset.identity().as_json()["config"] == "extra"
    with pytest.raises(InfrastructureError, match=f"has the revision {'c' * 40}"):
        load_dataset("gym@ddddddd", "test")
