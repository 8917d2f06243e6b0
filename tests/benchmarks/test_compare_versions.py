"""The comparison of versions finds what differs, and passes over what may."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import compare_versions
from benchmarks.compare_versions import differences
from tests.support import write_files

PREDICTION = {"instance_id": "a-1", "reason": "no edits", "seconds": 1.5}
TRAJECTORY = {
    "versions": {"harness": "0.7.0", "harness_commit": "abc"},
    "attempts": [{"calls": [{"request_sha256": "11", "seconds": 2}]}],
}
STATS = {"seconds": {"known": 1.0, "per_instance": 1.0}, "calls": {"known": 4}}


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "table.tsv"
    path.write_text("# old, new\n")
    monkeypatch.setattr(compare_versions, "REWORDINGS", path)
    return path


def make(
    folder: Path,
    prediction: object = PREDICTION,
    trajectory: object = TRAJECTORY,
    stats: object = STATS,
) -> Path:
    (folder / "trajectories").mkdir(parents=True)
    (folder / "a-1.json").write_text(json.dumps(prediction, indent=1))
    (folder / "trajectories/a-1.json").write_text(json.dumps(trajectory, indent=1))
    (folder / "stats.json").write_text(json.dumps(stats, indent=1))
    (folder / "run.json").write_text(json.dumps({"run": folder.name}))
    return folder


def before(tmp_path: Path) -> Path:
    return make(tmp_path / "before/run")


def test_durations_and_versions_may_differ(tmp_path: Path) -> None:
    text = json.dumps(TRAJECTORY).replace("0.7.0", "0.8.0").replace("abc", "def")
    stats = {**STATS, "seconds": {"known": 9.5, "per_instance": 2}}
    prediction = {**PREDICTION, "seconds": 7}
    after = make(tmp_path / "after/run", prediction, json.loads(text), stats)
    assert [*differences(before(tmp_path), after)] == []


def test_any_other_byte_is_a_difference(tmp_path: Path) -> None:
    old = before(tmp_path)
    stats = {**STATS, "calls": {"known": 5}}
    after = make(tmp_path / "stats/run", stats=stats)
    (only,) = differences(old, after)
    assert only.startswith("run/stats.json differs")
    predictions = {
        "reason": {**PREDICTION, "reason": "none"},
        "id": {**PREDICTION, "instance_id": "a-2"},
        "order": dict(reversed(PREDICTION.items())),
    }
    for name, prediction in predictions.items():
        (only,) = differences(old, make(tmp_path / name / "run", prediction))
        assert only.startswith("run/a-1.json differs"), name


def test_another_request_and_a_missing_file_are_differences(tmp_path: Path) -> None:
    trajectory = json.loads(json.dumps(TRAJECTORY).replace('"11"', '"12"'))
    after = make(tmp_path / "after/run", trajectory=trajectory)
    (after / "stats.json").unlink()
    messages = [*differences(before(tmp_path), after)]
    assert "run/stats.json is only before" in messages
    assert "run: the hashes of requests differ" in messages


def test_the_table_maps_reworded_messages(tmp_path: Path, table: Path) -> None:
    after = make(tmp_path / "after/run", {**PREDICTION, "reason": "no change"})
    table.write_text("no edits\tno change\n")
    assert [*differences(before(tmp_path), after)] == []


def test_the_table_is_one_to_one(table: Path) -> None:
    table.write_text("no edits\tno change\nno files edited\tno change\n")
    with pytest.raises(SystemExit, match="not one to one"):
        compare_versions.rewordings()


def test_command_lines_are_respelled() -> None:
    table = {
        "--select evidence": "--set choice.select=evidence",
        "--verify": "",
        "RUN": "X",
    }
    argv = [
        "report.py",
        "RUN",
        "--select",
        "evidence",
        "--select",
        "plausible",
        "--verify",
    ]
    new = "report.py X --set choice.select=evidence --select plausible"
    assert compare_versions.respelled(argv, table) == new.split()
    assert compare_versions.respelled(argv, {}) == argv


def test_values_are_compared_in_any_order_of_keys(tmp_path: Path) -> None:
    for name, text in (
        ("before", '{"a": 1, "b": [1, 2]}'),
        ("after", '{"b": [1, 2], "a": 1}'),
    ):
        write_files(tmp_path / name, {"x.json": text})
    folders = (tmp_path / "before", tmp_path / "after")
    assert len(list(differences(*folders))) == 1
    assert list(differences(*folders, by_value=True)) == []
    (tmp_path / "after/x.json").write_text('{"a": 1, "b": [2, 1]}')
    assert len(list(differences(*folders, by_value=True))) == 1
