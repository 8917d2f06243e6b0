"""What predictions of any layout say: their status, and which runs have a plausible one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.attempts.candidates import PLAUSIBLE, Candidate
from bench.repos.patches import submittable_patch
from runs.progress.overview import recorded_status
from runs.progress.statuses import InstanceStatus
from runs.storage.store import RunStore


def plausible_instances(runs: Iterable[Path]) -> frozenset[str]:
    """Return the ids of the instances that one of ``runs`` has a plausible patch for."""
    found = set()
    for folder in runs:
        store = RunStore.of_folder(folder)
        for path in store.prediction_paths():
            prediction = store.read_prediction(path)
            if is_plausible(prediction):
                found.add(str(prediction["instance_id"]))
    return frozenset(found)


def status_of(prediction: Mapping[str, Any]) -> str:
    """Return a prediction's status; files of other harnesses have none."""
    if "status" in prediction:
        return recorded_status(prediction)
    if is_plausible(prediction):
        return InstanceStatus.PLAUSIBLE.value
    patched = (prediction.get("model_patch") or "").strip()
    return InstanceStatus.FALLBACK.value if patched else InstanceStatus.EMPTY.value


def is_plausible(prediction: Mapping[str, Any]) -> bool:
    """Return whether a recorded prediction is plausible: by its status, else by its outcomes.

    Files without a status come from another harness, to which an unknown outcome was a failed one.
    """
    if "status" in prediction:
        return str(prediction["status"]) in PLAUSIBLE
    edit, lint, test = (
        prediction.get(f"{name}_outcome") is True for name in ("edit", "lint", "test")
    )
    patch = submittable_patch(prediction.get("model_patch") or "").patch
    return Candidate(1, patch, True, edit, lint, test).plausible
