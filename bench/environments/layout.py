"""Lay a candidate's changes out: beside the base tree for a sandbox, or in a copy of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from agent.errors import InfrastructureError
from agent.workspace import UnsafePathError, Workspace
from bench.environments.base import Changes

FILES, DELETED = "files", "deleted"


def lay_beside(folder: Path, template: Path, changes: Changes) -> None:
    """Put new contents under ``folder``/FILES, and deleted paths, each ended by NUL, in DELETED.

    Raises:
        InfrastructureError: a path cannot be written, or leaves ``template`` through a link.
    """
    try:
        shutil.rmtree(folder, ignore_errors=True)
        (folder / FILES).mkdir(parents=True)
        _check(template, changes)
        for path, data in changes.items():
            if data is not None:
                _write(folder / FILES / path, data)
        gone = [path for path, data in changes.items() if data is None]
        names = b"".join(os.fsencode(f"{path}\0") for path in gone)
        (folder / DELETED).write_bytes(names)
    except (OSError, UnsafePathError) as error:
        raise InfrastructureError(f"cannot lay out {folder}: {error}") from error


def lay_out(folder: Path, template: Path, changes: Changes) -> None:
    """Make ``folder`` a copy of ``template`` with ``changes``; raises as ``lay_beside``."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(template, folder, symlinks=True)
        _check(folder, changes)
        for path, data in changes.items():
            if data is None:
                (folder / path).unlink(missing_ok=True)
        for path, data in changes.items():
            if data is not None:
                _write(folder / path, data)
    except (OSError, UnsafePathError) as error:
        raise InfrastructureError(f"cannot lay out {folder}: {error}") from error


def size_of(folder: Path) -> int:
    """Return the bytes that the files below ``folder`` take on the disk."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(place) / name).lstat().st_blocks * 512
            except OSError:
                continue
    return total


def _check(tree: Path, changes: Changes) -> None:
    space = Workspace(tree)
    for path in changes:
        space.check(path)


def _write(place: Path, data: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
