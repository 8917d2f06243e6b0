"""The checksums of a run's files, which the report writes last: ``checksums.txt``.

``sha256sum --check`` reads them in the folder that holds ``predictions/`` and ``logs/``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from core.atomic import write_text_atomic
from core.errors import DamagedFileError
from runs.storage.store import RunStore

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def checksums_file(store: RunStore) -> Path:
    return store.folder / "checksums.txt"


def _files(store: RunStore) -> Iterator[Path]:
    """Yield the files of a run but for pages, which repeat ``stats.json``, and lock files."""
    pages = store.folder / "report"
    checksums = checksums_file(store)
    for folder in (store.folder, store.logs):
        for path in sorted(folder.rglob("*")):
            if not path.is_file() or path == checksums:
                continue
            if path.suffix != ".lock" and pages not in path.parents:
                yield path


def _sha256(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha256(content).hexdigest()


def write_checksums(store: RunStore) -> None:
    lines = []
    for path in _files(store):
        name = path.relative_to(store.out)
        lines.append(f"{_sha256(path)}  {name.as_posix()}\n")
    text = "".join(lines)
    write_text_atomic(checksums_file(store), text)


def compare_checksums(store: RunStore) -> Iterator[tuple[Path, str]]:
    """Yield each file that differs from its checksum, with what differs.

    Users add notes and logs of their own; a file of an instance has its name, and so its owner.

    Raises:
        FileNotFoundError: there are no checksums.
        DamagedFileError: they cannot be read.
    """
    checksums = checksums_file(store)
    text = checksums.read_text("utf-8", "replace")
    recorded = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            problem = "has a line that is not a checksum"
            raise DamagedFileError(checksums, problem, "report again")
        path = store.out / match[2]
        recorded[path] = match[1]
    present = set(_files(store))
    for path in sorted(recorded.keys() - present):
        yield path, "is missing, and was there when the run was reported"
    for path in sorted(present):
        if path not in recorded and "__" in path.name:
            yield path, "was not there when the run was reported"
        if path in recorded and recorded[path] != _sha256(path):
            yield path, "was changed after the run was reported"
