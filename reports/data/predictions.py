"""The predictions of a run: read from its folder, written for the evaluator."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.atomic import write_text_atomic
from core.errors import UserError
from core.parsing.untrusted import damage_at
from runs.patches import SubmittablePatch, submittable_patch
from runs.records import InstanceResult
from runs.storage.store import RunStore

ALL_PREDS = "all_preds.jsonl"
IMPORTED = "imported"
"""The key of runs and predictions that another harness made (``reports/foreign``)."""


@dataclass(frozen=True)
class Prediction:
    """One instance's prediction."""

    instance_id: str
    model_name_or_path: str
    patch: str  # the submittable patch; empty if nothing was generated
    dropped: tuple[str, ...]  # excluded files of the raw patch
    plausible: bool
    # The verdict in the prediction file itself, which the older layout has.
    resolved: bool | None = None
    # False for the patch of an attempt that is evaluated without being predicted.
    chosen: bool = True
    edits_test_configuration: bool = False
    patch_known: bool = True  # False if the files of another harness hold no patch

    @property
    def patch_sha256(self) -> str:
        return hashlib.sha256(self.patch.encode("utf-8", "surrogatepass")).hexdigest()


def read_predictions(store: RunStore) -> tuple[Prediction, ...]:
    """Return all predictions of a run, sorted by id."""
    found = []
    for path in store.prediction_paths():
        data = store.raw_prediction(path)
        if "model_patch" not in data:
            words = "is not a prediction: it lacks `model_patch`"
            raise damage_at(
                path, (), words, "fix it, or delete it and redo the instance"
            )
        fit, resolved = predicted_patch(data), data.get("resolved")
        one = Prediction(
            instance_id=str(data["instance_id"]),
            model_name_or_path=str(data.get("model_name_or_path") or store.run),
            patch=fit.patch,
            dropped=fit.dropped,
            plausible=InstanceResult.of_prediction(data).plausible,
            resolved=resolved if isinstance(resolved, bool) else None,
            edits_test_configuration=data.get("edits_test_configuration") is True,
            patch_known=data.get("patch_known") is not False,
        )
        found.append(one)
    if not found:
        raise UserError(f"{store.folder} has no predictions; run harness.py first")
    files = {
        one.model_name_or_path: store.prediction(one.instance_id).name for one in found
    }
    if len(files) > 1:
        which = ", ".join(f"{name} ({files[name]})" for name in sorted(files))
        raise UserError(f"{store.folder} has predictions of several models: {which}")
    return tuple(found)


def predicted_patch(data: Mapping[str, Any]) -> SubmittablePatch:
    """Return what an evaluator gets; of another harness's patch nothing is excluded."""
    patch = data.get("model_patch") or ""
    return (
        SubmittablePatch(patch)
        if data.get(IMPORTED) is True
        else submittable_patch(patch)
    )


def other_patch(instance_id: str, model_name_or_path: str, patch: str) -> Prediction:
    """Return the submittable patch of an attempt that is not predicted, for an evaluator."""
    return Prediction(
        instance_id, model_name_or_path, patch, (), False, None, chosen=False
    )


def all_preds(
    predictions: Sequence[Prediction], official: Mapping[str, str] | None = None
) -> str:
    """Return ``all_preds.jsonl``; ``official`` has the set's own ids where they differ."""
    names = official or {}
    lines = [
        json.dumps(
            {
                "instance_id": names.get(
                    prediction.instance_id, prediction.instance_id
                ),
                "model_name_or_path": prediction.model_name_or_path,
                "model_patch": prediction.patch,
            }
        )
        for prediction in sorted(predictions, key=lambda p: p.instance_id)
        if prediction.patch_known
    ]
    return "\n".join(lines) + "\n"


def write_all_preds(
    store: RunStore,
    predictions: Sequence[Prediction],
    official: Mapping[str, str] | None = None,
) -> Path:
    """Write ``all_preds.jsonl`` with the ``official`` ids and return its path."""
    path = store.folder / ALL_PREDS
    write_text_atomic(path, all_preds(predictions, official))
    return path


def run_id(store: RunStore, predictions: Sequence[Prediction]) -> str:
    """Return the id of an evaluation of ``predictions``.

    It depends on the patches, because swebench caches verdicts by id and never compares patches. It
    depends on the folder, because runs of one name must not share containers on one engine. Names
    of containers allow fewer characters than names of runs, such as the ``+`` of combined runs.
    """
    patches = [[p.instance_id, p.patch_sha256] for p in predictions]
    text = json.dumps([str(store.folder.resolve()), patches])
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", store.run)
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
