"""A whole run on each task set: no file, request or message has hidden data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts.config import ModelChoice
from swe_retry.core.git import git
from swe_retry.environments.base import EnvironmentKind
from swe_retry.environments.docker.containers import Container
from swe_retry.instances.split import instance_id_of, split_row
from swe_retry.llm.chat import request_sha256
from swe_retry.record.store import RunStore
from swe_retry.report.report import report_on
from tests.support import read_json
from tests.support.evaluated import report_settings
from tests.support.harness import Harness
from tests.support.provider import Provider
from tests.support.runs import live
from tests.support.task_sets import GOLD, ROWS, built, history, mirror_of
from tests.test_leaks import noting

EDIT = (
    "core.py\n```python\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n"
    ">>>>>>> REPLACE\n```\n"
)


def place_row(name: str, folder: Path) -> tuple[dict[str, Any], str]:
    """Return the row of a set with a mirror of its repository, and the later commit's hash."""
    repository = folder / "repository"
    base, later = history(repository)
    row = {**ROWS[name], "base_commit": base}
    if name == "multi":
        row["base"] = {"ref": "main", "sha": base}
    if name == "smith":
        row["base_commit"] = later
        row["patch"] = git("diff", later, base, cwd=repository).decode()
    instance, _ = split_row(row)
    mirror = instance.repo.replace("/", "__")
    mirror_of(repository, folder / f"mirrors/{mirror}.git")
    return row, later


def run(
    folder: Path,
    row: dict[str, Any],
    provider: Provider,
    kind: EnvironmentKind,
) -> tuple[RunStore, str]:
    """Run the harness on one row; return the run and what it printed."""
    rows = folder / "rows.json"
    rows.write_text(json.dumps([row]))
    provider.will_answer("core.py", EDIT)
    model = ModelChoice.parse("gpt-4o", any_name=True)
    config = live(provider, models=(model,), environment=kind, tries=3)
    harness = Harness(folder / "out", folder / "cache")
    lines = harness.run(config, dataset=str(rows), repos=folder / "mirrors")
    store = RunStore(harness.folder, "r")
    return store, "\n".join(lines)


def assert_hidden(
    folder: Path,
    others: dict[str, str],
    hashes: set[str],
) -> None:
    """Check the files of a run and other texts; snapshots are packs of the base commit alone."""
    texts = dict(others)
    for name in ("out", "cache"):
        for path in (folder / name).rglob("*"):
            if path.is_file():
                texts[str(path)] = path.read_text("utf-8", "replace")
    for source, text in texts.items():
        for hidden in ("ZQHIDDEN", GOLD[:12], *hashes):
            assert hidden not in text + source, (source, hidden)


@pytest.mark.parametrize("name", ROWS)
def test_no_sentinel_of_any_set(
    name: str,
    tmp_path: Path,
    provider: Provider,
    capfd: pytest.CaptureFixture[str],
) -> None:
    row, later = place_row(name, tmp_path)
    store, output = run(tmp_path, row, provider, EnvironmentKind.NONE)
    requests = json.dumps(provider.requests)
    captured = capfd.readouterr()
    others = {
        "requests": requests,
        "printed": output,
        "stdout": captured.out,
        "stderr": captured.err,
    }
    # The commit of SWE-smith's bug is no secret.
    hashes = {later} - {row.get("base_commit")}
    assert_hidden(tmp_path, others, hashes)
    assert "It subtracts." in requests
    assert ("https://example.org/a.png" in requests) is (name == "multimodal")
    instance_id = instance_id_of(row)
    prediction = read_json(store.prediction(instance_id))
    assert "+    return a + b" in prediction["model_patch"]
    (attempt,) = store.read_result(instance_id).attempts
    assert attempt.messages
    assert attempt.calls
    assert bool(attempt.messages[1].images) is (name == "multimodal")
    # With the images, as it was sent.
    sent = request_sha256(attempt.messages[:2])
    assert attempt.calls[0].request_sha256 == sent


@pytest.mark.docker
def test_pro_in_its_image_under_a_neutral_id(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, later = place_row("pro", tmp_path)
    instance, _ = split_row(row)
    commands: list[object] = []
    for name in ("put", "bash"):
        noted = noting(getattr(Container, name), commands)
        monkeypatch.setattr(Container, name, noted)
    repository = tmp_path / "repository"
    with built(instance.image, "/app", repository, {}, keeps_home=True):
        store, output = run(tmp_path, row, provider, EnvironmentKind.DOCKER)
    assert commands
    texts = {
        "requests": json.dumps(provider.requests),
        "commands": repr(commands),
        "printed": output,
    }
    assert_hidden(tmp_path, texts, {later})
    instance_id = instance.instance_id
    prediction = read_json(store.prediction(instance_id))
    assert prediction["instance_id"] == instance_id
    assert prediction["test_outcome"] is True
    description = store.read_run()
    assert description
    assert list(description.images) == [f"jefzda/sweap-images:{instance_id}"]
    assert description.as_json()["dataset"]["neutral_ids"] is True
    report_on(store, report_settings(tmp_path / "cache"), lambda _: None)
    (line,) = (store.folder / "all_preds.jsonl").read_text().splitlines()
    assert json.loads(line)["instance_id"] == row["instance_id"]
