"""``report.py --follow`` beside a run that is worked on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from core.errors import UserError
from environments.docker.engine import connect
from environments.docker.imagestore.record import ClaimKind, record_file
from environments.options import ImageOptions
from reports.cli.options import EvaluatorKind
from reports.command_line import report_command
from runs.storage.runlock import run_lock
from runs.storage.store import RunStore
from tests.support import wait_until
from tests.support.evaluated import make_run, needs_engine, on_disk, report_options, rows

IDS = ("demo__bank-1", "demo__textkit-1", "demo__units-1")


@contextmanager
def following(store: RunStore, *given: Any, **changes: Any) -> Iterator[list[str]]:
    """Follow a run, on which this process works meanwhile, until it ends."""
    said: list[str] = []
    chosen = report_options(*given, follow=True, page=False, **changes)
    thread = threading.Thread(target=report_command, args=([store.folder], chosen, said.append))
    with run_lock(store.folder):
        thread.start()
        yield said
    thread.join(60)
    assert not thread.is_alive()


def without_predictions(out: Path) -> RunStore:
    store = make_run(out, dict.fromkeys(IDS, ""))
    for name in IDS:
        store.prediction(name).unlink()
    return store


def predict(store: RunStore, name: str) -> None:
    content = {"instance_id": name, "model_name_or_path": "me/too", "model_patch": ""}
    store.prediction(name).write_text(json.dumps(content))


def test_predictions_are_evaluated_as_they_appear(tmp_path: Path, cache: Path) -> None:
    store = without_predictions(tmp_path)
    with following(store, cache, EvaluatorKind.LOCAL) as said:
        for number, name in enumerate(IDS):
            assert sum("empty" in line for line in said) == number
            predict(store, name)
            wait_until(lambda name=name: f"{name}: empty" in said)  # type: ignore[misc]
            assert on_disk(store, name)["status"] == "empty"
    # The report comes at the end.
    assert "no generation      3" in said
    assert (store.folder / "results.json").exists()


@pytest.mark.docker
@needs_engine
def test_a_follower_claims_the_images_that_it_will_need(tmp_path: Path, cache: Path) -> None:
    data = [{**rows()[name], "image": f"own/{name}:1"} for name in IDS]
    (tmp_path / "rows.json").write_text(json.dumps(data))
    store = without_predictions(tmp_path)
    file = record_file(connect(), cache, "test")

    def claims() -> list[tuple[str, ClaimKind]]:
        with file.changed() as record:
            return sorted((claim.image, claim.kind) for claim in record.claims)

    every = [(f"own/{name}:1", ClaimKind.AFTER) for name in IDS]
    images = ImageOptions(image_disk=10**9)
    dataset = str(tmp_path / "rows.json")
    with following(store, cache, EvaluatorKind.DOCKER, dataset=dataset, images=images) as said:
        wait_until(lambda: claims() == every)
        predict(store, IDS[0])
        wait_until(lambda: f"{IDS[0]}: empty" in said)
        wait_until(lambda: claims() == every[1:])
    assert claims() == []


@pytest.mark.parametrize("changes", [{"table": True, "evaluator": None}, {"regrade": True}])
def test_following_is_for_one_run_and_its_evaluation(
    tmp_path: Path, cache: Path, changes: dict[str, Any]
) -> None:
    store = make_run(tmp_path, {IDS[0]: ""})
    chosen = report_options(cache, EvaluatorKind.LOCAL, follow=True, **changes)
    with pytest.raises(UserError, match="--follow evaluates one run"):
        report_command([store.folder], chosen, print)
