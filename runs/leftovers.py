"""What a killed process leaves behind: found by the key of its run, and removed."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from core.atomic import UNFINISHED
from core.processes import RUN_VARIABLE, kill_marked, remove_tree
from environments.docker.engine import connect
from environments.leftovers import remove_containers
from environments.local.confinement import remove_groups
from runs.storage.store import RunStore


def run_key(folder: Path) -> str:
    """Return the name by which a run's processes, containers and work folders are known."""
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]


def clean_run(store: RunStore, cache: Path, *, containers: bool) -> list[str]:
    """Remove what processes of the run left and return what it was; the caller holds its lock."""
    key = run_key(store.folder)
    found = clean_key(key, containers=containers)
    return found + remove_files(cache / "work" / key, store.folder, store.logs)


def clean_key(key: str, *, containers: bool) -> list[str]:
    """Remove the processes, control groups and, if wanted, containers that carry ``key``."""
    found = kill_processes(key) + [f"control group {name}" for name in remove_groups(key)]
    if containers and (client := connect()) is not None:
        found += remove_containers(client, key)
        client.close()
    return found


@contextlib.contextmanager
def marked_children(key: str) -> Iterator[None]:
    """Put the run's key into the environment of every process that is started meanwhile."""
    before = os.environ.get(RUN_VARIABLE, "")
    mark_children(key)
    try:
        yield
    finally:
        mark_children(before)


def mark_children(key: str) -> None:
    """Put the run's key into the environment of every process that is started from now on."""
    os.environ[RUN_VARIABLE] = key


def kill_processes(key: str) -> list[str]:
    """Kill all processes that carry ``key`` but this one, and return which (on Linux)."""
    return kill_marked(f"{RUN_VARIABLE}={key}")


def remove_files(work: Path, *folders: Path) -> list[str]:
    """Remove the work folder and the half-written files in ``folders``, and return which."""
    found = []
    if work.exists():
        found.append(f"folder {work}")
        remove_tree(work)
    for folder in folders:
        for path in folder.rglob(f".*{UNFINISHED}"):
            found.append(f"file {path}")
            path.unlink(missing_ok=True)
    return found
