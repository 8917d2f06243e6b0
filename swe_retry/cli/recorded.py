"""The settings of a run that is continued, from its ``run.json``."""

from __future__ import annotations

from pathlib import Path

from swe_retry.core.address import HIDDEN_USER
from swe_retry.core.errors import UserError
from swe_retry.core.settings import Section
from swe_retry.core.sources import Layer, SourcedValue, of_mapping
from swe_retry.record.keys import RUN_FILE
from swe_retry.record.store import RunStore
from swe_retry.record.versions import HARNESS_VERSION, TOP


def recorded_settings(
    root: type[Section],
    run: str,
    chosen: Layer,
) -> tuple[Layer, Layer]:
    """Return the settings that a run records, and those of its place, which precede all others.

    Args:
        root: of the settings.
        run: name or folder of the run.
        chosen: what the command line and files give.

    Raises:
        UserError: the run has no settings, or another version started it.
    """
    where = f"--continue {run}"
    if not run:
        raise UserError("--continue is empty; give the name or the folder of a run")
    out = TOP
    if "folders.out" in chosen:
        out = Path(chosen["folders.out"].value)
    store = RunStore.of_folder(RunStore.find(run, out).folder)
    description = store.read_run()
    version = description.versions.get("harness")
    if description.is_ours and version != HARNESS_VERSION:
        raise UserError(
            f"{where}: version {version} of the harness started it, and this is "
            f"{HARNESS_VERSION}; continue it with that version, or start another --run"
        )
    if not description.has("settings"):
        raise UserError(
            f"{where}: {store.folder / RUN_FILE} records no settings; repeat the command that "
            "started the run"
        )
    recorded = of_mapping(root, description.settings, where)
    address = recorded.get("calls.api_base")
    if address and HIDDEN_USER in address.value and "calls.api_base" not in chosen:
        raise UserError(
            f"{where}: user, password and query of --api-base {address.value} are not recorded; "
            "give --api-base again"
        )
    place = {
        "folders.run": SourcedValue("--continue", store.folder.name),
        "folders.out": SourcedValue("--continue", str(store.out)),
    }
    return recorded, place
