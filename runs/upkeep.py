"""What every command on a run needs: hold it, print its status, and clean up after it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from core.errors import UserError
from runs.calls.damage import damaged_lines
from runs.calls.ledger import by_instance, read_ledger
from runs.engines.ray.nodes import clean
from runs.progress.overview import StatusOf, overview, recorded_status
from runs.progress.run_status import lines
from runs.storage.runlock import run_lock
from runs.storage.store import RunStore

Say = Callable[[str], None]


@contextmanager
def held_run(store: RunStore, cache: Path, say: Say, *, containers: bool) -> Iterator[None]:
    """Hold a run's lock; what a killed process of it left is removed first.

    Raises:
        UserError: another process works on the run.
    """
    with run_lock(store.folder) as died:
        if died is not None:
            say(f"{died} did not end this run by itself: continuing from what it left")
        for thing in clean(store, cache, containers=containers):
            say(f"removed {thing}")
        yield


def status_command(
    store: RunStore, say: Say, status_of: StatusOf = recorded_status, *, as_json: bool = False
) -> int:
    """Print the table of a run, without starting anything; return 1 when a file is broken.

    Raises:
        UserError: there is no such run.
    """
    dollars = by_instance(read_ledger(store.checked().ledger).whole)
    seen = overview(store, dollars, damaged_lines(store), status_of)
    for line in [json.dumps(seen.as_json())] if as_json else lines(seen):
        say(line)
    return int(bool(seen.broken))


def clean_command(
    store: RunStore, cache: Path, say: Say, *, everything: bool = False, yes: bool = False
) -> int:
    """Remove what a killed process of a run left, or the whole run.

    Args:
        store: the run's files.
        cache: the folder that runs share.
        say: takes a line for each thing that is removed.
        everything: remove predictions and logs as well.
        yes: do not ask first.

    Raises:
        UserError: there is no such run, a process works on it, or no terminal can ask the user.
    """
    places = [place for place in (store.folder, store.logs) if place.is_dir()]
    if not places:
        raise UserError(f"there is no run {store.folder}; check --run and --out")
    if not everything and store.folder not in places:
        raise UserError(
            f"there is no run {store.folder}, but {store.logs} is left of it; --clean --all "
            "removes it"
        )
    if everything and not (yes or _confirmed(places)):
        say("nothing was removed")
        return 0
    with run_lock(store.folder):
        found = clean(store, cache, containers=True)
        if everything:
            for place in (store.folder, store.logs):
                if place.is_dir():
                    shutil.rmtree(place)
            found += map(str, places)
    for thing in found or ["nothing: no process of this run left anything"]:
        say(f"removed {thing}")
    return 0


def _confirmed(places: Sequence[Path]) -> bool:
    what = " and ".join(map(str, places))
    if not sys.stdin.isatty():
        raise UserError(f"--clean --all removes {what}: give --yes to confirm")
    return typer.confirm(f"Remove {what}?")
