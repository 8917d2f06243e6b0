"""Runs of the demo's instances with patches to evaluate."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.instances.dataset import load_dataset
from bench.instances.instance import split_row
from environments.docker.engine import engine_answers
from reports.cli.options import ReportOptions
from reports.data.predictions import Prediction
from reports.evaluation.evaluators.base import EvaluationTask
from runs.storage.store import RunStore

needs_engine = pytest.mark.skipif(not engine_answers(), reason="no Docker engine answers")
BANK, TEXTKIT, UNITS = "demo__bank-1", "demo__textkit-1", "demo__units-1"
WRONG = (
    "diff --git a/textkit/slug.py b/textkit/slug.py\n--- a/textkit/slug.py\n+++ b/textkit/slug.py\n"
    '@@ -1,4 +1,4 @@\n-"""Names for addresses."""\n+"""Names."""\n \n \n def slugify(text):\n'
)
HIDDEN = "tests/test_slug.py::test_runs_become_one_dash"
# Printed when pytest has ended, where swebench's parsers read results.
FORGED = WRONG.replace("+1,4 @@", "+1,6 @@").replace(
    '+"""Names."""\n',
    f'+"""Names."""\n+import atexit\n+atexit.register(print, "\\nPASSED {HIDDEN}")\n',
)
Say = Callable[[str], None]


def rows() -> dict[str, Mapping[str, Any]]:
    return {r["instance_id"]: r for r in load_dataset("demo", "test").rows}


def make_run(out: Path, patches: Mapping[str, str]) -> RunStore:
    folder = out / "predictions" / "r"
    folder.mkdir(parents=True, exist_ok=True)
    dataset = {"name": "demo", "split": "test"}
    run = {"dataset": dataset, "selected": sorted(patches)}
    (folder / "run.json").write_text(json.dumps(run))
    for name, patch in patches.items():
        content = {"instance_id": name, "model_name_or_path": "me/too", "model_patch": patch}
        (folder / f"{name}.json").write_text(json.dumps(content))
    return RunStore.of_folder(folder)


def options(cache: Path, kind: str, **changes: Any) -> ReportOptions:
    values: dict[str, Any] = {
        "evaluator": kind, "dataset": "", "split": "", "workers": 2, "timeout": 120.0,
        "cache": cache, "repos": None,
        # Drawing takes seconds; a test of pages asks for them.
        "page": False,
    }  # fmt: skip
    return ReportOptions(**{**values, **changes})


def on_disk(store: RunStore, name: str) -> Any:
    return json.loads(store.verdict(name).read_text())


def task(name: str, patch: str = WRONG, **changes: Any) -> EvaluationTask:
    prediction = Prediction(name, "me/too", patch, (), False, None)
    return EvaluationTask(prediction, *split_row({**rows()[name], **changes}))
