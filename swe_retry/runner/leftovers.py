"""What a killed process leaves behind: found by the key of its run, and removed.

Several workers of one run share a node of a cluster. Each has its own key, which marks its
processes, containers and files, and a lock that the system releases when the worker dies.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from swe_retry.core.atomic import UNFINISHED, remove_unfinished
from swe_retry.core.hashing import sha256_of
from swe_retry.core.processes import RUN_VARIABLE, kill_marked, remove_tree
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.leftovers import remove_containers
from swe_retry.environments.local.confinement import remove_groups
from swe_retry.record.store import RunStore

if TYPE_CHECKING:  # it loads asyncio
    from filelock import FileLock

_SWEEPING = ".sweep.lock"


def run_key(folder: Path) -> str:
    """Return the name by which a run's processes, containers and work folders are known."""
    return sha256_of(str(folder.resolve()))[:16]


def clean(store: RunStore, cache: Path, *, containers: bool) -> list[str]:
    """Remove what killed processes of the run left, and dead Ray workers on this machine."""
    left = clean_run(store, cache, containers=containers)
    return left + sweep_here(cache, containers=containers)


def clean_run(store: RunStore, cache: Path, *, containers: bool) -> list[str]:
    """Remove what processes of the run left and return what it was; the caller holds its lock."""
    key = run_key(store.folder)
    removed = clean_key(key, containers=containers)
    return removed + remove_files(cache / "work" / key, store.folder, store.logs)


def clean_key(key: str, *, containers: bool) -> list[str]:
    """Remove the processes, control groups and, if wanted, containers that carry ``key``."""
    removed = kill_processes(key) + [
        f"control group {name}" for name in remove_groups(key)
    ]
    if containers and (client := connect()) is not None:
        removed += remove_containers(client, key)
        client.close()
    return removed


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
    """Remove the work folder and half-written files in ``folders``, and return which.

    A report that works on the same run meanwhile keeps its own.
    """
    removed = []
    if work.exists():
        removed.append(f"folder {work}")
        remove_tree(work)
    for folder in folders:
        for path in folder.rglob(f".*{UNFINISHED}"):
            if remove_unfinished(path):
                removed.append(f"file {path}")
    return removed


def node_cache(cache: Path, name: str) -> Path:
    """Return the folder of a node's mirrors, snapshots, environments and baselines."""
    return cache / "nodes" / name


@dataclass(frozen=True)
class Claim:
    """A worker's key on its node, valid while ``lock`` is held: until the process ends."""

    key: str
    lock: FileLock


def claim(cache: Path, run_key: str) -> Claim:
    """Take a new key on the node whose folder is ``cache``."""
    from filelock import FileLock

    work = cache / "work"
    work.mkdir(parents=True, exist_ok=True)
    # A sweep must not come between the creation of a lock and its acquisition.
    with FileLock(work / _SWEEPING):
        key = f"{run_key}.{secrets.token_hex(8)}"
        lock = FileLock(work / f"{key}.lock", is_singleton=False)
        lock.acquire(blocking=False)
    return Claim(key, lock)


def sweep(cache: Path, *, containers: bool) -> list[str]:
    """Remove what dead workers left on the node whose folder is ``cache``; return what it was.

    Args:
        containers: look for containers as well.
    """
    from filelock import FileLock

    work = cache / "work"
    if not work.is_dir():
        return []
    with FileLock(work / _SWEEPING):
        return [
            thing for path in _of_the_dead(work) for thing in _sweep(path, containers)
        ]


def sweep_here(cache: Path, *, containers: bool) -> list[str]:
    """Do the same for each node that lives on this machine."""
    nodes = sorted(node_cache(cache, "").glob("*"))
    return [thing for node in nodes for thing in sweep(node, containers=containers)]


def _of_the_dead(work: Path) -> Iterator[Path]:
    from filelock import FileLock, Timeout

    for path in sorted(work.glob("[!.]*.lock")):
        lock = FileLock(path, is_singleton=False)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            continue
        try:
            yield path
        finally:
            lock.release()


def _sweep(lock: Path, containers: bool) -> list[str]:
    removed = clean_key(lock.stem, containers=containers)
    folder = lock.with_suffix("")
    if folder.exists() and any(folder.iterdir()):
        removed.append(f"folder {folder}")
    remove_tree(folder)
    lock.unlink(missing_ok=True)
    return removed
