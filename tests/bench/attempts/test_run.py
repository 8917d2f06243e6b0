"""Whole runs on replayed replies: what they write, how they go on, how they end."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import bench.repos.checkout
from bench.config import ModelChoice, TestChoice, validate_config
from bench.instances.dataset import load_dataset
from bench.repos.checkout import Snapshot
from core.errors import UserError
from environments.base import EnvironmentKind
from runs.storage.store import RunStore
from runs.storage.versions import HARNESS_VERSION
from tests.bench.conftest import Harness
from tests.support.runs import IDS, config

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
    harness = Harness(tmp_path_factory.mktemp("finished"), cache)
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
    trajectory = json.loads(finished.file(f"trajectories/{TEXTKIT}.json").read_text())
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
    models = [(result["model"], result["try"]) for result in results]
    both = ("scripted-a", "scripted-b")
    assert models == [(model, number) for number in (1, 2) for model in both]


def test_title_attempts_and_winning_patch_come_first(finished: Harness) -> None:
    text = finished.file(f"{UNITS}.md").read_text()
    lines = text.splitlines()
    prediction = finished.prediction(UNITS)
    title = f"# {UNITS}: "
    assert lines[0].startswith(title)
    assert len(lines[0]) > len(title)
    (head,) = (line for line in lines if line.startswith("| attempt | model |"))
    table = lines.index(head)
    rows = lines[table + 2 : table + 2 + len(prediction["all_results"])]
    cells = [row.split(" | ") for row in rows]
    assert [row[0] for row in cells] == [f"| {n}" for n in range(1, 7)]
    assert [row[3] for row in cells[:2]] == ["edit failed", "lint failed"]
    assert [row.rstrip(" |").endswith("★") for row in rows].count(True) == 1
    start = text.index("## The prediction")
    end = text.index("\n## Attempt 1: ")
    assert table < text[:start].count("\n")
    patch = prediction["model_patch"].strip()
    assert patch in text[start:end]
    assert text.count(patch) == 1


def test_repeated_texts_stand_once(finished: Harness) -> None:
    text = finished.file(f"{UNITS}.md").read_text()
    system, opening, *_ = finished.attempts(UNITS)[0]["messages"]
    assert text.count(system["content"].strip()) == 1
    assert text.count(opening["content"].strip()) == 1
    third = text[text.index("\n## Attempt 3: ") : text.index("\n## Attempt 4: ")]
    assert "As in attempt 1, message 1.\n" in third
    assert "As in attempt 1, message 2.\n" in third
    # A file that is shown again within another message is named as well.
    assert len(text.splitlines()) < 700, "1,163 lines in version 0.5"


def test_the_same_command_goes_on_and_other_options_are_refused(
    harness: Harness,
) -> None:
    harness.run(config(), BANK)
    path = harness.file(f"{BANK}.json")
    before = (path.stat().st_mtime_ns, path.read_bytes())
    lines = harness.run(config(), *IDS)
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before
    assert any("1 done before" in line for line in lines)
    with pytest.raises(UserError, match="tries was 3, is 2") as error:
        harness.run(config(tries=2), *IDS)
    assert "temperature" not in str(error.value)


def test_runs_of_other_versions_are_refused_by_name(harness: Harness) -> None:
    harness.run(config(), BANK)
    path = harness.file("run.json")
    described = json.loads(path.read_text())
    for version in ("0.5.0", "0.11.0"):
        described["deciding"]["harness"] = version
        path.write_text(json.dumps(described))
        message = f"was {version}, is {HARNESS_VERSION}"
        with pytest.raises(UserError, match=message) as error:
            harness.run(config(), BANK)
        assert "\n" not in str(error.value)


def test_a_run_replayed_on_its_own_trajectories_is_byte_identical(
    harness: Harness,
) -> None:
    harness.run(config(all_attempts=True), *IDS)
    recordings = harness.file("trajectories")
    harness.run(config(all_attempts=True, replay=recordings), *IDS, out="replay")
    for name in IDS:
        again = harness.file(f"{name}.json", "replay").read_bytes()
        assert again == harness.file(f"{name}.json").read_bytes()
    # Attempts that were not recorded have no candidate.
    assert harness.statuses(BANK)[2:] == ["not_recorded"] * 4


def test_another_recorded_model_is_refused(harness: Harness) -> None:
    swapped = config(models=tuple(reversed(config().models)))
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
    for ids in ((BANK,), ()):
        message = f"{recordings} has no recording of {BANK}"
        with pytest.raises(UserError, match=message):
            harness.run(config(replay=recordings), *ids)


def test_prior_runs_spare_what_is_plausible_there(
    harness: Harness, finished: Harness
) -> None:
    lines = harness.run(config(), *IDS, prior=(finished.file(""),))
    plausible = set()
    for name in IDS:
        if finished.prediction(name)["status"] == "plausible":
            plausible.add(name)
    assert f"{len(plausible)} plausible in earlier runs" in lines[0]
    written = {path.stem for path in harness.file("").glob("*.json")}
    assert written == {"run", *IDS} - plausible


PATCH = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-1\n+2\n"


def test_a_prior_run_of_the_older_layout(harness: Harness, tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    outcomes = dict.fromkeys(["edit_outcome", "lint_outcome", "resolved"], True)
    content = {**outcomes, "model_patch": PATCH, "gold_files": ["GOLD.py"]}
    for name, outcome in ((BANK, True), ("demo__bank-2", False)):
        prediction = {"instance_id": name, "test_outcome": outcome, **content}
        (folder / f"{name}.json").write_text(json.dumps(prediction))
    lines = harness.run(config(), BANK, "demo__bank-2", prior=(folder,))
    assert "1 plausible in earlier runs, 1 to do" in lines[0]
    store = RunStore.of_folder(folder)
    for path in store.prediction_paths():
        assert "GOLD" not in json.dumps(store.read_prediction(path).as_json())


def test_require_tests_goes_on_after_an_untested_candidate(harness: Harness) -> None:
    harness.run(config(require_tests=True), "demo__textkit-1")
    prediction = harness.prediction("demo__textkit-1")
    assert (prediction["attempt"], len(prediction["all_results"])) == (1, 6)
    assert prediction["status"] == "plausible"


def test_a_leak_in_a_checkout_stops_the_instance(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = bench.repos.checkout.make_repository

    def leaky(snapshot: Snapshot, root: Path) -> None:
        real(snapshot, root)
        (root / ".git" / "FETCH_HEAD").write_text("the future")

    monkeypatch.setattr(bench.repos.checkout, "make_repository", leaky)
    harness.run(config(), "demo__bank-2", code=1)


def test_dry_run_starts_nothing(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    live = config(models=(ModelChoice.parse("gpt-4o"),), replay=None)
    text = "\n".join(harness.run(live, *IDS, code=2, dry_run=True))
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
        with pytest.raises(UserError, match=message):
            validate_config(config(**changes))


def test_formats_of_models() -> None:
    chosen = ModelChoice.parse("gpt-4o@whole")
    names = (chosen.text, chosen.name, chosen.edit_format)
    assert names == ("gpt-4o", "gpt-4o", "whole")
    odd = ModelChoice.parse("vertex_ai/claude@20240101", any_name=True)
    assert (odd.name, odd.edit_format) == ("vertex_ai/claude@20240101", "diff")


def test_tests_none_and_environments_without_spec_leave_outcomes_unknown(
    harness: Harness, tmp_path: Path, cache: Path
) -> None:
    row = dict(load_dataset("demo", "test").rows[0])
    row.pop("spec")
    rows = tmp_path / "rows.json"
    rows.write_text(json.dumps([row]))
    local = config(environment=EnvironmentKind.LOCAL)
    none = config(environment=EnvironmentKind.LOCAL, tests=TestChoice.NONE, run="none")
    harness.run(none, "demo__bank-2")
    lines = harness.run(local, dataset=str(rows), repos=cache / "demo-mirrors")
    assert any("no spec" in line for line in lines)


def test_nothing_is_logged_to_the_root_logger(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        harness.run(config(), "demo__bank-2")
    assert not caplog.records
    log = harness.folder / "logs/r/demo__bank-2.log"
    assert "attempt 1" in log.read_text()
