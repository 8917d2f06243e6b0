"""Read files of predictions: ``preds.json``, and ``all_preds.jsonl`` as Agentless writes it.

SWE-bench's keys are ``instance_id``, ``model_name_or_path`` and ``model_patch``. A file of
predictions holds no conversation, no tokens and no cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from core.errors import DamagedFileError
from reports.data.jsonvalues import mapping, text, texts
from reports.data.predictions import ALL_PREDS
from reports.data.rundata import InstanceData
from reports.foreign.files import (
    RunFiles,
    broken,
    checked_id,
    json_at,
    objects_of_lines,
    patch_of,
)
from reports.foreign.readers.exported import attempt_of, instance_of
from runs.records import Attempt, Totals

PREDS = "preds.json"
_PATCH = "model_patch"


def is_prediction(value: object) -> bool:
    return isinstance(value, Mapping) and _PATCH in value


def are_predictions(value: object) -> bool:
    if is_prediction(value):
        return True
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return False
    return bool(value) and all(map(is_prediction, value))


def prediction_files(files: RunFiles) -> tuple[Path, ...]:
    """Return the files of predictions, the nearest to the root first."""
    named = files.named(PREDS, ALL_PREDS)
    return tuple(sorted(named, key=lambda path: (len(path.parts), path)))


def read_plain(path: Path) -> dict[str, InstanceData]:
    """Return predictions by id; the patch is empty for null, as harnesses write it on a crash."""
    instances: dict[str, InstanceData] = {}
    for key, value in _values(path):
        if not is_prediction(value):
            raise broken(path, f"{key}: it lacks `{_PATCH}`")
        name = checked_id(path, value.get("instance_id", key))
        if name in instances:
            raise DamagedFileError(path, f"has two predictions of {name}", "keep one")
        patch = patch_of(path, value[_PATCH])
        attempt = Attempt(model_patch=patch or "", totals=Totals())
        instance = instance_of(name, [attempt_of(attempt, {})], {})
        label = text(value.get("model_name_or_path"))
        instances[name] = instance.but(model_name_or_path=label)
    return instances


def _values(path: Path) -> Iterator[tuple[str, Any]]:
    if path.suffix == ".jsonl":
        for number, value in objects_of_lines(path):
            yield f"line {number}", value
        return
    content = json_at(path)
    if is_prediction(content):
        yield "it", content
    elif isinstance(content, dict):
        yield from content.items()
    elif isinstance(content, list):
        for number, value in enumerate(content, 1):
            yield f"entry {number}", value
    else:
        raise broken(path, "line 1: it holds no predictions")


def plain_of(files: RunFiles) -> dict[str, InstanceData]:
    """Return the predictions of a run by id; none without a file of predictions."""
    paths = prediction_files(files)
    if not paths:
        return {}
    return read_plain(paths[0])


def read_predictions_alone(files: RunFiles) -> Iterator[InstanceData]:
    path = files.root
    if not path.is_file():
        path = prediction_files(files)[0]
    resolved = verdicts_beside(files)
    for name, plain in read_plain(path).items():
        yield plain.but(resolved_said=resolved.get(name))


def verdicts_beside(files: RunFiles) -> dict[str, bool]:
    """Return the verdicts in the result files of swebench and sb-cli at the top of a folder.

    Such a file has the lists ``resolved_ids`` and ``unresolved_ids``. Files that disagree give no
    verdict.
    """
    resolved: set[str] = set()
    unresolved: set[str] = set()
    if not files.labels:
        return {}
    for path in files.ending(".json"):
        if path.parent != files.root or path.name == PREDS:
            continue
        value = mapping(json_at(path))
        if "resolved_ids" in value:
            resolved.update(texts(value["resolved_ids"]))
            unresolved.update(texts(value.get("unresolved_ids")))
    verdicts = dict.fromkeys(resolved - unresolved, True)
    return verdicts | dict.fromkeys(unresolved - resolved, False)
