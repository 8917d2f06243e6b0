"""Runs that other programs make and read for real; each has a virtual environment of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from swe_retry.demo.setup import build_mirrors
from tests.foreign.conftest import Report
from tests.foreign.test_reading import SAMPLES
from tests.support import read_json
from tests.support.foreign import (
    CRASHED,
    RESOLVED,
    ROWS,
    WRONG,
    python_of,
    run_mini,
)

pytestmark = pytest.mark.long
VALIDATE = """
import sys
from pathlib import Path
from harbor.models.trajectories import Trajectory
for path in sorted(Path(sys.argv[1]).rglob("*.json")):
    found = Trajectory.model_validate_json(path.read_text())
    print(path.stem, len(found.subagent_trajectories or ()))
"""


@pytest.fixture(scope="module")
def venvs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("venvs")


def figures(records: dict[str, tuple[Any, Any]]) -> list[Any]:
    """Return what must not differ between two runs of the same replies."""
    rows = []
    for name, (prediction, trajectory) in sorted(records.items()):
        for attempt in trajectory["attempts"]:
            totals = attempt["totals"]
            rows.append(
                (
                    name,
                    trajectory["winner"],
                    prediction["model_patch"],
                    prediction["cost"],
                    totals["calls"],
                    totals["completion_tokens"],
                    attempt["status"],
                    [reply["content"] for reply in replies_of(attempt)],
                )
            )
    return rows


def replies_of(attempt: dict[str, Any]) -> list[dict[str, Any]]:
    messages = attempt["messages"]
    return [message for message in messages if message["role"] == "assistant"]


def with_lanes(run: Path, folder: Path) -> Path:
    """Return a copy of a run whose attempts held two further conversations, as sub-agents do."""
    made = Path(shutil.copytree(run, folder / "copied/predictions/r"))
    for path in (made / "trajectories").glob("*.json"):
        raw = json.loads(path.read_text())
        for attempt in raw["attempts"]:
            messages = attempt["messages"]
            beside = []
            for lane in (1, 2):
                for message in messages:
                    beside.append({**message, "lane": lane})
            attempt["messages"] = messages + beside
        path.write_text(json.dumps(raw))
    return made


def test_exported_trajectories_pass_the_official_models(
    venvs: Path, ours: Path, report: Report, tmp_path: Path
) -> None:
    python = python_of("harbor", venvs)
    runs = {
        "ours": ours,
        "lanes": with_lanes(ours, tmp_path),
        "mini": SAMPLES / "mini",
    }
    for name, run in runs.items():
        files = report.convert(run, "atif", tmp_path / name)
        command: list[str | Path] = [python, "-c", VALIDATE, tmp_path / name]
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
        )
        subagents = 6
        if name == "mini":
            subagents = 1
        names = sorted(file.removesuffix(".json") for file in files)
        expected = [f"{name} {subagents}" for name in names]
        assert result.stdout.splitlines() == expected


def test_mini_swe_agent_for_real(
    venvs: Path, report: Report, tmp_path: Path, cache: Path
) -> None:
    mirrors = build_mirrors(cache / "demo-mirrors")
    run = run_mini(python_of("mini", venvs), mirrors, tmp_path)
    records = report.records(run)
    prediction, _ = records[RESOLVED]
    assert prediction["model_patch"] == ROWS[RESOLVED]["patch"]
    recorded = read_json(run / RESOLVED / f"{RESOLVED}.traj.json")
    stats = recorded["info"]["model_stats"]
    assert prediction["cost"] == round(stats["instance_cost"], 10)
    assert records[CRASHED][1]["winner"] is None
    # The samples are what it writes.
    samples = report.records(SAMPLES / "mini")
    assert [row[:5] for row in figures(records)] == [
        row[:5] for row in figures(samples)
    ]
    arguments = (
        "--evaluator",
        "local",
        "--dataset",
        "demo",
        "--set",
        "report.page=false",
    )
    assert report(run, *arguments)[0] == 0
    evaluated = report.out / "predictions/mini-run"
    assert read_json(evaluated / "results.json")["resolved"] == [RESOLVED]
    verdict = read_json(evaluated / f"verdicts/{WRONG}.json")
    assert verdict["status"] == "unresolved"
    assert read_json(evaluated / "stats.json")["counts"]["no_generation"] == 1
