"""The commands ``status`` and ``clean`` of ``harness.py``, which look after a run that exists."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.cli import JsonFormat, OutOption
from runs.settings import TOP, default_cache
from runs.storage.store import RunStore
from runs.upkeep import clean_command, status_command

RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run, by its name or its folder.")
]


def status(
    run: RunName,
    out: OutOption = TOP,
    format: JsonFormat = "text",
) -> int:
    """Print how far a run is; start nothing."""
    from bench.attempts import RESULTS

    store = RunStore.find(run, out)
    return status_command(store, print, RESULTS, as_json=format == "json")


def clean(
    run: RunName,
    out: OutOption = TOP,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Remove the run, its predictions and logs too."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> int:
    """Remove what a killed process of a run left: processes, containers, folders."""
    store = RunStore.find(run, out)
    cache = store.recorded_setting("folders.cache")
    return clean_command(
        store,
        Path(cache) if cache else default_cache(),
        print,
        everything=everything,
        yes=yes,
    )
