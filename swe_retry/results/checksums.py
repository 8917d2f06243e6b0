"""The checksums of a run's files, which the report writes last: ``checksums.txt``.

``sha256sum --check`` reads them in the folder that holds ``predictions/`` and ``logs/``, without
the last line, a comment with the checksum of the lines above it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from swe_retry.core.atomic import write_text_atomic
from swe_retry.core.errors import DamagedFileError, UserError
from swe_retry.core.hashing import sha256_of
from swe_retry.record.runlock import LOCK_FILES, run_lock
from swe_retry.record.store import RunStore


def checksums_file(store: RunStore) -> Path:
    return store.folder / "checksums.txt"


def _files(store: RunStore) -> Iterator[Path]:
    """Yield the files of a run but for pages, which repeat ``stats.json``, and lock files.

    Names that do not fit on a line are of users' files.
    """
    pages = store.folder / "report"
    checksums = checksums_file(store)
    for folder in (store.folder, store.logs):
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            if not path.is_file() or path == checksums or not name.isprintable():
                continue
            if path.name not in LOCK_FILES and pages not in path.parents:
                yield path


def write_checksums(store: RunStore) -> None:
    """Write the checksums, unless a process works on the run: its files change."""
    with suppress(UserError), run_lock(store.folder):
        text = ""
        for path in _files(store):
            name = path.relative_to(store.out)
            text += f"{sha256_of(path.read_bytes())}  {name.as_posix()}\n"
        write_text_atomic(checksums_file(store), f"{text}# {sha256_of(text)}\n")


def compare_checksums(store: RunStore) -> Iterator[tuple[Path, str]]:
    """Yield each file that differs from its checksum, with what differs.

    Users add notes and logs of their own; a file of an instance has its name, and so its owner.

    Raises:
        FileNotFoundError: there are no checksums.
        DamagedFileError: they cannot be read.
    """
    checksums = checksums_file(store)
    content = checksums.read_text("utf-8", "replace")
    text, _, own_sha256 = content.rpartition("# ")
    if own_sha256 != f"{sha256_of(text)}\n":
        raise DamagedFileError(checksums, "is not as it was written", "report again")
    recorded = {}
    for line in text.split("\n")[:-1]:
        sha256, name = line.split("  ", 1)
        recorded[store.out / name] = sha256
    present = set(_files(store))
    for path in sorted(recorded.keys() - present):
        yield path, "is missing, and was there when the run was reported"
    for path in sorted(present):
        if path not in recorded and "__" in path.name:
            yield path, "was not there when the run was reported"
        if path in recorded and recorded[path] != sha256_of(path.read_bytes()):
            yield path, "was changed after the run was reported"
