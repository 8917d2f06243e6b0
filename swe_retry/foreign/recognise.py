"""Recognise whose run a path holds, by its layout, and read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from swe_retry.core.errors import DamagedFileError, UserError
from swe_retry.foreign.atif import is_atif, read_atif
from swe_retry.foreign.files import (
    files_below,
    files_ending,
    json_of_file,
    objects_of_lines,
)
from swe_retry.foreign.mini import ENDING, is_mini, read_mini
from swe_retry.foreign.predictions import (
    PREDS,
    are_predictions,
    is_prediction,
    predictions_file,
    read_predictions,
    verdicts_beside,
)
from swe_retry.record.keys import RESULTS_FILE, RUN_FILE, STATS_FILE
from swe_retry.record.store import RunStore
from swe_retry.results.predictions import ALL_PREDS
from swe_retry.results.read import read_instance, read_instances, read_run
from swe_retry.results.rundata import InstanceData


class RunLayout(StrEnum):
    """The layouts that can be read, by their names for the user."""

    OURS = "swe-retry-harness"
    MINI = "mini-swe-agent"
    PREDICTIONS = "predictions"
    ATIF = "ATIF"


@dataclass(frozen=True)
class AnyRun:
    """A run of any harness in the models of our records; what its files do not say is unknown."""

    name: str  # of its folder or file
    layout: RunLayout
    # Read when they are iterated over; they may not fit into memory together.
    instances: Iterator[InstanceData]
    agent: str = ""  # its name and version, where they are known


_READERS = {
    RunLayout.ATIF: read_atif,
    RunLayout.MINI: read_mini,
    RunLayout.PREDICTIONS: read_predictions,
}
_NOT_PREDICTIONS = (PREDS, RESULTS_FILE, STATS_FILE)
# Files of which one shows the layout of a folder; a folder of many JSON files is read only so far.
_MAX_READ = 20


def is_foreign(path: Path) -> bool:
    path = path.expanduser()
    if not path.exists():
        return False
    files = files_below(path)
    layout = _layout_of(path, files)
    # A folder without any file may be a run of ours that has just started.
    if layout is None and files:
        raise _unreadable(path)
    return layout not in (None, RunLayout.OURS)


def read_any(path: Path, *, labels: bool = True) -> AnyRun:
    """Return the run at ``path``, of any layout; its instances are read when they are needed.

    Without ``labels`` no file of verdicts is opened.
    """
    path = path.expanduser().resolve()
    if not path.exists():
        raise UserError(
            f"there is no run {path}; give a folder under predictions/, or another run"
        )
    files = files_below(path)
    layout = _layout_of(path, files, labels=labels)
    if layout is None:
        raise _unreadable(path)
    if layout is RunLayout.OURS:
        return _our_run(RunStore.of_folder(path), labels=labels)
    instances = _READERS[layout](path, files)
    if labels and layout is not RunLayout.ATIF:
        instances = _with_verdicts(instances, path, files)
    name = path.name
    if path.is_file():
        name = name.partition(".")[0]
    return AnyRun(name, layout, instances)


def _layout_of(
    path: Path,
    files: Sequence[Path],
    *,
    labels: bool = True,
) -> RunLayout | None:
    """Return the layout of a run; without ``labels`` predictions are known by their name alone."""
    if path.is_file():
        return _layout_of_file(path)
    if (path / RUN_FILE).is_file():
        return RunLayout.OURS
    layout = None
    if files_ending(files, ENDING):
        layout = RunLayout.MINI
    elif predictions_file(files):
        layout = RunLayout.PREDICTIONS
    if layout and not labels:
        return layout
    if _has_our_predictions(path):
        return RunLayout.OURS
    if layout is not RunLayout.MINI and _has_atif(files):
        return RunLayout.ATIF
    return layout


def _layout_of_file(path: Path) -> RunLayout | None:
    value = None
    if path.suffix == ".json":
        value = json_of_file(path)
    elif path.suffix == ".jsonl":
        _, value = next(objects_of_lines(path), (0, None))
    if is_atif(value):
        return RunLayout.ATIF
    if is_mini(value):
        return RunLayout.MINI
    if are_predictions(value):
        return RunLayout.PREDICTIONS
    return None


def _has_our_predictions(folder: Path) -> bool:
    """Return whether a folder has predictions in our layout, which older runs have alone."""
    for path in sorted(folder.glob("*.json"))[:_MAX_READ]:
        if path.name in _NOT_PREDICTIONS or path.name.endswith(ENDING):
            continue
        with suppress(DamagedFileError):
            value = json_of_file(path)
            return is_prediction(value) and value.get("instance_id") == path.stem
    return False


def _has_atif(files: Sequence[Path]) -> bool:
    paths = files_ending(files, ".json")
    for path in paths[:_MAX_READ]:
        with suppress(DamagedFileError):
            if is_atif(json_of_file(path)):
                return True
    return False


def _with_verdicts(
    instances: Iterator[InstanceData],
    path: Path,
    files: Sequence[Path],
) -> Iterator[InstanceData]:
    verdicts = verdicts_beside(path, files)
    for instance in instances:
        resolved = verdicts.get(instance.instance_id, instance.resolved_said)
        yield instance.but(resolved_said=resolved)


def _our_run(store: RunStore, *, labels: bool) -> AnyRun:
    described = store.read_run()
    imported = described.imported or {}
    version = described.versions.get("harness") or ""
    agent = (
        imported.get("agent")
        or imported.get("layout")
        or f"{RunLayout.OURS.value} {version}".strip()
    )
    instances = _our_instances(store, labels=labels)
    return AnyRun(store.run, RunLayout.OURS, instances, str(agent))


def _our_instances(store: RunStore, *, labels: bool) -> Iterator[InstanceData]:
    """Yield the instances of a run of ours with the conversations of their attempts."""
    models, instances = read_instances(store)
    if labels:
        instances = read_run(store).instances
    for instance in instances:
        path = store.prediction(instance.instance_id)
        attempts = read_instance(store, path, models).attempts
        # What counts is the verdict, which an export has no other place for.
        resolved = None
        if instance.patch.strip():
            resolved = instance.resolved
        yield instance.but(attempts=attempts, resolved_said=resolved)


def _unreadable(path: Path) -> UserError:
    return UserError(
        f"{path} is not a run that can be read; give a run of this harness, predictions "
        f"({PREDS}, {ALL_PREDS}), trajectories of mini-swe-agent (*{ENDING}) or "
        "of ATIF (*.json)"
    )
