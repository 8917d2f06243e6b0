"""Whole runs on replayed replies: what they write, how they go on, how they end."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from bench.cli.commands import run_command
from bench.config import ModelChoice, TestChoice, validate_config
from bench.repos.checkout import Snapshot
from core.errors import UserError
from environments.base import EnvironmentKind
from runs.storage.store import RunStore
from runs.storage.versions import HARNESS_VERSION
from tests.support.runs import IDS, config, options, read

pytestmark = pytest.mark.quick


def test_a_run_writes_predictions_trajectories_and_transcripts(
    tmp_path: Path, cache: Path
) -> None:
    assert run_command(config(), options(tmp_path, cache, *IDS), lambda _: None) == 0
    prediction = read(tmp_path, "demo__textkit-2")
    assert set(prediction) >= {
        "instance_id",
        "model_name_or_path",
        "model_patch",
        "model",
        "temperature",
        "cost",
        "added_files",
        "edited_files",
        "edit_outcome",
        "lint_outcome",
        "test_outcome",
        "try",
        "attempt",
        "tries",
        "status",
        "reason",
        "all_results",
    }
    assert prediction["model_patch"].startswith("diff --git a/textkit/wrap.py")
    assert (prediction["status"], prediction["attempt"], prediction["model"]) == (
        "plausible",
        1,
        "scripted-a",
    )
    assert prediction["all_results"][0]["status"] == "plausible_untested"
    trajectory = read(tmp_path, "demo__textkit-2", "trajectories")
    (attempt,) = trajectory["attempts"]
    assert [m["role"] for m in attempt["messages"]] == [
        "system",
        *["user", "assistant"] * 4,
    ]
    assert len(attempt["calls"]) == 4
    assert trajectory["config"]["tries"] == 3
    transcript = (tmp_path / "predictions/r/demo__textkit-2.md").read_text()
    assert "I had the comparison wrong" in transcript
    assert prediction["reason"] in transcript
    described = read(tmp_path, "run")
    assert described["selected"] == sorted(IDS)
    assert described["dataset"]["sha256"]


def test_models_alternate_and_an_unplausible_instance_falls_back(
    tmp_path: Path, cache: Path
) -> None:
    run_command(config(), options(tmp_path, cache, "demo__units-1"), lambda _: None)
    prediction = read(tmp_path, "demo__units-1")
    results = prediction["all_results"]
    assert [r["model"] for r in results][:4] == ["scripted-a", "scripted-b"] * 2
    assert [r["try"] for r in results][:4] == [1, 1, 2, 2]


def test_the_same_command_goes_on_and_other_options_are_refused(
    tmp_path: Path, cache: Path
) -> None:
    said: list[str] = []
    run_command(config(), options(tmp_path, cache, "demo__bank-1"), said.append)
    path = tmp_path / "predictions/r/demo__bank-1.json"
    before = (path.stat().st_mtime_ns, path.read_bytes())
    run_command(config(), options(tmp_path, cache, *IDS), said.append)
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before
    assert any("1 done before" in line for line in said)
    with pytest.raises(UserError, match="tries was 3, is 2") as error:
        run_command(config(tries=2), options(tmp_path, cache, *IDS), said.append)
    assert "temperature" not in str(error.value)


@pytest.mark.parametrize("version", ["0.5.0", "0.11.0"])
def test_runs_of_other_versions_are_refused_by_name(
    tmp_path: Path, cache: Path, version: str
) -> None:
    order = options(tmp_path, cache, "demo__bank-1")
    run_command(config(), order, lambda _: None)
    path = tmp_path / "predictions/r/run.json"
    described = json.loads(path.read_text())
    described["deciding"]["harness"] = version
    path.write_text(json.dumps(described))
    with pytest.raises(
        UserError, match=f"was {version}, is {HARNESS_VERSION}"
    ) as error:
        run_command(config(), order, lambda _: None)
    assert "\n" not in str(error.value)


def test_a_run_replayed_on_its_own_trajectories_is_byte_identical(
    tmp_path: Path, cache: Path
) -> None:
    run_command(
        config(all_attempts=True),
        options(tmp_path / "one", cache, *IDS),
        lambda _: None,
    )
    again = config(
        all_attempts=True, replay=tmp_path / "one/predictions/r/trajectories"
    )
    run_command(again, options(tmp_path / "two", cache, *IDS), lambda _: None)
    for name in IDS:
        one, two = (tmp_path / n / f"predictions/r/{name}.json" for n in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


def test_another_recorded_model_is_refused(tmp_path: Path, cache: Path) -> None:
    swapped = config(models=tuple(reversed(config().models)))
    with pytest.raises(
        UserError, match="scripted-a is recorded, but it is the turn of scripted-b"
    ):
        run_command(swapped, options(tmp_path, cache, "demo__bank-1"), lambda _: None)
    assert not (tmp_path / "predictions/r/demo__bank-1.json").exists()


def test_attempts_that_were_not_recorded_have_no_candidate(
    tmp_path: Path, cache: Path
) -> None:
    run_command(
        config(all_attempts=True),
        options(tmp_path, cache, "demo__bank-1"),
        lambda _: None,
    )
    statuses = [r["status"] for r in read(tmp_path, "demo__bank-1")["all_results"]]
    assert statuses[2:] == ["not_recorded"] * 4


def test_a_replay_that_recorded_none_of_the_instances_is_refused(
    tmp_path: Path, cache: Path
) -> None:
    place = tmp_path / "recorded"
    place.mkdir()
    (place / "other__thing-1.json").write_text("{}")
    for ids in (("demo__bank-1",), ()):
        with pytest.raises(
            UserError, match=f"{place} has no recording of demo__bank-1"
        ):
            run_command(
                config(replay=place), options(tmp_path, cache, *ids), lambda _: None
            )


def test_prior_runs_spare_what_is_plausible_there(tmp_path: Path, cache: Path) -> None:
    run_command(config(), options(tmp_path, cache, *IDS), lambda _: None)
    said: list[str] = []
    later = options(
        tmp_path / "later", cache, *IDS, prior=(tmp_path / "predictions/r",)
    )
    run_command(config(), later, said.append)
    plausible = [n for n in IDS if read(tmp_path, n)["status"] == "plausible"]
    assert f"{len(plausible)} plausible in earlier runs" in said[0]
    written = {p.stem for p in (tmp_path / "later/predictions/r").glob("*.json")} - {
        "run"
    }
    assert written == set(IDS) - set(plausible)


def test_a_prior_run_of_the_older_layout(tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    patch = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-1\n+2\n"
    clean = {
        "edit_outcome": True,
        "lint_outcome": True,
        "test_outcome": True,
        "resolved": True,
    }
    for name, values in {
        "demo__bank-1": clean,
        "demo__bank-2": {**clean, "test_outcome": False},
    }.items():
        content = {
            "instance_id": name,
            "model_patch": patch,
            "gold_files": ["GOLD.py"],
            **values,
        }
        (folder / f"{name}.json").write_text(json.dumps(content))
    said: list[str] = []
    run_command(
        config(),
        options(tmp_path, cache, "demo__bank-1", "demo__bank-2", prior=(folder,)),
        said.append,
    )
    assert "1 plausible in earlier runs, 1 to do" in said[0]
    store = RunStore.of_folder(folder)
    assert "GOLD" not in json.dumps(
        [store.read_prediction(p).as_json() for p in store.prediction_paths()]
    )


def test_require_tests_goes_on_after_an_untested_candidate(
    tmp_path: Path, cache: Path
) -> None:
    run_command(
        config(require_tests=True),
        options(tmp_path, cache, "demo__textkit-1"),
        lambda _: None,
    )
    prediction = read(tmp_path, "demo__textkit-1")
    assert (prediction["attempt"], len(prediction["all_results"])) == (1, 6)
    assert prediction["status"] == "plausible"


def test_a_leak_in_a_checkout_stops_the_instance(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import bench.repos.checkout

    real = bench.repos.checkout.make_repository

    def leaky(snapshot: Snapshot, root: Path) -> None:
        real(snapshot, root)
        (root / ".git" / "FETCH_HEAD").write_text("the future")

    monkeypatch.setattr(bench.repos.checkout, "make_repository", leaky)
    assert (
        run_command(config(), options(tmp_path, cache, "demo__bank-2"), lambda _: None)
        == 1
    )


def test_dry_run_starts_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    said: list[str] = []
    models = (ModelChoice.parse("gpt-4o"),)
    run = options(tmp_path, cache, *IDS, dry_run=True)
    assert run_command(config(models=models, replay=None), run, said.append) == 0
    text = "\n".join(said)
    assert "calls: at most 90" in text
    assert (
        "missing: a key for gpt-4o in the environment variable OPENAI_API_KEY" in text
    )
    assert "GB free" in text
    assert not (tmp_path / "predictions").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tries": 0}, "models.tries 0: must be at least 1"),
        ({"run": "../x"}, "--run"),
        ({"temperatures": (3.0,)}, "models.temperatures 3: must be at most 2"),
    ],
)
def test_option_values_are_checked(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        validate_config(config(**changes))


def test_formats_of_models() -> None:
    chosen = ModelChoice.parse("gpt-4o@whole")
    assert (chosen.text, chosen.name, chosen.edit_format) == (
        "gpt-4o",
        "gpt-4o",
        "whole",
    )
    odd = ModelChoice.parse("vertex_ai/claude@20240101", any_name=True)
    assert (odd.name, odd.edit_format) == ("vertex_ai/claude@20240101", "diff")


def test_temperatures_per_try() -> None:
    assert [
        config(temperatures=(0.0, 0.4, 0.8)).settings.models.temperature(n)
        for n in (1, 2, 3)
    ] == [
        0,
        0.4,
        0.8,
    ]
    assert config(temperatures=(0.5,)).settings.models.temperature(3) == 0.5


def test_tests_none_and_environments_without_spec_leave_outcomes_unknown(
    tmp_path: Path, cache: Path
) -> None:
    rows = tmp_path / "rows.json"
    said: list[str] = []
    from bench.instances.dataset import load_dataset

    row = dict(load_dataset("demo", "test").rows[0])
    row.pop("spec")
    rows.write_text(json.dumps([row]))
    none = config(environment=EnvironmentKind.LOCAL, tests=TestChoice.NONE, run="none")
    assert run_command(none, options(tmp_path, cache, "demo__bank-2"), said.append) == 0
    run = options(tmp_path, cache, dataset=str(rows), repos=cache / "demo-mirrors")
    run_command(config(environment=EnvironmentKind.LOCAL), run, said.append)
    assert any("no spec" in line for line in said)


def test_nothing_is_logged_to_the_root_logger(
    tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        run_command(config(), options(tmp_path, cache, "demo__bank-2"), lambda _: None)
    assert not caplog.records
    assert "attempt 1" in (tmp_path / "logs/r/demo__bank-2.log").read_text()


ID = "demo__units-1"


def test_title_attempts_and_winning_patch_come_first(
    tmp_path: Path, cache: Path
) -> None:
    run_command(config(), options(tmp_path, cache, ID), lambda _: None)
    text = (tmp_path / f"predictions/r/{ID}.md").read_text()
    lines = text.splitlines()
    prediction = read(tmp_path, ID)
    assert lines[0].startswith(f"# {ID}: ") and len(lines[0]) > len(f"# {ID}: ")
    table = next(
        n for n, line in enumerate(lines) if line.startswith("| attempt | model |")
    )
    rows = lines[table + 2 : table + 2 + len(prediction["all_results"])]
    assert [row.split(" | ")[0] for row in rows] == [f"| {n}" for n in range(1, 7)]
    assert [row.split(" | ")[3] for row in rows][:2] == ["edit failed", "lint failed"]
    assert [row.rstrip(" |").endswith("★") for row in rows].count(True) == 1
    patch = text.index("## The prediction")
    first = text.index("\n## Attempt 1: ")
    assert table < text[:patch].count("\n") and patch < first
    assert prediction["model_patch"].strip() in text[patch:first]
    assert text.count(prediction["model_patch"].strip()) == 1


def test_repeated_texts_stand_once(tmp_path: Path, cache: Path) -> None:
    run_command(config(), options(tmp_path, cache, ID), lambda _: None)
    text = (tmp_path / f"predictions/r/{ID}.md").read_text()
    said = read(tmp_path, ID, "trajectories")["attempts"]
    system, opening = (said[0]["messages"][n]["content"].strip() for n in (0, 1))
    assert text.count(system) == text.count(opening) == 1
    second = text[text.index("\n## Attempt 3: ") : text.index("\n## Attempt 4: ")]
    assert "As in attempt 1, message 1.\n" in second
    assert "As in attempt 1, message 2.\n" in second
    # A file that is shown again within another message is named as well.
    assert len(text.splitlines()) < 700, "1,163 lines in version 0.5"
