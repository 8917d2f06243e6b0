"""Recognise whose run a path holds, by its layout, and read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.errors import DamagedFileError, UserError
from reports.data.jsonvalues import mapping
from reports.data.predictions import ALL_PREDS
from reports.data.rundata import InstanceData, read_instance, read_instances, read_run
from reports.foreign.files import RunFiles, json_at, objects_of_lines
from reports.foreign.model import AnyRun, RunLayout
from reports.foreign.readers import atif, mini, predictions
from runs.description import Run
from runs.keys import RESULTS_FILE, RUN_FILE, STATS_FILE
from runs.storage.store import RunStore

ReadRun = Callable[[RunFiles], Iterator[InstanceData]]
# Each layout with its reader and what recognises the content of a file, in this order.
_LAYOUTS: tuple[tuple[RunLayout, ReadRun, Callable[[object], bool]], ...] = (
    (RunLayout.ATIF, atif.read_atif, atif.is_atif),
    (RunLayout.MINI, mini.read_mini, mini.is_mini),
    (
        RunLayout.PREDICTIONS,
        predictions.read_predictions_alone,
        predictions.are_predictions,
    ),
)
_JSON = (".json", ".jsonl")
# Files of which one shows the layout of a folder; a folder of many JSON files is read only so far.
_LOOKED_AT = 20


def layout_of(path: Path, *, labels: bool = True) -> RunLayout | None:
    """Return the layout of a run; without ``labels`` predictions are known by their name alone."""
    if not path.exists():
        raise UserError(
            f"there is no run {path}; give a folder under predictions/, or another run"
        )
    if path.is_file():
        return _of_content(path)
    files = RunFiles.below(path, labels=labels)
    if (path / RUN_FILE).is_file():
        return RunLayout.OURS
    if not labels and (found := _by_name(files)):
        return found
    return RunLayout.OURS if _is_ours(path) else _of_folder(files)


def _is_ours(folder: Path) -> bool:
    """Return whether a folder has predictions in our layout, which older runs have alone."""
    others = (predictions.PREDS, RESULTS_FILE, STATS_FILE)
    for path in sorted(folder.glob("*.json"))[:_LOOKED_AT]:
        if path.name not in others and not path.name.endswith(mini.ENDING):
            with suppress(DamagedFileError):
                found = mapping(json_at(path))
                return found.get(
                    "instance_id"
                ) == path.stem and predictions.is_prediction(found)
    return False


def _by_name(files: RunFiles) -> RunLayout | None:
    if files.ending(mini.ENDING):
        return RunLayout.MINI
    return RunLayout.PREDICTIONS if files.named(predictions.PREDS, ALL_PREDS) else None


def _of_folder(files: RunFiles) -> RunLayout | None:
    found = _by_name(files)
    if found is RunLayout.MINI:
        return found
    for path in files.ending(".json")[:_LOOKED_AT]:
        with suppress(DamagedFileError):
            if atif.is_atif(json_at(path)):
                return RunLayout.ATIF
    return found


def _of_content(path: Path) -> RunLayout | None:
    if path.suffix not in _JSON:
        return None
    value: Any = None
    if path.suffix == ".jsonl":
        value = next((line for _, line in objects_of_lines(path)), None)
    else:
        value = json_at(path)
    return next((layout for layout, _, fits in _LAYOUTS if fits(value)), None)


def is_foreign(path: Path) -> bool:
    path = path.expanduser()
    if not path.exists():
        return False
    layout = layout_of(path)
    # A folder without any file may be a run of ours that has just started.
    if layout is None and RunFiles.below(path).paths:
        raise UserError(unknown(path))
    return layout not in (None, RunLayout.OURS)


def read_any(path: Path, *, labels: bool = True) -> AnyRun:
    """Return the run at ``path``, of any layout; its instances are read when they are needed.

    Without ``labels`` no file of verdicts is opened.
    """
    path = path.expanduser().resolve()
    layout = layout_of(path, labels=labels)
    if layout is RunLayout.OURS:
        return _ours(RunStore.of_folder(path), labels=labels)
    if layout is None:
        raise UserError(unknown(path))
    files = RunFiles.below(path, labels=labels)
    name = path.name if path.is_dir() else path.name.partition(".")[0]
    read = next(read for one, read, _ in _LAYOUTS if one is layout)
    return AnyRun(name, path, layout, read(files))


def _ours(store: RunStore, *, labels: bool) -> AnyRun:
    described = store.read_run() or Run()
    imported = described.imported or {}
    agent = str(imported.get("agent") or imported.get("layout") or "")
    if not agent:
        version = described.versions.get("harness") or ""
        agent = f"{RunLayout.OURS.value} {version}".strip()
    models, instances = read_instances(store)
    if labels:
        instances = read_run(store).instances
    whole = (_with_conversations(store, one, models) for one in instances)
    return AnyRun(store.run, store.folder, RunLayout.OURS, whole, agent)


def _with_conversations(
    store: RunStore, instance: InstanceData, models: Sequence[str]
) -> InstanceData:
    whole = read_instance(store, store.prediction(instance.instance_id), models)
    # What counts is the verdict, which an export has no other place for.
    resolved = instance.resolved if instance.patch.strip() else None
    return instance.but(attempts=whole.attempts, resolved_said=resolved)


def unknown(path: Path) -> str:
    return (
        f"{path} is not a run that can be read; give a run of this harness, predictions "
        f"({predictions.PREDS}, {ALL_PREDS}), trajectories of mini-swe-agent (*{mini.ENDING}) or "
        "of ATIF (*.json)"
    )
