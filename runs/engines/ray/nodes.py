"""A node of a cluster: its name, its folder, and the removal of what dead workers left there.

Several workers of one run share a node. Each has its own key, which marks its processes, containers
and files, and a lock that the system releases when the worker dies.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.processes import remove_tree
from runs.leftovers import clean_key, clean_run
from runs.storage.store import RunStore

if TYPE_CHECKING:  # it loads asyncio
    from filelock import FileLock

NODE_VARIABLE = "SWE_RETRY_HARNESS_NODE"
"""Names a node in its environment, where its address does not: several nodes on one machine."""
_SWEEPING = ".sweep.lock"


def node_name(environ: Mapping[str, str], address: str) -> str:
    """Return the name of a node: the same after a restart, and a valid name of a folder."""
    return re.sub(r"[^\w.+-]", "-", environ.get(NODE_VARIABLE) or address).lstrip(".")


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
        return [thing for path in _of_the_dead(work) for thing in _swept(path, containers)]


def sweep_here(cache: Path, *, containers: bool) -> list[str]:
    """Do the same for each node that lives on this machine."""
    nodes = sorted(node_cache(cache, "").glob("*"))
    return [thing for node in nodes for thing in sweep(node, containers=containers)]


def clean(store: RunStore, cache: Path, *, containers: bool) -> list[str]:
    """Remove what killed processes of the run left, and dead Ray workers on this machine."""
    left = clean_run(store, cache, containers=containers)
    return left + sweep_here(cache, containers=containers)


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


def _swept(lock: Path, containers: bool) -> list[str]:
    found = clean_key(lock.stem, containers=containers)
    folder = lock.with_suffix("")
    if folder.exists() and any(folder.iterdir()):
        found.append(f"folder {folder}")
    remove_tree(folder)
    lock.unlink(missing_ok=True)
    return found
