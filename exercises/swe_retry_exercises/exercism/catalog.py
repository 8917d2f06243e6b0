"""Exercises: their files, and collections from a folder, an archive or the pinned commit.

Collections are hostile input: everything is read into memory within limits, nothing is unpacked.
"""

from __future__ import annotations

import gzip
import os
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from swe_retry.kit import (
    DamagedError,
    Mirrors,
    UserError,
    blob_contents,
    git,
    git_result,
    json_of,
    sha256_of,
    texts,
    value_at,
)
from swe_retry_exercises.exercism.languages import LANGUAGES, Language, language_of

CONFIG = ".meta/config.json"
# Instructions, the example and what explains it: no test needs them.
_NOT_TESTED = (".meta/", ".docs/", ".approaches/", ".articles/")


@dataclass(frozen=True)
class Exercise:
    """An exercise as it stands in its collection.

    Attributes:
        files: content by path, with ``/``, relative to the exercise.
        solution: paths of the files that a model may write, in the order of the configuration.
    """

    language: str
    name: str
    files: Mapping[str, bytes]
    solution: tuple[str, ...]
    tests: tuple[str, ...]
    examples: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{self.language}/{self.name}"

    @property
    def rules(self) -> Language:
        return LANGUAGES[self.language]

    @property
    def sha256(self) -> str:
        return tree_hash(self.files)

    def text(self, path: str) -> str:
        """Return a file as text with ``\\n`` line ends, empty if there is none."""
        try:
            text = self.files.get(path, b"").decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{self.key}: {path} is not UTF-8; correct the exercise"
            ) from error
        return text.replace("\r\n", "\n")

    def stubs(self) -> dict[str, bytes]:
        """Return the pristine solution files by path."""
        return {path: self.files[path] for path in self.solution}

    def tested_files(self, solution: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the folder that is tested: pristine files, and the bytes of solution files.

        Files of ``solution`` that are not solution files are left out, and tests are switched on.
        ``.meta`` and ``.docs`` are not there, so that no solution can read the example.
        """
        tested = {}
        for path, data in self.files.items():
            if not path.startswith(_NOT_TESTED):
                tested[path] = data
        if self.rules.test_edits:
            for path in self.tests:
                tested[path] = self.rules.enabled_tests(self.text(path)).encode()
        for path, source in self.rules.manifests.items():
            if source in self.files:
                tested[path] = self.files[source]
        for path in self.solution:
            if path in solution:
                tested[path] = solution[path]
        return tested

    def example(self) -> dict[str, bytes]:
        """Return the reference solution by path.

        Names, and then suffixes, match examples with solution files: their order in the
        configuration does not. A further file keeps its name and goes where the language has its
        sources.
        """
        example = {}
        free = list(self.solution)
        sources = list(self.examples)
        for mark in ("/", "."):
            for source in tuple(sources):
                end = source.rpartition(mark)[2]
                matches = []
                for path in free:
                    if path.rpartition(mark)[2] == end:
                        matches.append(path)
                if matches:
                    example[matches[0]] = self.files[source]
                    free.remove(matches[0])
                    sources.remove(source)
        for source in sources:
            name = source.rpartition("/")[2]
            example[self.rules.home + name] = self.files[source]
        return example

    def example_files(self) -> dict[str, bytes]:
        """Return the folder in which the reference solution is tested, with its further files."""
        example = self.example()
        return self.tested_files(example) | example


def exercise_of(name: str, files: Mapping[str, bytes]) -> Exercise | None:
    """Return the exercise in folder ``name``, None if its language is not among ``LANGUAGES``."""
    try:
        config = json_of(files[CONFIG])
    except DamagedError as error:
        raise UserError(
            f"{name}: {CONFIG} is broken ({error}); correct the exercise"
        ) from error
    # A path out of the exercise does not exist.
    listed = {}
    for kind in ("solution", "test", "example"):
        paths = dict.fromkeys(texts(value_at(config, "files", kind)))
        listed[kind] = tuple(path for path in paths if path in files)
    language = language_of(listed["solution"])
    if language is None and listed["solution"]:
        return None
    tests = listed["test"]
    solution = []
    for path in listed["solution"]:
        if language and language.is_solution(path) and path not in tests:
            solution.append(path)
    if language is None or not solution or not tests:
        kind = "test" if solution else "solution"
        raise UserError(
            f"{name}: {CONFIG} names no {kind} file that exists; correct the exercise"
        )
    return Exercise(
        language=language.name,
        name=name,
        files=dict(files),
        solution=tuple(solution),
        tests=tests,
        examples=listed["example"],
    )


def tree_hash(files: Mapping[str, bytes]) -> str:
    """Return the SHA-256 over the sorted paths and the hashes of their contents."""
    return hash_of(f"{path}\0{sha256_of(files[path])}\n" for path in sorted(files))


def hash_of(lines: Iterable[str]) -> str:
    return sha256_of("".join(lines).encode("utf-8", "surrogateescape"))


REPOSITORY = "exercism/python"
COMMIT = "7aef5e9a8940a624f3cd4d604e99955d610058bf"
"""The commit of the published runs, of 2023-06-07: 133 exercises."""
_PRACTICE = "exercises/practice/"
_MAX_FILE = 32 << 20
_MAX_TOTAL = 256 << 20
_MAX_FILES = 200_000
_IGNORED = frozenset({".git", "__pycache__", ".pytest_cache"})


@dataclass(frozen=True)
class Catalog:
    """A collection of exercises, sorted by key.

    Attributes:
        commit: with ``-dirty`` where files may differ from it; empty if there is none.
    """

    exercises: tuple[Exercise, ...]
    commit: str = ""

    @cached_property
    def sha256(self) -> str:
        return hash_of(f"{item.key}\0{item.sha256}\n" for item in self.exercises)


def read_catalog(path: Path) -> Catalog:
    """Return the exercises of a checkout, a folder of exercises, or a ``.tar.gz`` of it."""
    try:
        if path.is_dir():
            return catalog_of(
                _folder_files(path),
                path,
                _commit_of(path),
            )
        if path.is_file():
            return catalog_of(_archive_files(path), path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error
    raise UserError(
        f"there is no {path}; give a folder of exercises or a .tar.gz of it"
    )


def fetched_catalog(
    cache: Path, source: str = Mirrors.source, commit: str = COMMIT
) -> Catalog:
    """Return the exercises of the pinned commit; its repository is cloned into the cache once."""
    mirror = Mirrors(cache / "mirrors", source).get(REPOSITORY, commit)
    return catalog_of(
        _commit_files(mirror, commit),
        mirror,
        commit,
    )


def catalog_of(
    files: Iterable[tuple[str, bytes]],
    origin: Path,
    commit: str = "",
) -> Catalog:
    """Return the exercises in files with their paths; the layout shows where they are.

    An exercise is a folder with ``.meta/config.json``. In a checkout of exercism/python or
    polyglot-benchmark only those below ``exercises/practice`` count.
    """
    exercises = {}
    for folder, members in sorted(_folders(_read_within_limits(files, origin)).items()):
        name = folder.rstrip("/").rpartition("/")[2]
        exercise = exercise_of(name, members)
        if exercise is None:
            continue
        if exercise.key in exercises:
            raise UserError(
                f"{origin} holds {exercise.key} twice; choose a folder below it"
            )
        exercises[exercise.key] = exercise
    if not exercises:
        raise UserError(
            f"{origin} holds no exercises; give a checkout of {REPOSITORY} or polyglot-benchmark, "
            "or a folder of exercises"
        )
    return Catalog(
        tuple(exercises[key] for key in sorted(exercises)),
        commit,
    )


def _read_within_limits(
    files: Iterable[tuple[str, bytes]],
    origin: Path,
) -> dict[str, bytes]:
    tree: dict[str, bytes] = {}
    total = 0
    for path, data in files:
        total += len(data)
        if path in tree:
            raise UserError(f"{origin} holds {path!r} twice; make it again")
        if total > _MAX_TOTAL or len(tree) >= _MAX_FILES:
            raise UserError(
                f"{origin} is too large for exercises; choose a smaller folder"
            )
        tree[path] = data
    return tree


def _folders(tree: Mapping[str, bytes]) -> dict[str, dict[str, bytes]]:
    """Return the files of each exercise by its folder."""
    ends = f"/{CONFIG}"
    names = []
    practice = []
    for path in tree:
        name = path.removesuffix(CONFIG)
        if path.endswith(ends):
            names.append(name)
            if _PRACTICE in f"/{name}":
                practice.append(name)
    folders: dict[str, dict[str, bytes]] = {name: {} for name in practice or names}
    for path, data in tree.items():
        for slash in re.finditer("/", path):
            folder = path[: slash.end()]
            if folder in folders:
                folders[folder][path.removeprefix(folder)] = data
                break
    return folders


def _folder_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _IGNORED)
        for name in sorted(names):
            path = Path(root, name)
            if path.is_symlink() or not path.is_file() or name.endswith(".pyc"):
                continue
            _check_size(path, path.stat().st_size)
            yield path.relative_to(folder).as_posix(), path.read_bytes()


def _archive_files(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with gzip.open(path) as stream:
            # Only the annotation asks for more than `read`.
            limited: Any = _LimitedStream(stream)
            with tarfile.open(fileobj=limited, mode="r|") as archive:
                for member in archive:
                    name = _safe_path(member.name, path)
                    if not member.isreg() or member.issparse():
                        continue
                    if _IGNORED.isdisjoint(name.split("/")):
                        _check_size(path / name, member.size)
                        content = archive.extractfile(member)
                        yield name, content.read() if content else b""
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError) as error:
        raise UserError(
            f"{path} is not an archive (.tar.gz) that can be read: {error}"
        ) from error


@dataclass
class _LimitedStream:
    """Ends with an error after a number of bytes: archives may expand to anything."""

    stream: gzip.GzipFile
    left: int = 2 * _MAX_TOTAL

    def read(self, size: int) -> bytes:
        data = self.stream.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise ValueError("it expands to too much")
        return data


def _commit_files(mirror: Path, commit: str) -> Iterator[tuple[str, bytes]]:
    """Yield blobs from the object store: ``git archive`` would obey attributes of the tree."""
    blobs = {}
    total = 0
    listing = git(
        "ls-tree",
        "-r",
        "-z",
        "-l",
        commit,
        "--",
        _PRACTICE,
        cwd=mirror,
    )
    for line in listing.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        entry, _, name = line.partition("\t")
        mode, kind, blob, size = entry.split()
        if kind == "blob" and mode.startswith("100"):
            _check_size(mirror / name, int(size))
            blobs[_safe_path(name, mirror)] = blob
            total += int(size)
    if total > _MAX_TOTAL:
        raise UserError(
            f"{mirror} is too large for exercises at {commit}; choose another commit"
        )
    yield from zip(
        blobs,
        blob_contents(list(blobs.values()), mirror),
        strict=True,
    )


def _commit_of(folder: Path) -> str:
    head = git_result(
        "rev-parse",
        "HEAD",
        "--show-prefix",
        cwd=folder,
    )
    commit, _, prefix = head.stdout.decode().partition("\n")
    # An exercise folder inside another project's repository has no commit of its own.
    is_practice = not prefix.strip() or _PRACTICE in f"/{prefix.strip()}"
    if head.returncode or not is_practice:
        return ""
    changes = git_result(
        "status",
        "--porcelain",
        "--",
        ".",
        cwd=folder,
    )
    if changes.returncode or changes.stdout:
        return f"{commit}-dirty"
    return commit


def _check_size(path: Path, size: int) -> None:
    if size > _MAX_FILE:
        raise UserError(
            f"{path} has {size:,} bytes, and {_MAX_FILE:,} are the most; remove it"
        )


def _safe_path(name: str, origin: Path) -> str:
    path = PurePosixPath(name)
    # Surrogates, of bytes that are not UTF-8, are not printable.
    unsafe = path.is_absolute() or ".." in path.parts or "\\" in name
    if unsafe or not name or not name.isprintable():
        raise UserError(
            f"{origin} holds the path {name!r}, which is not safe; do not use it"
        )
    return str(path)
