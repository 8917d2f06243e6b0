"""Write changes of a tree to disk: beside the base tree for a sandbox, or in a copy of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from agent.workspace import UnsafePathError
from core.errors import InfrastructureError
from core.processes import remove_tree
from core.worktree import Changes

FILES, DELETED = "files", "deleted"


def lay_beside(folder: Path, template: Path, changes: Changes) -> None:
    """Write new contents below ``folder``/FILES and NUL-terminated paths to remove to DELETED.

    To remove are deleted paths, and links and folders of ``template`` in the place of new files.

    Raises:
        InfrastructureError: a path cannot be written, or leads out of ``template``.
    """
    try:
        shutil.rmtree(folder, ignore_errors=True)
        (folder / FILES).mkdir(parents=True)
        for path, data in changes.items():
            _check(path)
            if data is not None:
                _write(folder / FILES / path, data)
        gone = [path for path, data in changes.items() if data is None]
        gone += {found for path in set(changes) - {*gone} if (found := _in_the_way(template, path))}
        (folder / DELETED).write_bytes(listed(gone))
    except (OSError, UnsafePathError) as error:
        raise InfrastructureError(f"cannot lay out {folder}: {error}") from error


def lay_out(folder: Path, template: Path, changes: Changes) -> None:
    """Make ``folder`` a copy of ``template`` with ``changes``; raises like ``lay_beside``."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(template, folder, symlinks=True)
        for path, data in changes.items():
            _check(path)
            # Paths below a link do not belong to this tree.
            if data is None and _in_the_way(folder, path) in ("", path):
                remove_tree(folder / path)
        for path, data in changes.items():
            if data is not None:
                while found := _in_the_way(folder, path):
                    remove_tree(folder / found)
                _write(folder / path, data)
    except (OSError, UnsafePathError) as error:
        raise InfrastructureError(f"cannot lay out {folder}: {error}") from error


def listed(paths: Iterable[str]) -> bytes:
    """Return paths in the format that ``xargs -0`` reads."""
    return b"".join(os.fsencode(f"{path}\0") for path in paths)


def size_of(folder: Path) -> int:
    """Return the bytes that the files below ``folder`` use on disk."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(place) / name).lstat().st_blocks * 512
            except OSError:
                continue
    return total


def _check(path: str) -> None:
    """Refuse paths that no git tree can hold; links are checked when a file is written."""
    if path.startswith("/") or {"", ".", ".."} & {*path.split("/")}:
        raise UnsafePathError(f"{path!a} is no path within a tree")


def _in_the_way(tree: Path, path: str) -> str:
    """Return the part of ``path`` that is in the way of its file or folders; empty for none.

    Changes come from a git tree, where a link or folder may have become a file, or vice versa.
    """
    parts = PurePosixPath(path).parts
    for count in range(1, len(parts) + 1):
        place = tree.joinpath(*parts[:count])
        last = count == len(parts)
        if place.is_symlink() or (place.exists() and place.is_dir() is last):
            return "/".join(parts[:count])
    return ""


def _write(place: Path, data: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
