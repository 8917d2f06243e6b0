"""Files of others are hostile input: limits, no links, and one line for any damage."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.foreign.conftest import Report
from tests.foreign.test_reading import (
    ONE,
    PREDICTION,
    TALK,
    preds,
    totals,
    write_result,
)
from tests.support import write_files
from tests.support.foreign import NAME, Talk, atif, extensions, mini


def nested_lists(depth: int) -> str:
    return '{"info": {}, "messages": ' + "[" * depth + "]" * depth + "}"


def trajectory_of(name: str) -> str:
    return json.dumps({"instance_id": name, "info": {}})


NO_ID = "cannot be an instance id"
LINE = '{"instance_id": "a", "model_patch": ""}\n'
HOSTILE: list[tuple[str, str, Any]] = [
    ("x.traj.json", "", "is broken"),
    ("x.traj.json", "[1]", "not a JSON object"),
    ("x.traj.json", nested_lists(5000), "levels deep"),
    ("x.traj.json", '{"a": ' + "9" * 9000 + "}", "a number is too long"),
    ("x.traj.json", trajectory_of("../../etc"), NO_ID),
    ("x.traj.json", trajectory_of("x" * 201), NO_ID),
    ("x.traj.json", trajectory_of("run"), NO_ID),
    ("x.traj.json", trajectory_of("stats"), NO_ID),
    ("x.traj.json", trajectory_of("results"), NO_ID),
    ("x.traj.json", trajectory_of("Run"), NO_ID),
    ("x.traj.json", '{"info": {"submission": 7}}', "is not a text"),
    ("x.traj.json", '{"info": {"submission": "\\ud800"}}', "an unpaired surrogate"),
    ("x.traj.json", "{", "line 1"),
    ("preds.json", '{"a": 1}', "`model_patch`"),
    ("all_preds.jsonl", LINE * 2, "two predictions of a"),
    ("all_preds.jsonl", LINE.replace('"a"', "null"), NO_ID),
    ("all_preds.jsonl", "\xff{", "line 1"),
    ("all_preds.jsonl", LINE + "{", "line 2"),
    ("t.json", '{"schema_version": "ATIF-v1.8"}', "no `steps`"),
    ("t.json", '{"schema_version": "ATIF-v1.8", "steps": 5}', "no `steps`"),
]


@pytest.mark.parametrize(("name", "text", "problem"), HOSTILE)
def test_damaged_files_give_one_clear_line(
    name: str,
    text: str,
    problem: str,
    report: Report,
    tmp_path: Path,
) -> None:
    files = {name: text.encode("latin-1")}
    folder = write_files(tmp_path / "run", files)
    line = report.refusal(folder)
    assert problem in line
    assert name in line


def test_a_run_without_instances_is_not_imported(
    report: Report, tmp_path: Path
) -> None:
    folder = preds(tmp_path / "run", [])
    code, _, line = report(folder, "--evaluator", "none")
    assert code == 2
    assert line == f"error: {folder} holds no instance\n"


@pytest.mark.parametrize(
    ("name", "size", "problem"),
    [
        ("x.traj.json", (256 << 20) + 1, "268,435,456 are the most"),
        ("all_preds.jsonl", (128 << 20) + 1, "more than 134,217,728 bytes"),
    ],
)
def test_huge_files_are_not_read(
    name: str,
    size: int,
    problem: str,
    report: Report,
    tmp_path: Path,
) -> None:
    folder = write_files(tmp_path / "run", {name: None})
    os.truncate(folder / name, size)
    assert problem in report.refusal(folder)


def test_folders_of_more_files_than_a_run_has_are_not_read(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swe_retry.foreign.files._MAX_FILES", 2)
    folder = preds(tmp_path / "run", [ONE])
    for number in (1, 2):
        (folder / f"{number}.txt").touch()
    assert "more than 2 files; name one run" in report.refusal(folder)


def test_folders_far_below_are_left_out(report: Report, tmp_path: Path) -> None:
    folder = mini(TALK, tmp_path / "run")
    first = Talk(TALK.turns, name="a__b-1")
    deeper = Talk(TALK.turns, name="a__b-2")
    mini(first, folder / "1/2/3/4/5/6/7")
    mini(deeper, folder / "1/2/3/4/5/6/7/8")
    assert list(report.records(folder)) == ["a__b-1", NAME]


def test_two_results_on_one_instance_are_refused(
    report: Report, tmp_path: Path
) -> None:
    folder = mini(TALK, tmp_path / "run")
    (path,) = folder.rglob("*.traj.json")
    other = folder / "other.traj.json"
    other.write_bytes(path.read_bytes())
    assert f"a second trajectory of {NAME}" in report.refusal(folder)
    other.unlink()
    mini(TALK, folder / "again")
    assert f"are both about {NAME}" in report.refusal(folder)
    folder = atif(TALK, tmp_path / "atif")
    atif(TALK, folder / "again")
    assert f"are both about {NAME}" in report.refusal(folder)


def test_wrong_types_and_numbers_count_as_unknown(
    report: Report, tmp_path: Path
) -> None:
    extra = {
        "cost": float("nan"),
        "response": [1],
        "actions": "x",
    }
    reply = {
        "role": "assistant",
        "content": {"a": 1},
        "tool_calls": 5,
    }
    messages = [
        {**reply, "extra": extra},
        7,
        {
            "role": ["x"],
            "content": [None, {"text": 5}],
        },
        {"role": "tool"},
    ]
    stats = {"instance_cost": -1, "api_calls": 1e300}
    info = {"model_stats": stats, "config": 3, "exit_status": {}}
    folder = preds(
        tmp_path / "run", {"info": info, "messages": messages}, "a.traj.json"
    )
    prediction, trajectory = report.record(folder)
    (attempt,) = trajectory["attempts"]
    assert attempt["totals"] == totals()
    assert attempt["cost"] is None
    assert prediction["patch_known"] is False
    assert attempt["status"] == "unknown"
    assert attempt["model"] == ""


def refuse_constant(name: str) -> None:
    raise AssertionError(f"no JSON standard has {name}")


@pytest.mark.parametrize("layout", ["atif", "mini"])
def test_numbers_that_are_none_are_exported_as_texts(
    layout: str, report: Report, tmp_path: Path
) -> None:
    arguments = {
        "command": "ls",
        "limits": [float("nan"), float("-inf")],
    }
    call = {"id": "c", "function": {"name": "bash", "arguments": arguments}}
    messages = [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [call],
        }
    ]
    data = {"info": {}, "messages": messages, "instance_id": NAME}
    (tmp_path / "a.traj.json").write_text(json.dumps(data))
    report.convert(tmp_path / "a.traj.json", layout, tmp_path / "exported")
    for path in (tmp_path / "exported").rglob("*.json"):
        json.loads(path.read_text(), parse_constant=refuse_constant)
    (path,) = (tmp_path / "exported").rglob(f"{NAME}*.json")
    assert re.search(r"nan\W+-inf", path.read_text())


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_links_and_pipes_are_left_out(report: Report, tmp_path: Path) -> None:
    folder = mini(TALK, tmp_path / "run")
    secrets = tmp_path / "secrets"
    mini(Talk(TALK.turns, name="a__b-1"), secrets)
    preds(secrets, {NAME: PREDICTION})
    results = {"resolved_ids": [NAME], "unresolved_ids": []}
    preds(secrets, results, "results.json")
    (folder / "a").symlink_to(secrets)
    for file in ("preds.json", "results.json"):
        (folder / file).symlink_to(secrets / file)
    (secrets / "broken.traj.json").write_text("{")
    (folder / "b.traj.json").symlink_to(secrets / "broken.traj.json")
    os.mkfifo(folder / "c.traj.json")
    prediction, _ = report.record(folder)
    assert prediction["model_name_or_path"] == "run"
    assert "resolved" not in prediction
    folder = atif(TALK, tmp_path / "atif")
    write_result(folder, NAME, 1)
    result = folder / "trial/result.json"
    result.rename(secrets / "result.json")
    result.symlink_to(secrets / "result.json")
    prediction, _ = report.record(folder)
    assert "resolved" not in prediction


def test_what_is_no_run(report: Report, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    # It may be a run of ours that has just started.
    code, _, line = report(folder, "--evaluator", "none")
    assert code == 2
    assert line.startswith(f"error: {folder} has no predictions")
    code, _, line = report(tmp_path / "missing", "--evaluator", "none")
    assert code == 2
    assert line.partition(";")[0] == f"error: there is no run {tmp_path}/missing"
    (folder / "x.json").write_text("{}")
    for path in (folder, folder / "x.json"):
        assert "trajectories of mini-swe-agent" in report.refusal(path)


@pytest.mark.parametrize(
    "embedded",
    [
        [],
        [{"steps": []}],
        [3],
    ],
)
def test_damaged_values_of_our_exports_count_as_unknown(
    embedded: list[Any], report: Report, tmp_path: Path
) -> None:
    outcomes = {
        "try": "x",
        "edit_format": 3,
        "edit_outcome": 5,
        "added_files": "x",
    }
    attempt = {
        "attempt": -1,
        "model": 5,
        "totals": [],
        "steps": "x",
        "known": outcomes,
    }
    extension = {
        "instance_id": NAME,
        "winner": True,
        "status": [],
        **attempt,
    }
    for value in embedded:
        if isinstance(value, dict):
            value["extra"] = {"swe_retry_harness": extension}
    data = {
        "schema_version": "ATIF-v1.8",
        "steps": [],
        "extra": {"swe_retry_harness": extension},
        "subagent_trajectories": embedded,
    }
    path = tmp_path / "x.json"
    path.write_text(json.dumps(data))
    prediction, trajectory = report.record(path)
    assert prediction["attempt"] == 1
    assert prediction["try"] == 1
    assert prediction["model"] == ""
    assert prediction["edit_outcome"] is None
    assert prediction["model_patch"] == ""
    assert trajectory is None
    converted = report.convert(path, "atif", tmp_path / "atif")
    of_instance, of_attempt = extensions(converted)
    assert of_instance["winner"] is None
    assert of_attempt["known"]["edit_format"] is None
