"""A set that changed while a run was not working on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts.benchmark import changed_dataset
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.instances.dataset import DatasetIdentity, load_dataset
from swe_retry.record.description import Run
from swe_retry.record.store import RunStore
from tests.support.task_sets import ROWS

SET = DatasetIdentity(
    name="own/set",
    split="test",
    sha256="1" * 64,
    revision="a" * 40,
)


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    store = RunStore(tmp_path, "r")
    store.folder.mkdir(parents=True)
    run = Run.model_validate({"run": "r", "dataset": SET.as_json()})
    store.save_run(run)
    prediction = {"instance_id": "a__b-1", "model_patch": ""}
    store.save_instance("a__b-1", prediction, {}, "")
    return store


def test_another_revision_with_the_same_rows_is_said(store: RunStore) -> None:
    assert changed_dataset(store, SET) == ""
    later = replace(SET, revision="b" * 40)
    assert "same rows at revision bbbb" in changed_dataset(store, later)
    without_revision = replace(SET, revision="")
    assert changed_dataset(store, without_revision) == ""


def test_other_rows_are_refused_with_the_revision_to_go_on_with(
    store: RunStore,
) -> None:
    changed = replace(SET, revision="b" * 40, sha256="2" * 64)
    with pytest.raises(UserError, match=f"go on with --dataset own/set@{SET.revision}"):
        changed_dataset(store, changed)
    another = replace(changed, name="other/set")
    assert changed_dataset(store, another) == ""


def test_what_is_asked_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub cannot run here: its client is replaced."""
    import datasets

    requests: list[Any] = []
    address = f"hf://datasets/own/set@{'c' * 40}/data.parquet"

    def load(*values: object, **named_values: object) -> datasets.Dataset:
        requests.append((values, named_values))
        dataset = datasets.Dataset.from_list([ROWS["gym"]])
        dataset.info.download_checksums = {address: {}}
        return dataset

    monkeypatch.setattr(datasets, "load_dataset", load)
    monkeypatch.setattr("swe_retry.instances.hub._hub_unreachable", lambda _: "")
    dataset = load_dataset("gym@ccccccc", "test", "extra")
    ((values, named_values),) = requests
    assert values == ("SWE-Gym/SWE-Gym", "extra")
    assert named_values == {"split": "train", "revision": "ccccccc"}
    assert dataset.name == "SWE-Gym/SWE-Gym"
    assert dataset.split == "train"
    assert dataset.revision == "c" * 40
    assert dataset.identity().as_json()["config"] == "extra"
    with pytest.raises(InfrastructureError, match=f"has the revision {'c' * 40}"):
        load_dataset("gym@ddddddd", "test")


def test_a_hub_that_is_not_reached_leaves_its_cache_to_the_libraries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each version of the client raises errors of another HTTP library."""
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    message = r"cannot load own/set from the hub: .*refused.*; nor is it in the local"
    with pytest.raises(InfrastructureError, match=message):
        load_dataset("own/set", "test")
