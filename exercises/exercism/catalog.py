"""Which exercises there are: from a folder, an archive or the pinned commit."""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from bench.repos.mirrors import GITHUB, Mirrors
from core.errors import UserError
from core.git import blob_contents, git, git_result
from core.parsing.untrusted import MIB
from exercises.exercism.exercise import CONFIG, Exercise, exercise_of, hash_of

REPOSITORY = "exercism/python"
COMMIT = "7aef5e9a8940a624f3cd4d604e99955d610058bf"
"""The commit of the published runs, of 2023-06-07: 133 exercises."""
_PRACTICE = "exercises/practice/"


@dataclass(frozen=True)
class Catalog:
    """A collection of exercises.

    Attributes:
        commit: with ``-dirty`` where files may differ from it; empty if there is none.
        unknown: names of exercises in languages that are not among ``LANGUAGES``.
    """

    exercises: tuple[Exercise, ...]
    commit: str = ""
    unknown: tuple[str, ...] = ()

    @cached_property
    def sha256(self) -> str:
        return hash_of(f"{one.key}\0{one.sha256}\n" for one in self.exercises)


def catalog_of(tree: Mapping[str, bytes], place: str, commit: str = "") -> Catalog:
    """Return the exercises in files by path; the layout shows where they are. Pure.

    An exercise is a folder with ``.meta/config.json``. In a checkout of exercism/python or
    polyglot-benchmark only those below ``exercises/practice`` count.
    """
    folders = [p.removesuffix(CONFIG) for p in tree if p.endswith(f"/{CONFIG}")]
    practice = [folder for folder in folders if _PRACTICE in f"/{folder}"]
    members: dict[str, dict[str, bytes]] = {
        folder: {} for folder in practice or folders
    }
    for path, data in tree.items():
        parts = path.split("/")
        above = ("/".join(parts[:n]) + "/" for n in range(1, len(parts)))
        if (folder := next((one for one in above if one in members), None)) is not None:
            members[folder][path.removeprefix(folder)] = data
    found: dict[str, Exercise] = {}
    unknown = []
    for folder, files in sorted(members.items()):
        name = folder.rstrip("/").rpartition("/")[2]
        exercise = exercise_of(name, files)
        if exercise is None:
            unknown.append(name)
        elif exercise.key in found:
            raise UserError(
                f"{place} holds {exercise.key} twice; choose a folder below it"
            )
        else:
            found[exercise.key] = exercise
    if not found:
        raise UserError(
            f"{place} holds no exercises; give a checkout of {REPOSITORY} or polyglot-benchmark, "
            "or a folder of exercises"
        )
    return Catalog(tuple(found[key] for key in sorted(found)), commit, tuple(unknown))


def read_catalog(place: Path) -> Catalog:
    """Return the exercises of a checkout, a folder of exercises, or a ``.tar.gz`` of it."""
    try:
        if place.is_dir():
            tree = _collected(_of_folder(place), place)
        elif place.is_file():
            tree = _collected(_of_archive(place), place)
        else:
            raise UserError(
                f"there is no {place}; give a folder of exercises or a .tar.gz of it"
            )
    except OSError as error:
        raise UserError(f"{place} cannot be read: {error.strerror or error}") from error
    return catalog_of(tree, str(place), _commit_of(place))


def fetched_catalog(cache: Path, source: str = GITHUB, commit: str = COMMIT) -> Catalog:
    """Return the exercises of the pinned commit; its repository is cloned into the cache once."""
    mirror = Mirrors(cache / "mirrors", source).get(REPOSITORY, commit)
    tree = _collected(_of_commit(mirror, commit, _PRACTICE.rstrip("/")), mirror)
    return catalog_of(tree, f"{REPOSITORY} at {commit}", commit)


def _commit_of(folder: Path) -> str:
    if not folder.is_dir():
        return ""
    # An exercise folder inside another project's repository has no commit of its own.
    found = git_result("rev-parse", "HEAD", "--show-prefix", cwd=folder)
    commit, _, prefix = found.stdout.decode().partition("\n")
    practice = not prefix.strip() or _PRACTICE in f"/{prefix.strip()}"
    if found.returncode or not practice:
        return ""
    changed = git_result("status", "--porcelain", "--", ".", cwd=folder)
    return (
        commit if changed.returncode == 0 and not changed.stdout else f"{commit}-dirty"
    )


_MOST_FILE, _MOST_TOTAL, _MOST_FILES = 32 * MIB, 256 * MIB, 200_000
_LEFT_OUT = {".git", "__pycache__", ".pytest_cache"}


def _collected(pairs: Iterator[tuple[str, bytes]], place: Path) -> dict[str, bytes]:
    tree = dict[str, bytes]()
    total = 0
    for path, data in pairs:
        total += len(data)
        if path in tree:
            raise UserError(f"{place} holds {path!r} twice; make it again")
        if total > _MOST_TOTAL or len(tree) >= _MOST_FILES:
            raise UserError(
                f"{place} is too large for exercises; choose a smaller folder"
            )
        tree[path] = data
    return tree


def _of_folder(folder: Path) -> Iterator[tuple[str, bytes]]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        for name in sorted(names):
            path = Path(root, name)
            if path.is_symlink() or not path.is_file() or name.endswith(".pyc"):
                continue
            _check_size(path, path.stat().st_size)
            yield path.relative_to(folder).as_posix(), path.read_bytes()


def _of_archive(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        # Only the annotation asks for more than `read`.
        with (
            gzip.open(path) as stream,
            tarfile.open(fileobj=cast(Any, _Limited(stream)), mode="r|") as tar,
        ):
            for member in tar:
                name = _safe(member.name, path)
                if (
                    not member.isreg()
                    or member.issparse()
                    or _LEFT_OUT & {*name.split("/")}
                ):
                    continue
                _check_size(path / name, member.size)
                content = tar.extractfile(member)
                yield name, content.read() if content else b""
    except (
        tarfile.TarError,
        EOFError,
        zlib.error,
        gzip.BadGzipFile,
        ValueError,
    ) as error:
        raise UserError(
            f"{path} is not an archive (.tar.gz) that can be read: {error}"
        ) from error


class _Limited:
    """A stream that ends with an error after a number of bytes: archives may expand to anything."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream, self._left = stream, 2 * _MOST_TOTAL

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ValueError("it expands to too much")
        return data


def _of_commit(mirror: Path, commit: str, folder: str) -> Iterator[tuple[str, bytes]]:
    """Yield blobs from the object store: ``git archive`` would obey attributes of the tree."""
    listed = git("ls-tree", "-r", "-z", "-l", commit, "--", f"{folder}/", cwd=mirror)
    found = list[tuple[str, str]]()
    total = 0
    for line in filter(None, listed.decode("utf-8", "surrogateescape").split("\0")):
        facts, _, name = line.partition("\t")
        mode, kind, blob, digits = facts.split()
        if kind == "blob" and mode.startswith("100"):
            _check_size(mirror / name, int(digits))
            found.append((_safe(name, mirror), blob))
            total += int(digits)
    if total > _MOST_TOTAL:
        raise UserError(
            f"{mirror} is too large for exercises at {commit}; choose another commit"
        )
    contents = blob_contents([blob for _, blob in found], mirror)
    for (name, _), data in zip(found, contents, strict=True):
        yield name, data


def _check_size(path: Path, size: int) -> None:
    if size > _MOST_FILE:
        raise UserError(
            f"{path} has {size:,} bytes, and {_MOST_FILE:,} are the most; remove it"
        )


def _safe(name: str, place: Path) -> str:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    printable = False
    with suppress(UnicodeEncodeError):
        printable = bool(name.encode()) and name.isprintable()
    if name.startswith("/") or ".." in parts or "\\" in name or not printable:
        raise UserError(
            f"{place} holds the path {name!r}, which is not safe; do not use it"
        )
    return "/".join(parts)
