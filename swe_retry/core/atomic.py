"""Write files atomically: the file is complete or unchanged."""

from __future__ import annotations

import fcntl
import glob
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from swe_retry.core.errors import UserError

UNFINISHED = ".tmp"
"""Suffix of unfinished files; killed processes may leave some."""
# The part of a name that ``tempfile`` generates.
_RANDOM = "????????"
_LONGEST = 80


@contextmanager
def writing_atomic(path: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Open a temporary name beside ``path``; flush it to disk and rename it after the block.

    An exception leaves ``path`` as it was. Without ``durable`` the file is complete, but may be
    lost when the machine stops.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = _make_unfinished(path)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            yield handle
            handle.flush()
            if durable:
                os.fsync(handle.fileno())
            # Closing ends the lock, and ``remove_unfinished`` might come between.
            temporary.chmod(0o644)
            temporary.replace(path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # a full disk names no file
        temporary.unlink(missing_ok=True)
        raise


def write_bytes_atomic(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write ``data`` as ``writing_atomic`` does."""
    with writing_atomic(path, durable=durable) as handle:
        handle.write(data)


def write_text_atomic(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8, atomically, with lone surrogates (of file names) as escapes."""
    write_bytes_atomic(path, text.encode("utf-8", "backslashreplace"))


def write_json_atomic(path: Path, value: Any) -> None:  # noqa: ANN401 - any JSON value
    """Write ``value`` as readable JSON with a final newline, atomically."""
    write_text_atomic(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


@contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """Create a folder beside ``path`` in which its content is made before it is renamed.

    The caller holds the lock of ``path``; see ``sweep``.
    """
    sweep(path)
    name = tempfile.mkdtemp(dir=path.parent, prefix=_prefix(path), suffix=UNFINISHED)
    try:
        yield Path(name)
    finally:
        shutil.rmtree(name, ignore_errors=True)


def sweep(path: Path) -> None:
    """Remove the unfinished files of ``path`` by killed processes; the caller holds its lock."""
    pattern = f"{glob.escape(_prefix(path))}{_RANDOM}{UNFINISHED}"
    for unfinished in path.parent.glob(pattern):
        if unfinished.is_dir():
            shutil.rmtree(unfinished, ignore_errors=True)
        else:
            unfinished.unlink(missing_ok=True)


def remove_unfinished(path: Path) -> bool:
    """Remove a file that no process on any host writes any longer; return whether it did."""
    try:
        with path.open("rb+") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _make_unfinished(path: Path) -> tuple[int, Path]:
    """Create a file beside ``path``, locked until it is closed."""
    while True:
        descriptor, name = tempfile.mkstemp(
            dir=path.parent, prefix=_prefix(path), suffix=UNFINISHED
        )
        with suppress(
            OSError
        ):  # a disk without locks, where ``remove_unfinished`` removes nothing
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if Path(name).exists():
            return descriptor, Path(name)
        os.close(descriptor)  # it was removed before it was locked


def _prefix(path: Path) -> str:
    beginning = os.fsencode(path.name)[:_LONGEST]
    return f".{os.fsdecode(beginning)}."


def check_folder(option: str, folder: Path) -> None:
    """Check that files can be written below ``folder``, without making it.

    Raises:
        UserError: naming ``option``.
    """
    parent = folder
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise UserError(f"{option} {folder}: {parent} is not a folder; choose another")
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        raise UserError(
            f"{option} {folder}: cannot write there ({error.strerror}); choose another folder"
        ) from error
