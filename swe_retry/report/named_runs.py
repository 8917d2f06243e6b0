"""The runs that a command line names: their stores, and what their records say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from swe_retry.core.errors import DamagedFileError, UserError
from swe_retry.core.plaintext import Say
from swe_retry.core.sources import Layer, SourcedValue
from swe_retry.record.keys import RUN_FILE
from swe_retry.record.store import RunStore

# Settings that a run records, and the options of version 0.12 that they were.
_RECORDED = {
    "folders.cache": "cache",
    "folders.repos": "repos",
    "images.disk": "image-disk",
    "images.mirrors": "image-prefix",
}


def stores_of(runs: Sequence[Path]) -> list[RunStore]:
    """Return the stores of runs in our layout; a UserError if one is given twice."""
    stores = {}
    for run in runs:
        store = RunStore.of_folder(run)
        if store.folder in stores:
            raise UserError("a run is given twice; name each once")
        stores[store.folder] = store
    return list(stores.values())


def import_foreign(runs: Sequence[Path], out: Path, say: Say) -> list[Path]:
    """Return the runs in our layout; those of other harnesses are imported below ``out``."""
    # What recognises a run is small; the import needs most of the harness.
    from swe_retry.foreign.recognise import is_foreign

    # All are recognised before one is imported, which takes time.
    foreign = list(filter(is_foreign, runs))
    folders = []
    for run in runs:
        folder = run
        if run in foreign:
            from swe_retry.foreign.convert import import_run

            folder = import_run(run, out, say).folder
        folders.append(folder)
    return folders


def link_run(folder: Path, out: Path) -> Path:
    """Return a run below ``out`` of links to the files of ``folder``, which nothing is written to.

    What a report writes takes the place of links, and stays when the run is linked again.
    """
    source = RunStore.of_folder(folder)
    target = RunStore(out, source.run)
    files = [path for path in source.folder.rglob("*") if path.is_file()]
    if target.folder == source.folder or not files:
        return folder
    if not all(path.is_symlink() for path in target.prediction_paths()):
        raise UserError(
            f"--out {out}: {target.folder} is another run; give another folder"
        )
    for path in files:
        link = target.folder / path.relative_to(source.folder)
        if not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(path)
    return target.folder


def runs_and_filters(arguments: Sequence[Path]) -> tuple[list[Path], str]:
    """Return the runs among the arguments beside ``--settings``, and the words to filter by."""
    runs = []
    filters = []
    for path in arguments:
        # A word may be the name of some folder here.
        if len(path.parts) > 1 or (path / RUN_FILE).exists():
            runs.append(path)
        else:
            filters.append(str(path))
    return runs, " ".join(filters)


def recorded_layer(runs: Sequence[Path]) -> Layer:
    """Return what the first run records of what its report needs: folders that exist, images."""
    if not runs or not runs[0].expanduser().is_dir():
        return {}
    store = RunStore.of_folder(runs[0])
    try:
        described = store.read_run()
    except DamagedFileError:  # reported where the file is needed
        return {}
    layer = {}
    for name, option in _RECORDED.items():
        value = described.setting(name) or described.options.get(option)
        is_gone = name.startswith("folders.") and not Path(str(value)).is_dir()
        if value and not is_gone:
            layer[name] = SourcedValue(f"{store.run_file}: {name}", value)
    return layer
