"""Runs whose attempts fail for reasons of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from swe_retry.agent.workspace import Workspace
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.git import GitError
from swe_retry.environments.base import EnvironmentKind
from swe_retry.record.store import RunStore
from tests.support.harness import Harness
from tests.support.runs import config


def test_a_bug_in_an_attempt_is_recorded_and_counts(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:

    import swe_retry.attempts.outcomes

    def explode(*_: object, **__: object) -> str:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(swe_retry.attempts.outcomes, "take_patch", explode)
    harness.run(config(), "demo__bank-2", code=1)
    first = harness.attempts("demo__bank-2")[0]
    assert first["status"] == "error"
    assert "ZeroDivisionError: a bug" in first["error"]
    assert harness.prediction("demo__bank-2")["status"] == "error"


def test_a_full_disk_is_infrastructure(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunStore, "save_instance", fill_disk)
    harness.run(config(), "demo__bank-2", code=1)


def test_an_unreachable_engine_is_refused(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    docker = config(environment=EnvironmentKind.DOCKER)
    with pytest.raises(UserError, match="no Docker engine answers"):
        harness.run(docker, "demo__bank-1")


def test_an_unreachable_hub_is_infrastructure(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    def fail(*_: object, **__: object) -> None:
        raise ConnectionError("no route to the hub")

    monkeypatch.setattr(datasets, "load_dataset", fail)
    message = "cannot load SWE-bench/SWE-bench_Lite"
    with pytest.raises(InfrastructureError, match=message):
        harness.run(config(), dataset="lite")


def test_predictions_of_another_harness_are_not_mixed_with_ours(
    harness: Harness, tmp_path: Path
) -> None:
    path = tmp_path / "predictions/r/x__y-1.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"instance_id": "x__y-1", "model_patch": null}')
    with pytest.raises(UserError, match=r"no run\.json"):
        harness.run(config(), "demo__bank-1")


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        GitError("status", Path(), "failed"),
    ],
)
def test_disk_and_git_errors_in_an_attempt_cost_no_try(
    harness: Harness,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Workspace, "write", fail)
    harness.run(config(), "demo__bank-2", code=1)
    assert not (tmp_path / "predictions/r/demo__bank-2.json").exists()
