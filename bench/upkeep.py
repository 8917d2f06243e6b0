"""What ``harness.py`` does with a run but to work on it: tells how it stands, and cleans up."""

from __future__ import annotations

import json
from pathlib import Path

from agent.errors import UserError
from bench.assembly import Options, Say
from bench.config import EnvironmentKind, RunConfig
from bench.ledger import by_instance, read_lines
from bench.leftovers import clean_run
from bench.nodes import sweep_here
from bench.overview import overview
from bench.runlock import run_lock
from bench.standing import lines
from bench.store import RunStore


def status_command(config: RunConfig, options: Options, say: Say) -> int:
    """Print the table of a run, without starting anything.

    Raises:
        UserError: there is no such run.
    """
    store = RunStore(options.out, config.run_name)
    seen = overview(store, by_instance(read_lines(store.ledger)))
    for line in [json.dumps(seen.as_json())] if options.as_json else lines(seen):
        say(line)
    return 0


def clean_command(config: RunConfig, options: Options, say: Say) -> int:
    """Remove what a killed process of a run left, and only that.

    Raises:
        UserError: there is no such run, or a process works on it.
    """
    store = RunStore(options.out, config.run_name)
    if not store.folder.is_dir():
        raise UserError(f"there is no run {store.folder}; check --run and --out")
    with run_lock(store.folder):
        found = clean(store, options.cache, EnvironmentKind.DOCKER)
    for thing in found or ["nothing: no process of this run left anything"]:
        say(f"removed {thing}")
    return 0


def clean(store: RunStore, cache: Path, environment: EnvironmentKind) -> list[str]:
    """Remove what a killed process of the run left, and dead Ray workers on this machine."""
    containers = environment is EnvironmentKind.DOCKER
    return clean_run(store, cache, environment) + sweep_here(cache, containers=containers)
