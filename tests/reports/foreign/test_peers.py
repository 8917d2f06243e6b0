"""Runs that other programs make and read for real; each has a virtual environment of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from demo.setup import build_mirrors
from reports.command_line import report_command
from reports.data.rundata import read_run
from reports.evaluation.settings import EvaluatorKind
from reports.foreign.export import export_command
from reports.foreign.importing import import_run
from reports.foreign.layouts import ExportLayout
from reports.foreign.recognise import read_any
from tests.reports.foreign.test_exchange import plain
from tests.reports.foreign.test_reading import SAMPLES
from tests.support.evaluated import report_settings
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


def figures(folder: Path) -> list[Any]:
    """Return what must not differ between two runs of the same replies."""
    return [
        (
            i.instance_id,
            i.winner and i.winner.attempt,
            i.patch,
            i.cost,
            a.sums.calls,
            a.sums.completion_tokens,
            a.status,
            [m.content for m in a.messages or () if m.role == "assistant"],
        )
        for i in sorted(read_any(folder).instances, key=lambda one: one.instance_id)
        for a in i.attempts
    ]


def with_lanes(run: Path, folder: Path) -> Path:
    """Return a copy of a run whose attempts held two further conversations, as sub-agents do."""
    made = Path(shutil.copytree(run, folder / "copied/predictions/r"))
    for path in (made / "trajectories").glob("*.json"):
        raw = json.loads(path.read_text())
        for attempt in raw["attempts"]:
            said = attempt["messages"]
            attempt["messages"] = said + [
                {**m, "lane": n} for n in (1, 2) for m in said
            ]
        path.write_text(json.dumps(raw))
    return made


def test_exported_trajectories_pass_the_official_models(
    venvs: Path, ours: Path, tmp_path: Path
) -> None:
    python = python_of("harbor", venvs)
    runs = {"ours": ours, "lanes": with_lanes(ours, tmp_path), "mini": SAMPLES / "mini"}
    for name, run in runs.items():
        export_command(run, ExportLayout.ATIF, tmp_path / name, lambda _: None)
        command = [python, "-c", VALIDATE, tmp_path / name]
        said = subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout
        subagents = 1 if name == "mini" else 6
        expected = [f"{one} {subagents}" for one in sorted(plain(run))]
        assert said.splitlines() == expected


def test_mini_swe_agent_for_real(venvs: Path, tmp_path: Path, cache: Path) -> None:
    mirrors = build_mirrors(cache / "demo-mirrors")
    run = run_mini(python_of("mini", venvs), mirrors, tmp_path)
    by_id = {i.instance_id: i for i in read_any(run).instances}
    assert by_id[RESOLVED].patch == ROWS[RESOLVED]["patch"]
    stats = json.loads((run / RESOLVED / f"{RESOLVED}.traj.json").read_text())["info"][
        "model_stats"
    ]
    assert by_id[RESOLVED].cost == Decimal(repr(round(stats["instance_cost"], 10)))
    assert by_id[CRASHED].winner is None
    # The samples are what it writes.
    assert [row[:5] for row in figures(run)] == [
        row[:5] for row in figures(SAMPLES / "mini")
    ]
    store = import_run(run, tmp_path / "out", lambda _: None)
    local = report_settings(cache, EvaluatorKind.LOCAL, dataset="demo")
    assert report_command([store.folder], local, lambda _: None) == 0
    verdicts = {i.instance_id: i.resolved for i in read_run(store).instances}
    assert verdicts == {RESOLVED: True, WRONG: False, CRASHED: False}
