"""Recognise whose run a path holds, by its layout, and read it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from core.errors import DamagedFileError, UserError
from reports.data.predictions import ALL_PREDS
from reports.data.rundata import InstanceData, read_instance, read_instances, read_run
from reports.foreign.files import RunFiles, json_at, objects_of_lines, value_at
from reports.foreign.model import AnyRun, RunLayout
from reports.foreign.readers import atif, mini, predictions
from runs.description import Run
from runs.keys import RESULTS_FILE, RUN_FILE, STATS_FILE
from runs.storage.store import RunStore

_READERS = {
    RunLayout.ATIF: atif.read_atif,
    RunLayout.MINI: mini.read_mini,
    RunLayout.PREDICTIONS: predictions.read_predictions_alone,
}
# What recognises a layout by the content of a file, in this order.
_RECOGNISERS = {
    RunLayout.ATIF: atif.is_atif,
    RunLayout.MINI: mini.is_mini,
    RunLayout.PREDICTIONS: predictions.are_predictions,
}
# Files of which one shows the layout of a folder; a folder of many JSON files is read only so far.
_MAX_READ = 20


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
    if not labels:
        layout = _by_name(files)
        if layout:
            return layout
    if _is_ours(path):
        return RunLayout.OURS
    return _of_folder(files)


def _is_ours(folder: Path) -> bool:
    """Return whether a folder has predictions in our layout, which older runs have alone."""
    others = (predictions.PREDS, RESULTS_FILE, STATS_FILE)
    paths = sorted(folder.glob("*.json"))
    for path in paths[:_MAX_READ]:
        if path.name in others or path.name.endswith(mini.ENDING):
            continue
        with suppress(DamagedFileError):
            value = json_at(path)
            same_id = value_at(value, "instance_id") == path.stem
            return same_id and predictions.is_prediction(value)
    return False


def _by_name(files: RunFiles) -> RunLayout | None:
    if files.ending(mini.ENDING):
        return RunLayout.MINI
    if predictions.prediction_files(files):
        return RunLayout.PREDICTIONS
    return None


def _of_folder(files: RunFiles) -> RunLayout | None:
    layout = _by_name(files)
    if layout is RunLayout.MINI:
        return layout
    paths = files.ending(".json")
    for path in paths[:_MAX_READ]:
        with suppress(DamagedFileError):
            if atif.is_atif(json_at(path)):
                return RunLayout.ATIF
    return layout


def _of_content(path: Path) -> RunLayout | None:
    value: object = None
    if path.suffix == ".json":
        value = json_at(path)
    elif path.suffix == ".jsonl":
        _, value = next(objects_of_lines(path), (0, None))
    for layout, recognise in _RECOGNISERS.items():
        if recognise(value):
            return layout
    return None


def is_foreign(path: Path) -> bool:
    path = path.expanduser()
    if not path.exists():
        return False
    layout = layout_of(path)
    # A folder without any file may be a run of ours that has just started.
    if layout is None and RunFiles.below(path).paths:
        raise _unreadable(path)
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
        raise _unreadable(path)
    files = RunFiles.below(path, labels=labels)
    name = path.name
    if not path.is_dir():
        name = name.partition(".")[0]
    instances = _READERS[layout](files)
    return AnyRun(name, path, layout, instances)


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
    return AnyRun(
        name=store.run,
        path=store.folder,
        layout=RunLayout.OURS,
        instances=(_with_attempts(store, instance, models) for instance in instances),
        agent=agent,
    )


def _with_attempts(
    store: RunStore,
    instance: InstanceData,
    models: Sequence[str],
) -> InstanceData:
    """Return an instance with the conversations of its attempts."""
    path = store.prediction(instance.instance_id)
    attempts = read_instance(store, path, models).attempts
    # What counts is the verdict, which an export has no other place for.
    resolved = None
    if instance.patch.strip():
        resolved = instance.resolved
    return instance.but(attempts=attempts, resolved_said=resolved)


def _unreadable(path: Path) -> UserError:
    return UserError(
        f"{path} is not a run that can be read; give a run of this harness, predictions "
        f"({predictions.PREDS}, {ALL_PREDS}), trajectories of mini-swe-agent (*{mini.ENDING}) or "
        "of ATIF (*.json)"
    )
