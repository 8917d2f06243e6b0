"""Read the files of a collection of exercises: a folder, an archive, or a commit.

Archives and repositories are hostile input: nothing is written, names that leave the collection are
refused, links and special files are left out, and sizes are limited.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from core.errors import UserError
from core.git import git

MIB = 1 << 20
_MOST_FILE, _MOST_TOTAL, _MOST_FILES = 32 * MIB, 256 * MIB, 200_000
_LEFT_OUT = {".git", "__pycache__", ".pytest_cache"}
Tree = dict[str, bytes]
"""Content by path with ``/``."""


def read_tree(place: Path) -> Tree:
    """Return the files of a folder or of a ``.tar.gz``.

    Raises:
        UserError: there is neither, or it cannot be used.
    """
    try:
        if place.is_dir():
            return _collected(_of_folder(place), place)
        if place.is_file():
            return _collected(_of_archive(place), place)
    except OSError as error:
        raise UserError(f"{place} cannot be read: {error.strerror or error}") from error
    raise UserError(f"there is no {place}; give a folder of exercises or a .tar.gz of it")


def tree_of_commit(mirror: Path, commit: str, folder: str) -> Tree:
    """Return the files below ``folder`` at a commit; paths are those of the repository.

    Raises:
        GitError: the repository lacks the commit.
        UserError: it has names that cannot be used, or too much.
    """
    return _collected(_of_commit(mirror, commit, folder), mirror)


def _collected(pairs: Iterator[tuple[str, int, bytes]], place: Path) -> Tree:
    tree, total = Tree(), 0
    for path, size, data in pairs:
        total += size
        if path in tree:
            raise UserError(f"{place} holds {path!r} twice; make it again")
        if total > _MOST_TOTAL or len(tree) >= _MOST_FILES:
            raise UserError(f"{place} is too large for exercises; choose a smaller folder")
        tree[path] = data
    return tree


def _of_folder(folder: Path) -> Iterator[tuple[str, int, bytes]]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        for name in sorted(names):
            path = Path(root, name)
            if path.is_symlink() or not path.is_file() or name.endswith(".pyc"):
                continue
            _check_size(path, path.stat().st_size)
            data = path.read_bytes()
            yield path.relative_to(folder).as_posix(), len(data), data


def _of_archive(path: Path) -> Iterator[tuple[str, int, bytes]]:
    try:
        # Only the annotation asks for more than `read`.
        with (
            gzip.open(path) as stream,
            tarfile.open(fileobj=cast(Any, _Limited(stream)), mode="r|") as tar,
        ):
            for member in tar:
                name = _safe(member.name, path)
                if not member.isreg() or member.issparse() or _LEFT_OUT & {*name.split("/")}:
                    continue
                _check_size(path / name, member.size)
                content = tar.extractfile(member)
                data = content.read() if content else b""
                yield name, len(data), data
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
        raise UserError(f"{path} is no archive (.tar.gz) that can be read: {error}") from error


class _Limited:
    """A stream that ends with an error after a number of bytes: archives may expand to anything."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream, self._left = stream, 2 * _MOST_TOTAL

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes."""
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ValueError("it expands to too much")
        return data


def _of_commit(mirror: Path, commit: str, folder: str) -> Iterator[tuple[str, int, bytes]]:
    """Yield blobs from the object store: ``git archive`` would obey attributes of the tree."""
    listed = git("ls-tree", "-r", "-z", "-l", commit, "--", f"{folder}/", cwd=mirror)
    found: list[tuple[str, int, str]] = []
    for line in filter(None, listed.decode("utf-8", "surrogateescape").split("\0")):
        facts, _, name = line.partition("\t")
        mode, kind, blob, digits = facts.split()
        if kind == "blob" and mode.startswith("100"):
            _check_size(mirror / name, int(digits))
            found.append((_safe(name, mirror), int(digits), blob))
    if sum(size for _, size, _ in found) > _MOST_TOTAL:
        raise UserError(f"{mirror} is too large for exercises at {commit}; choose another commit")
    asked = "".join(f"{blob}\n" for *_, blob in found).encode()
    every = git("cat-file", "--batch", cwd=mirror, stdin=asked)
    start = 0
    for name, size, _ in found:
        start = every.index(b"\n", start) + 1  # after the line of hash, type and size
        yield name, size, every[start : start + size]
        start += size + 1


def _check_size(path: Path, size: int) -> None:
    if size > _MOST_FILE:
        raise UserError(f"{path} has {size:,} bytes, and {_MOST_FILE:,} are the most; remove it")


def _safe(name: str, place: Path) -> str:
    """Return the name of a member without ``./``.

    Raises:
        UserError: it leads out of the collection, or is no text.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    printable = False
    with suppress(UnicodeEncodeError):
        printable = bool(name.encode()) and name.isprintable()
    if name.startswith("/") or ".." in parts or "\\" in name or not printable:
        raise UserError(f"{place} holds the path {name!r}, which is not safe; do not use it")
    return "/".join(parts)
