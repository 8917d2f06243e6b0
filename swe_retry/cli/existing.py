"""The commands ``status`` and ``clean`` of ``harness.py``, which look after a run that exists."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from swe_retry.core.errors import UserError
from swe_retry.launch.cli import JsonFormat, OutOption
from swe_retry.record.store import RunStore
from swe_retry.record.versions import TOP
from swe_retry.runner.housekeeping import (
    clean_command,
    clean_images_command,
    status_command,
)
from swe_retry.runner.settings import default_cache

_RUN_HELP = "A run, by its name or its folder."
RunName = Annotated[str, typer.Argument(metavar="RUN", help=_RUN_HELP)]


def status(run: RunName, out: OutOption = TOP, format: JsonFormat = "text") -> int:
    """Print how far a run is; start nothing."""
    from swe_retry.attempts.choose import RESULTS

    store = RunStore.find(run, out)
    return status_command(store, print, RESULTS, as_json=format == "json")


def clean(
    run: Annotated[str, typer.Argument(metavar="[RUN]", help=_RUN_HELP)] = "",
    out: OutOption = TOP,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Remove the run, its predictions and logs too."),
    ] = False,
    images: Annotated[
        float | None,
        typer.Option(
            metavar="DAYS",
            min=0,
            help="Remove the images with installed projects that are so old, of all runs.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> int:
    """Remove what a killed process of a run left: processes, containers, folders."""
    if images is not None and not run:
        return clean_images_command(images, print, yes=yes)
    if images is not None or not run:
        raise UserError("give a run, or --images DAYS")
    store = RunStore.find(run, out)
    cache = store.recorded_setting("folders.cache")
    return clean_command(
        store,
        Path(cache) if cache else default_cache(),
        print,
        everything=everything,
        yes=yes,
    )
