"""Detect whether folders that are kept between runs were changed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from core.atomic import write_text_atomic
from core.worktree import stamps


def seal(marker: Path, key: str, folders: Sequence[Path]) -> None:
    """Record in ``marker`` that ``folders`` are complete, with a hash of their state."""
    write_text_atomic(marker, f"{key}\n{_look(folders, marker)}\n")


def unchanged(marker: Path, key: str, folders: Sequence[Path]) -> bool:
    """Tell whether ``folders`` were sealed for ``key`` and not changed since.

    Test code without a sandbox could write there with the user's rights. Only the kernel sets the
    time of a file's last change, so contents need not be read.
    """
    try:
        return marker.read_text(encoding="utf-8") == f"{key}\n{_look(folders, marker)}\n"
    except (OSError, UnicodeDecodeError):
        return False


def _look(folders: Sequence[Path], marker: Path) -> str:
    """Return a hash of the paths, kinds, sizes and times of all files in ``folders``."""
    found = hashlib.sha256()
    for folder in folders:
        for path, stamp in sorted(stamps(folder).items()):
            if folder / path != marker:
                found.update(f"{path}\0{tuple(stamp)}\0".encode("utf-8", "surrogateescape"))
    return found.hexdigest()
