"""Read files of predictions: ``preds.json``, and ``all_preds.jsonl`` as Agentless writes it.

SWE-bench's keys are ``instance_id``, ``model_name_or_path`` and ``model_patch``. A file of
predictions holds no conversation, no tokens and no cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from swe_retry.core.errors import DamagedFileError
from swe_retry.core.jsontypes import JsonObject, object_at, text_at
from swe_retry.foreign.attempts import attempt_of, instance_of
from swe_retry.foreign.files import (
    broken,
    checked_id,
    files_ending,
    json_of_file,
    objects_of_lines,
)
from swe_retry.record.records import Totals
from swe_retry.results.jsonvalues import texts
from swe_retry.results.predictions import ALL_PREDS
from swe_retry.results.rundata import InstanceData

PREDS = "preds.json"
_PATCH = "model_patch"


def is_prediction(value: object) -> bool:
    return _PATCH in object_at(value)


def are_predictions(value: object) -> bool:
    entries = _entries(value).values()
    return bool(entries) and all(map(is_prediction, entries))


def _entries(value: object) -> JsonObject:
    """Return the predictions that a JSON value should hold, by their positions in words."""
    if is_prediction(value):
        return {"it": value}
    if isinstance(value, dict):
        return value
    if isinstance(value, list):
        return {f"entry {number}": entry for number, entry in enumerate(value, 1)}
    return {}


def predictions_file(paths: Sequence[Path]) -> Path | None:
    """Return the file of predictions that is nearest to the root."""
    named = [path for path in paths if path.name in (PREDS, ALL_PREDS)]
    return min(named, key=lambda path: (len(path.parts), path), default=None)


def read_predictions_file(path: Path) -> dict[str, InstanceData]:
    """Return predictions by id; the patch is empty for null, as harnesses write it on a crash."""
    instances = {}
    for position, value in _values(path):
        if not is_prediction(value):
            raise broken(path, f"{position}: it lacks `{_PATCH}`")
        name = checked_id(path, value.get("instance_id", position))
        if name in instances:
            raise DamagedFileError(path, f"has two predictions of {name}", "keep one")
        attempt = attempt_of(
            path,
            value[_PATCH],
            Totals(),
            {},
            patch_known=True,
        )
        label = text_at(value, "model_name_or_path")
        instances[name] = instance_of(name, [attempt], {}, label)
    return instances


def _values(path: Path) -> Iterator[tuple[str, Any]]:
    if path.suffix == ".jsonl":
        for number, value in objects_of_lines(path):
            yield f"line {number}", value
        return
    content = json_of_file(path)
    if not isinstance(content, (dict, list)):
        raise broken(path, "line 1: it holds no predictions")
    yield from _entries(content).items()


def read_predictions(root: Path, paths: Sequence[Path]) -> Iterator[InstanceData]:
    path = predictions_file(paths) or root
    yield from read_predictions_file(path).values()


def verdicts_beside(root: Path, paths: Sequence[Path]) -> dict[str, bool]:
    """Return the verdicts in the result files of swebench and sb-cli at the top of a folder.

    Such a file has the lists ``resolved_ids`` and ``unresolved_ids``. Files that disagree give no
    verdict.
    """
    resolved: set[str] = set()
    unresolved: set[str] = set()
    for path in files_ending(paths, ".json"):
        if path.parent != root or path.name == PREDS:
            continue
        value = object_at(json_of_file(path))
        if "resolved_ids" in value:
            resolved.update(texts(value["resolved_ids"]))
            unresolved.update(texts(value.get("unresolved_ids")))
    verdicts = dict.fromkeys(resolved - unresolved, True)
    return verdicts | dict.fromkeys(unresolved - resolved, False)
