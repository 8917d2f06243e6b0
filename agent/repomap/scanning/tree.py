"""List the files of a folder with their git blob hashes, with or without git."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from swe_retry.agent.grammars import language_of
from swe_retry.core.errors import UserError
from swe_retry.core.git import git, git_result

_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules"})


def blobs_below(root: Path) -> dict[str, str]:
    """Return path to blob hash for the current files of ``root``.

    In a git checkout these are the tracked files, else all but hidden files; links are left out.
    Outside git, files without a grammar have an empty hash, as the map does not read them.
    """
    if not root.is_dir():
        raise UserError(f"{root} is not a folder")
    blobs = _tracked_files(root)
    if blobs:
        return blobs
    for path in sorted(_walk(root)):
        blobs[path] = ""
        if language_of(path):
            blobs[path] = blob_hash((root / path).read_bytes())
    return blobs


def blob_hash(data: bytes) -> str:
    """Return the hash that git gives to a file with the contents ``data``."""
    content = b"blob %d\0" % len(data) + data
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def _tracked_files(root: Path) -> dict[str, str]:
    """Return the tracked files; those that are not clean in git's stat cache are hashed again."""
    listing = git_result("ls-files", "--stage", "-z", cwd=root)
    if listing.returncode:
        return {}
    blobs = {}
    entries = listing.stdout.split(b"\0")
    for entry in filter(None, entries):
        meta, _, path = entry.partition(b"\t")
        mode, blob, _ = meta.decode().split()
        if mode.startswith("100"):
            blobs[os.fsdecode(path)] = blob
    changed = git("diff-files", "--name-only", "--relative", "-z", cwd=root)
    for name in map(os.fsdecode, changed.split(b"\0")):
        if name not in blobs:
            continue
        if _is_file(root / name):
            blobs[name] = blob_hash((root / name).read_bytes())
        else:
            del blobs[name]
    return blobs


def _walk(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        for name in list(folders):
            if name[0] == "." or name in _SKIPPED_FOLDERS:
                folders.remove(name)
        for file in files:
            path = Path(folder, file)
            if _is_file(path) and os.access(path, os.R_OK):
                yield path.relative_to(root).as_posix()


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
