"""Hold a run, print its status, and clean up after it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import typer

from swe_retry.core.errors import UserError
from swe_retry.core.money import as_text, in_words
from swe_retry.core.plaintext import Say
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.leftovers import installed_images, remove_images
from swe_retry.record.runlock import run_lock
from swe_retry.record.store import RunStore
from swe_retry.runner.calls.ledger import (
    by_instance,
    damaged_lines,
    read_ledger,
    unsure,
)
from swe_retry.runner.leftovers import clean
from swe_retry.runner.progress.overview import lines, overview


@contextmanager
def held_run(
    store: RunStore,
    cache: Path,
    say: Say,
    *,
    containers: bool,
) -> Iterator[None]:
    """Hold a run's lock; what a killed process of it left is removed first."""
    with run_lock(store.folder) as died:
        if died is not None:
            say(f"{died} did not end this run by itself: continuing from what it left")
        for thing in clean(store, cache, containers=containers):
            say(f"removed {thing}")
        yield


def status_command(
    store: RunStore,
    say: Say,
    statuses: Sequence[str] = (),
    *,
    as_json: bool = False,
) -> int:
    """Print the table of a run, without starting anything; return 1 when a file is broken."""
    ledger = read_ledger(store.check().ledger).values
    dollars = by_instance(ledger)
    seen = overview(store, dollars, damaged_lines(store), statuses)
    besides = unsure(ledger)
    content = {**seen.as_json(), "dollars_unsure": as_text(besides)}
    for line in [json.dumps(content)] if as_json else lines(seen):
        say(line)
    if besides != 0 and not as_json:
        say(f"calls that were lost or broke off: at most {in_words(besides)}")
    return int(bool(seen.broken))


def connect_engine() -> Any:  # noqa: ANN401 - its client has no types
    client = connect()
    if client is None:
        raise UserError("no Docker engine answers; start one")
    return client


def clean_images_command(days: float, say: Say, *, yes: bool = False) -> int:
    """Remove the images with installed projects that are ``days`` old; ``yes``: do not ask."""
    client = connect_engine()
    now = datetime.now(UTC)
    oldest = now - timedelta(days=days)
    images = []
    size = 0
    for image in installed_images(client):
        if image.created <= oldest:
            images.append(image)
            size += image.size
            say(image.describe(now))
    gigabytes = size / 1e9
    count = f"images: {len(images)} ({gigabytes:.1f} GB)"
    if images and not yes:
        if not sys.stdin.isatty():
            raise UserError(f"clean --images removes {count}: give --yes to confirm")
        if not typer.confirm(f"Remove {count}?"):
            images = []
            count = "nothing"
    remove_images(client, images)
    client.close()
    say(f"removed {count}")
    return 0


def clean_command(
    store: RunStore,
    cache: Path,
    say: Say,
    *,
    everything: bool = False,
    yes: bool = False,
) -> int:
    """Remove what a killed process of a run left, or ``everything`` of it; ``yes``: do not ask."""
    folders = [folder for folder in (store.folder, store.logs) if folder.is_dir()]
    if not folders:
        raise store.missing()
    if not everything and store.folder not in folders:
        raise UserError(
            f"there is no run {store.folder}, but {store.logs} is left of it; "
            "harness.py clean --all removes it"
        )
    if everything and not yes:
        names = " and ".join(map(str, folders))
        if not sys.stdin.isatty():
            raise UserError(f"clean --all removes {names}: give --yes to confirm")
        if not typer.confirm(f"Remove {names}?"):
            say("nothing was removed")
            return 0
    with run_lock(store.folder):
        removed = clean(store, cache, containers=True)
        if everything:
            for folder in (store.folder, store.logs):
                if folder.is_dir():
                    shutil.rmtree(folder)
            removed += map(str, folders)
    for thing in removed or ["nothing: no process of this run left anything"]:
        say(f"removed {thing}")
    return 0
