"""A demo run with real trajectories and verdicts like those of swebench."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from bench.cli.commands import run_command
from bench.config import ModelChoice, RunConfig
from bench.instances.dataset import Dataset, load_dataset
from bench.options import Options
from demo.setup import DEMO_DATASET, build_mirrors
from environments.base import EnvironmentKind
from reports.data.predictions import read_predictions
from reports.data.rundata import read_run, rounds
from reports.data.verdicts import Verdict, VerdictStatus, save_verdict
from runs.storage.store import RunStore

META: dict[str, Any] = {
    "name": "Retry harness",
    "date": "2026-01-31",
    "folder": "retry_scripted",
    "site": "https://example.org/harness",
    "report": "https://example.org/report",
    "authors": ["A. Author", "B. Author"],
    "first_author_site": "https://example.org/~a",
    "affiliations": ["University of Examples"],
    "logo": "picture.svg",
    "model": ["scripted-a", "scripted-b"],
    "org": "Example",
    "os_model": False,
    "os_system": True,
    "agent": "Retry harness",
    "agent_org": "Example",
    "model_display": "Scripted",
    "model_org": "Nobody",
    "artifacts": "https://example.org/artifacts",
    "web_browsing": False,
}


def demo() -> Dataset:
    """The six demo instances."""
    return load_dataset("demo", "test")


def make_run(out: Path, cache: Path) -> Path:
    """Replay the demo without running tests and return the run's folder."""
    config = RunConfig(
        models=tuple(ModelChoice.parse(m, replay=True) for m in ("scripted-a", "scripted-b")),
        environment=EnvironmentKind.NONE,
        replay=DEMO_DATASET / "replies",
        all_attempts=True,
        run="r",
    )
    options = Options(
        dataset="demo",
        split="test",
        out=out,
        cache=cache,
        repos=build_mirrors(cache / "demo-mirrors"),
    )
    assert run_command(config, options, lambda _: None) == 0
    return out / "predictions" / "r"


def judge(folder: Path, resolved: Collection[str], evaluator: str = "docker") -> None:
    """Write a verdict, a report and a test output for every prediction with a patch."""
    store = RunStore.of_folder(folder)
    for prediction in read_predictions(store):
        name = prediction.instance_id
        if not prediction.patch:
            continue
        status = VerdictStatus.RESOLVED if name in resolved else VerdictStatus.UNRESOLVED
        report = {name: {"resolved": name in resolved, "patch_successfully_applied": True}}
        verdict = Verdict(
            name, status, evaluator, log=whole_output(f"PASSED {name}\n"), report=report
        )
        save_verdict(store, prediction, verdict, None)


def whole_output(tests: str) -> str:
    """Return what the script of an instance prints with the output of its tests."""
    return f">>>>> Start Test Output\n{tests}>>>>> End Test Output\n>>>>> Test Exit Code: 0\n"


def judge_others(store: RunStore, status: VerdictStatus = VerdictStatus.RESOLVED) -> None:
    """Write an official verdict for every patch that is not predicted."""
    every = [prediction for found in rounds(read_run(store)) for prediction in found]
    for prediction in every:
        verdict = Verdict(prediction.instance_id, status, "docker", log="said")
        save_verdict(store, prediction, verdict, None)


def write_meta(place: Path, changes: dict[str, Any]) -> Path:
    """Write meta.yaml and its logo; a change to None removes a key."""
    place.mkdir(exist_ok=True)
    (place / "picture.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    values = {key: value for key, value in {**META, **changes}.items() if value is not None}
    path = place / "meta.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def change_json(path: Path, change: Any) -> None:
    """Apply ``change`` to the content of a JSON file."""
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
