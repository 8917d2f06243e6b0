"""The runs that a command line names: their stores, and what their records say."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.errors import UserError
from core.plaintext import Say
from runs.storage.store import RunStore


def say_aside(line: str) -> None:
    """Print a line about the progress, which does not belong to the result."""
    print(line, file=sys.stderr, flush=True)


def stores_of(runs: Sequence[Path]) -> list[RunStore]:
    """Return the stores of runs in our layout; a UserError if one is given twice."""
    stores = [RunStore.of_folder(run) for run in runs]
    folders = {store.folder for store in stores}
    if len(folders) < len(stores):
        raise UserError("a run is given twice; name each once")
    return stores


def import_foreign(runs: Sequence[Path], out: Path, say: Say) -> list[Path]:
    """Return the runs in our layout; those of other harnesses are imported below ``out``."""
    # What recognises a run is small; the import needs most of the harness.
    from reports.foreign.recognise import is_foreign

    foreign = [run for run in runs if is_foreign(run)]
    folders = []
    for run in runs:
        if run in foreign:
            from reports.foreign.importing import import_run

            run = import_run(run, out, say).folder
        folders.append(run)
    return folders


def recorded_values(run: Path) -> dict[str, Any]:
    """Return the folders and the room for images that a run recorded, as option values."""
    if not run.expanduser().is_dir():
        return {}
    store = RunStore.of_folder(run)
    disk = store.recorded_setting("images.disk")
    values = {
        "image_disk": disk and str(disk),
        "image_prefix": store.recorded_setting("images.mirrors"),
    }
    for name in ("cache", "repos"):
        folder = store.recorded_setting(f"folders.{name}")
        if isinstance(folder, str) and Path(folder).is_dir():
            values[name] = Path(folder)
    return values
