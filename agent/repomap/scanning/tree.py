"""List the files of a folder with their git blob hashes, with or without git."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from agent.grammars import language_of
from core.errors import UserError
from core.git import git, git_result

_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules"})


def blobs_below(root: Path) -> dict[str, str]:
    """Return path to blob hash for the current files of ``root``.

    In a git checkout these are the tracked files, else all but hidden files; links are left out.
    Outside git, files without a grammar have an empty hash, as the map does not read them.
    """
    if not root.is_dir():
        raise UserError(f"{root} is not a folder")
    return _tracked(root) or {
        path: blob_hash((root / path).read_bytes()) if language_of(path) else ""
        for path in sorted(_walk(root))
    }


def blob_hash(data: bytes) -> str:
    """Return the hash that git gives to a file with the contents ``data``."""
    return hashlib.sha1(
        b"blob %d\0" % len(data) + data, usedforsecurity=False
    ).hexdigest()


def _tracked(root: Path) -> dict[str, str]:
    """Return the tracked files; those that are not clean in git's stat cache are hashed again."""
    listing = git_result("ls-files", "--stage", "-z", cwd=root)
    if listing.returncode:
        return {}
    blobs = {}
    for entry in filter(None, listing.stdout.split(b"\0")):
        meta, _, path = entry.partition(b"\t")
        mode, blob, _ = meta.decode().split()
        if mode.startswith("100"):
            blobs[os.fsdecode(path)] = blob
    changed = git("diff-files", "--name-only", "--relative", "-z", cwd=root)
    for name in map(os.fsdecode, filter(None, changed.split(b"\0"))):
        if name in blobs and not _is_file(root / name):
            del blobs[name]
        elif name in blobs:
            blobs[name] = blob_hash((root / name).read_bytes())
    return blobs


def _walk(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f[0] != "." and f not in _SKIPPED_FOLDERS]
        for file in files:
            place = Path(folder, file)
            if _is_file(place) and os.access(place, os.R_OK):
                yield place.relative_to(root).as_posix()


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
