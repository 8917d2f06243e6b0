"""Whole runs on replayed replies: what they write, how they go on, how they end."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import swe_retry.repositories.checkout
from swe_retry.attempts.config import ModelChoice, TestChoice, validate_config
from swe_retry.core.errors import UserError
from swe_retry.environments.base import EnvironmentKind
from swe_retry.instances.dataset import load_dataset
from swe_retry.record.store import RunStore
from swe_retry.record.versions import HARNESS_VERSION
from swe_retry.repositories.snapshot import Snapshot
from tests.support import read_json
from tests.support.harness import Harness
from tests.support.runs import IDS, but, config

pytestmark = pytest.mark.quick
BANK = "demo__bank-1"
TEXTKIT = "demo__textkit-2"
UNITS = "demo__units-1"
PREDICTION_KEYS = """
instance_id model_name_or_path model_patch model temperature cost added_files edited_files
edit_outcome lint_outcome test_outcome try attempt tries status reason all_results
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Harness:
    """A run of three instances, which no test changes."""
    folder = tmp_path_factory.mktemp("finished")
    harness = Harness(folder, cache)
    harness.run(config(), *IDS)
    return harness


def test_a_run_writes_predictions_trajectories_and_transcripts(
    finished: Harness,
) -> None:
    prediction = finished.prediction(TEXTKIT)
    assert set(prediction) >= set(PREDICTION_KEYS.split())
    assert prediction["model_patch"].startswith("diff --git a/textkit/wrap.py")
    assert prediction["status"] == "plausible"
    assert prediction["attempt"] == 1
    assert prediction["model"] == "scripted-a"
    assert prediction["all_results"][0]["status"] == "plausible_untested"
    (attempt,) = finished.attempts(TEXTKIT)
    roles = [message["role"] for message in attempt["messages"]]
    assert roles == ["system", *["user", "assistant"] * 4]
    assert len(attempt["calls"]) == 4
    trajectory = read_json(finished.file(f"trajectories/{TEXTKIT}.json"))
    assert trajectory["config"]["tries"] == 3
    transcript = finished.file(f"{TEXTKIT}.md").read_text()
    assert "I had the comparison wrong" in transcript
    assert prediction["reason"] in transcript
    described = finished.prediction("run")
    assert described["selected"] == sorted(IDS)
    assert described["dataset"]["sha256"]


def test_models_alternate_and_an_unplausible_instance_falls_back(
    finished: Harness,
) -> None:
    results = finished.prediction(UNITS)["all_results"][:4]
    assert [(result["model"], result["try"]) for result in results] == [
        ("scripted-a", 1),
        ("scripted-b", 1),
        ("scripted-a", 2),
        ("scripted-b", 2),
    ]


def test_title_attempts_and_winning_patch_come_first(finished: Harness) -> None:
    text = finished.file(f"{UNITS}.md").read_text()
    lines = text.splitlines()
    prediction = finished.prediction(UNITS)
    title = f"# {UNITS}: "
    assert lines[0].startswith(title)
    assert len(lines[0]) > len(title)
    (head,) = [line for line in lines if line.startswith("| attempt | model |")]
    table = lines.index(head)
    first_row = table + 2
    rows = lines[first_row : first_row + len(prediction["all_results"])]
    cells = [row.split(" | ") for row in rows]
    attempts = [row[0] for row in cells]
    assert attempts == ["| 1", "| 2", "| 3", "| 4", "| 5", "| 6"]
    assert cells[0][3] == "edit failed"
    assert cells[1][3] == "lint failed"
    starred = [row for row in rows if row.rstrip(" |").endswith("★")]
    assert len(starred) == 1
    start = text.index("## The prediction")
    end = text.index("\n## Attempt 1: ")
    assert table < text[:start].count("\n")
    patch = prediction["model_patch"].strip()
    assert patch in text[start:end]
    assert text.count(patch) == 1


def test_repeated_texts_stand_once(finished: Harness) -> None:
    text = finished.file(f"{UNITS}.md").read_text()
    messages = finished.attempts(UNITS)[0]["messages"]
    system = messages[0]["content"].strip()
    opening = messages[1]["content"].strip()
    assert text.count(system) == 1
    assert text.count(opening) == 1
    start = text.index("\n## Attempt 3: ")
    end = text.index("\n## Attempt 4: ")
    third = text[start:end]
    assert "As in attempt 1, message 1.\n" in third
    assert "As in attempt 1, message 2.\n" in third
    # A file that is shown again within another message is named as well.
    assert len(text.splitlines()) < 700, "1,163 lines in version 0.5"


def test_the_same_command_goes_on_and_other_options_are_refused(
    harness: Harness,
) -> None:
    harness.run(config(), BANK)
    path = harness.file(f"{BANK}.json")
    time = path.stat().st_mtime_ns
    data = path.read_bytes()
    lines = harness.run(config(), *IDS)
    assert path.stat().st_mtime_ns == time
    assert path.read_bytes() == data
    assert any("1 done before" in line for line in lines)
    with pytest.raises(UserError, match="tries was 3, is 2") as error:
        harness.run(config(tries=2), *IDS)
    assert "temperature" not in str(error.value)


def test_runs_of_other_versions_are_refused_by_name(harness: Harness) -> None:
    harness.run(config(), BANK)
    path = harness.file("run.json")
    description = harness.description
    for version in ("0.5.0", "0.11.0"):
        description["deciding"]["harness"] = version
        path.write_text(json.dumps(description))
        message = f"was {version}, is {HARNESS_VERSION}"
        with pytest.raises(UserError, match=message) as error:
            harness.run(config(), BANK)
        assert "\n" not in str(error.value)


def test_a_run_replayed_on_its_own_trajectories_is_byte_identical(
    harness: Harness,
) -> None:
    harness.run(config(all_attempts=True), *IDS)
    recordings = harness.file("trajectories")
    replay = config(all_attempts=True, replay=recordings)
    harness.run(replay, *IDS, out="replay")
    for name in IDS:
        data = harness.file(f"{name}.json").read_bytes()
        replayed = harness.file(f"{name}.json", "replay")
        assert replayed.read_bytes() == data
    # Attempts that were not recorded have no candidate.
    statuses = harness.statuses(BANK)
    assert statuses[2:] == ["not_recorded"] * 4


def test_another_recorded_model_is_refused(harness: Harness) -> None:
    models = reversed(config().models)
    swapped = config(models=tuple(models))
    message = "scripted-a is recorded, but it is the turn of scripted-b"
    with pytest.raises(UserError, match=message):
        harness.run(swapped, BANK)
    assert not harness.file(f"{BANK}.json").exists()


def test_a_replay_that_recorded_none_of_the_instances_is_refused(
    harness: Harness, tmp_path: Path
) -> None:
    recordings = tmp_path / "recorded"
    recordings.mkdir()
    (recordings / "other__thing-1.json").write_text("{}")
    replay = config(replay=recordings)
    message = f"{recordings} has no recording of {BANK}"
    for ids in ((BANK,), ()):
        with pytest.raises(UserError, match=message):
            harness.run(replay, *ids)


def test_prior_runs_spare_what_is_plausible_there(
    harness: Harness, finished: Harness
) -> None:
    earlier = finished.file("")
    lines = harness.run(config(), *IDS, prior=(earlier,))
    plausible = set()
    for name in IDS:
        if finished.prediction(name)["status"] == "plausible":
            plausible.add(name)
    assert f"{len(plausible)} plausible in earlier runs" in lines[0]
    paths = harness.file("").glob("*.json")
    names = {path.stem for path in paths}
    assert names == {"run", *IDS} - plausible


PATCH = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-1\n+2\n"


def test_a_prior_run_of_the_older_layout(harness: Harness, tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    test_outcomes = {BANK: True, "demo__bank-2": False}
    for name, outcome in test_outcomes.items():
        prediction = {
            "instance_id": name,
            "test_outcome": outcome,
            "edit_outcome": True,
            "lint_outcome": True,
            "resolved": True,
            "model_patch": PATCH,
            "gold_files": ["GOLD.py"],
        }
        (folder / f"{name}.json").write_text(json.dumps(prediction))
    lines = harness.run(config(), *test_outcomes, prior=(folder,))
    assert "1 plausible in earlier runs, 1 to do" in lines[0]
    store = RunStore.of_folder(folder)
    for path in store.prediction_paths():
        content = store.read_prediction(path).as_json()
        assert "GOLD" not in json.dumps(content)


def test_require_tests_goes_on_after_an_untested_candidate(harness: Harness) -> None:
    run = config(require_tests=True)
    prediction = harness.solve(run, "demo__textkit-1")
    assert prediction["attempt"] == 1
    assert len(prediction["all_results"]) == 6
    assert prediction["status"] == "plausible"


def test_a_leak_in_a_checkout_stops_the_instance(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = swe_retry.repositories.checkout.make_repository

    def leaky(snapshot: Snapshot, root: Path) -> None:
        real(snapshot, root)
        (root / ".git" / "FETCH_HEAD").write_text("the future")

    monkeypatch.setattr(swe_retry.repositories.checkout, "make_repository", leaky)
    harness.run(config(), "demo__bank-2", code=1)


def test_dry_run_starts_nothing(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    models = (ModelChoice.parse("gpt-4o"),)
    live = config(models=models, replay=None)
    lines = harness.run(live, *IDS, code=2, dry_run=True)
    text = "\n".join(lines)
    assert "calls: at most 90" in text
    key = "a key for gpt-4o in the environment variable OPENAI_API_KEY"
    assert f"missing: {key}" in text
    assert "GB free" in text
    assert not (harness.folder / "predictions").exists()


def test_option_values_are_checked() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"tries": 0}, "models.tries 0: must be at least 1"),
        ({"run": "../x"}, "--run"),
        ({"temperatures": (3.0,)}, "models.temperatures 3: must be at most 2"),
    ]
    for changes, message in wrong:
        # ``config`` itself refuses some of them.
        with pytest.raises(UserError, match=message):
            validate_config(config(**changes))


def test_formats_of_models() -> None:
    usual = ModelChoice.parse("gpt-4o@whole")
    assert usual.text == "gpt-4o"
    assert usual.name == "gpt-4o"
    assert usual.edit_format == "whole"
    odd = ModelChoice.parse("vertex_ai/claude@20240101", any_name=True)
    assert odd.name == "vertex_ai/claude@20240101"
    assert odd.edit_format == "diff"


def test_tests_none_and_environments_without_spec_leave_outcomes_unknown(
    harness: Harness, tmp_path: Path, cache: Path
) -> None:
    dataset = load_dataset("demo", "test")
    row = dict(dataset.rows[0])
    row.pop("spec")
    rows = tmp_path / "rows.json"
    rows.write_text(json.dumps([row]))
    local = config(environment=EnvironmentKind.LOCAL)
    untested = but(local, tests=TestChoice.NONE, run="none")
    harness.run(untested, "demo__bank-2")
    mirrors = cache / "demo-mirrors"
    lines = harness.run(local, dataset=str(rows), repos=mirrors)
    assert any("no spec" in line for line in lines)


def test_nothing_is_logged_to_the_root_logger(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        harness.run(config(), "demo__bank-2")
    assert not caplog.records
    log = harness.folder / "logs/r/demo__bank-2.log"
    assert "attempt 1" in log.read_text()
